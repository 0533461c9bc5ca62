//! Demands of a schema, ready to be checked.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Number, Value};

/// One schema; the schemas inside are known by their numbers.
#[derive(Debug)]
pub(super) enum SchemaRule {
    /// `false`
    Never,
    /// All of these; none for `true`.
    Each(Vec<SchemaConstraint>),
}

/// The demand of one keyword, or of several that belong together.
#[derive(Debug)]
pub(super) enum SchemaConstraint {
    /// `type`
    Types(Vec<JsonType>),
    /// `enum` and `const`, in canonical form.
    Among(Vec<String>),
    /// `required`
    Required(Vec<String>),
    /// `properties`, `patternProperties` and `additionalProperties`
    Properties {
        named: BTreeMap<String, usize>,
        patterns: Vec<(Regex, usize)>,
        others: Option<usize>,
    },
    /// `prefixItems` and `items`
    Elements { first: Vec<usize>, others: Option<usize> },
    /// `uniqueItems`
    Unique,
    /// `minLength`, `minItems` and `minProperties`
    Least(SizeMeasure, usize),
    /// `maxLength`, `maxItems` and `maxProperties`
    Most(SizeMeasure, usize),
    /// `pattern`
    Pattern(Regex),
    /// `minimum` and its like.
    Bound(NumberBound, Number),
    /// `multipleOf`
    MultipleOf(Number),
    /// `allOf` and `$ref`
    All(Vec<usize>),
    /// `anyOf`
    Any(Vec<usize>),
    /// `oneOf`
    One(Vec<usize>),
    /// `not`
    Not(usize),
    /// `if`, `then` and `else`
    Condition { test: usize, then: Option<usize>, otherwise: Option<usize> },
}

impl SchemaConstraint {
    /// Returns the schemas that are asked about the same value.
    pub(super) fn in_place(&self) -> Vec<usize> {
        match self {
            Self::All(rules) | Self::Any(rules) | Self::One(rules) => rules.clone(),
            Self::Not(rule) => vec![*rule],
            Self::Condition { test, then, otherwise } => {
                [Some(*test), *then, *otherwise].into_iter().flatten().collect()
            }
            Self::Types(_)
            | Self::Among(_)
            | Self::Required(_)
            | Self::Properties { .. }
            | Self::Elements { .. }
            | Self::Unique
            | Self::Least(..)
            | Self::Most(..)
            | Self::Pattern(_)
            | Self::Bound(..)
            | Self::MultipleOf(_) => Vec::new(),
        }
    }
}

/// A type of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JsonType {
    Null,
    Boolean,
    Object,
    Array,
    Number,
    Integer,
    String,
}

impl JsonType {
    pub(super) const ALL: [Self; 7] = [
        Self::Null,
        Self::Boolean,
        Self::Object,
        Self::Array,
        Self::Number,
        Self::Integer,
        Self::String,
    ];

    /// Returns the name that schemas use.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Object => "object",
            Self::Array => "array",
            Self::Number => "number",
            Self::Integer => "integer",
            Self::String => "string",
        }
    }

    /// Returns the type of a value; no value is only an integer.
    pub(super) fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Boolean,
            Value::Number(_) => Self::Number,
            Value::String(_) => Self::String,
            Value::Array(_) => Self::Array,
            Value::Object(_) => Self::Object,
        }
    }
}

/// The unit of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SizeMeasure {
    Characters,
    Elements,
    Properties,
}

impl SizeMeasure {
    /// Counts it; other types of values do not have it.
    pub(super) fn of(self, value: &Value) -> Option<usize> {
        match self {
            Self::Characters => value.as_str().map(|text| text.chars().count()),
            Self::Elements => value.as_array().map(Vec::len),
            Self::Properties => value.as_object().map(serde_json::Map::len),
        }
    }

    /// Returns a number of them in words.
    pub(super) fn counted(self, count: usize) -> String {
        let (one, many) = match self {
            Self::Characters => ("character", "characters"),
            Self::Elements => ("element", "elements"),
            Self::Properties => ("property", "properties"),
        };
        format!("{count} {}", if count == 1 { one } else { many })
    }
}

/// Which side of a number, and whether it is included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NumberBound {
    Minimum,
    Maximum,
    Above,
    Below,
}
