//! JSON Schema: whether a value has the form that an author asked for.
//!
//! The common part of draft 2020-12. What is outside of it is refused when the
//! schema is read, because a keyword that is passed over would let through what
//! it forbids. A schema becomes a flat list of rules that name each other by
//! number, so references cost nothing and neither reading nor checking can run
//! away: the depth and the number of steps are limited.

mod check;
mod number;
mod parse;
mod rule;

use std::{fmt, sync::Arc};

use serde_json::Value;

use self::rule::SchemaRule;

/// A schema that was read and can be used.
#[derive(Clone)]
pub struct OutputSchema {
    source: Value,
    /// The first is that of the whole schema.
    rules: Arc<[SchemaRule]>,
}

/// An error in a schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// Where in the schema, as a JSON pointer; empty for the whole.
    pub pointer: String,
    /// The error message.
    pub message: String,
    /// The way to fix it.
    pub help: Option<String>,
}

/// One thing about a value that a schema forbids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaViolation {
    /// Where in the value, as a JSON pointer; empty for the whole.
    pub path: String,
    /// The broken demand, to be read after the value's name.
    pub message: String,
}

impl OutputSchema {
    /// Reads a schema; the errors are all that is wrong with it.
    pub fn parse(source: &Value) -> Result<Self, Vec<Error>> {
        Ok(Self { rules: parse::rules(source)?.into(), source: source.clone() })
    }

    /// Returns the schema as written.
    pub fn source(&self) -> &Value {
        &self.source
    }

    /// Checks a value; the first violations are returned in the order of the schema.
    pub fn validate(&self, value: &Value) -> Result<(), Vec<SchemaViolation>> {
        check::check(&self.rules, value, check::MOST_STEPS)
    }
}

impl PartialEq for OutputSchema {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl fmt::Debug for OutputSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schema({})", self.source)
    }
}

impl fmt::Display for SchemaViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            write!(f, "the value {}", self.message)
        } else {
            // The names in it come from the value.
            write!(f, "`{}` {}", self.path.escape_debug(), self.message)
        }
    }
}

#[cfg(test)]
mod tests;
