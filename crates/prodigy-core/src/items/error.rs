//! Errors of reading and selecting items.

use crate::json_path;

/// The reason why an input gives no items.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name of a file does not say that it holds items.
    #[error(
        "files that end in `.{extension}` are not read; items can be in `.json`, `.jsonl`, \
         `.ndjson`, `.csv` and `.tsv`, and one per line in `.txt`, `.list` and files without an \
         ending"
    )]
    UnknownKind {
        /// The ending, as written.
        extension: String,
    },
    /// The input is not text.
    #[error("line {line}, column {column}: the input is not UTF-8")]
    NotText {
        /// From 1.
        line: usize,
        /// In characters, from 1.
        column: usize,
    },
    /// The input is not JSON.
    #[error("line {line}, column {column}: {reason}")]
    NotJson {
        /// From 1.
        line: usize,
        /// In characters, from 1.
        column: usize,
        /// The parser's message.
        reason: String,
    },
    /// A row has too few or too many fields.
    #[error("line {line}: this row has {found} fields, but the header has {expected}")]
    Ragged {
        /// The first line of the row, from 1.
        line: usize,
        /// The number of fields in the header.
        expected: usize,
        /// The number of fields in the row.
        found: usize,
    },
    /// A quoted field has no end.
    #[error("line {line}, column {column}: this quote is never closed")]
    OpenQuote {
        /// From 1.
        line: usize,
        /// In characters, from 1.
        column: usize,
    },
    /// There is text between a closing quote and the next field.
    #[error(
        "line {line}, column {column}: expected the end of the field after its closing quote; \
         inside quotes, `\"\"` stands for a quote"
    )]
    AfterQuote {
        /// From 1.
        line: usize,
        /// In characters, from 1.
        column: usize,
    },
    /// Two columns have one name, so one of them would be lost.
    #[error("line {line}: the columns {first} and {second} are both called `{name}`")]
    SameColumn {
        /// The line of the header, from 1.
        line: usize,
        /// The name.
        name: String,
        /// The first column, from 1.
        first: usize,
        /// The second column, from 1.
        second: usize,
    },
    /// A path was given for an input that is not JSON.
    #[error("`json_path` leads into JSON, and this input is not JSON")]
    PathWithoutJson,
    /// A path could not be followed.
    #[error("`json_path` cannot be followed: {0}")]
    Path(#[from] json_path::Error),
    /// An item is JSON by its form, but has no value.
    #[error("item {position} of the input cannot be used: {source}")]
    BadItem {
        /// Its position in the input, from 1.
        position: usize,
        /// The parser's error.
        source: serde_json::Error,
    },
    /// An item has nothing to be named by.
    #[error(
        "item {position} of the input has no `{item_key}`, and `item_key` is to name every item"
    )]
    NoKey {
        /// Its position in the input, from 1.
        position: usize,
        /// The expression.
        item_key: String,
    },
    /// Two items have one name.
    #[error("the items {first} and {second} of the input have the same key `{key}`")]
    SameKey {
        /// The key.
        key: String,
        /// The position of one in the input, from 1.
        first: usize,
        /// The position of the other.
        second: usize,
    },
    /// A value could not be written as JSON.
    #[error("an item cannot be written as JSON")]
    Unwritable(#[source] serde_json::Error),
}
