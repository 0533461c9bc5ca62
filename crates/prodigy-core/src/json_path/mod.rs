//! Paths into JSON documents: `$.items[?@.score >= 5].path` (RFC 9535).
//!
//! A path is read once, when the workflow is loaded, so that a mistake in it has a
//! position. It works on the text of the document and gives back parts of that text:
//! nothing is copied, a number keeps every digit it was written with, and a large document
//! never exists as a tree in memory.
//!
//! All of the standard is there, with its five functions `length`, `count`, `value`,
//! `match` and `search`. Two things are said earlier than it asks for: a pattern written in the path
//! that is no regular expression, and a document nested too deeply, are errors and not
//! "no match". Where an object has a name twice, the last one counts.

mod ast;
mod eval;
mod filter_parser;
mod parser;
mod raw;

use std::fmt;

use serde_json::{Value, value::RawValue};

use crate::diagnostic::ParseError;

/// The maximum nesting of a document; the reader of JSON values has the same limit.
const DEEPEST: usize = 128;

/// A path could not be followed through a document.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A part of the document is not what JSON allows.
    #[error("the document cannot be read: {0}")]
    Document(#[from] serde_json::Error),
    /// The document is nested too deeply.
    #[error("the document is nested more than {DEEPEST} levels deep")]
    TooDeep,
}

/// A path that was read once and can be followed many times.
#[derive(Clone)]
pub struct JsonPath {
    source: String,
    hops: Vec<ast::QuerySegment>,
    /// The number of queries in filters that start at the root.
    root_queries: usize,
}

impl JsonPath {
    /// Reads a path.
    pub fn parse(source: &str) -> Result<Self, ParseError> {
        let (hops, root_queries) = parser::path(source)?;
        Ok(Self { source: source.to_owned(), hops, root_queries })
    }

    /// Returns the path to all of a document.
    pub fn root() -> Self {
        Self { source: "$".to_owned(), hops: Vec::new(), root_queries: 0 }
    }

    /// Returns the path as written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns whether the path leads to one part at most, in any document.
    pub fn is_singular(&self) -> bool {
        ast::is_singular(&self.hops)
    }

    /// Returns the parts of a document that the path leads to, in the order of the standard.
    pub fn select<'a>(&self, document: &'a RawValue) -> Result<Vec<&'a RawValue>, Error> {
        eval::PathEvaluator::new(document, self.root_queries).apply_segments(&self.hops, document)
    }

    /// Returns the parts of a document that are items.
    ///
    /// A path that can lead to one list only means the values in the list.
    pub fn select_items<'a>(&self, document: &'a RawValue) -> Result<Vec<&'a RawValue>, Error> {
        let parts = self.select(document)?;
        match parts.as_slice() {
            [list] if self.is_singular() && raw::is_list(list) => raw::children(list),
            _ => Ok(parts),
        }
    }

    /// Returns what the path leads to as one value: the part itself if there can be only one,
    /// else a list of all parts. `None` means that the one part is missing.
    pub fn select_value(&self, document: &RawValue) -> Result<Option<Value>, Error> {
        let parts = self.select(document)?;
        let mut values = parts.iter().map(|part| raw::value(part));
        if self.is_singular() {
            values.next().transpose()
        } else {
            values.collect::<Result<_, _>>().map(Some)
        }
    }
}

impl PartialEq for JsonPath {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for JsonPath {}

impl fmt::Debug for JsonPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JsonPath").field(&self.source).finish()
    }
}

#[cfg(test)]
mod tests;
