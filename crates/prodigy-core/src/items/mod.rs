//! The items of a MapReduce workflow: reading them, choosing them, naming them.
//!
//! An item stays the text that it was in the input until it is chosen. What expressions ask for is
//! read out of that text; the rest is checked and passed over, so that a hundred
//! thousand items cost little more than their own text.

mod csv;
mod error;
mod projection;
mod read;
mod select;

use std::{borrow::Cow, path::Path};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

pub use error::Error;
pub use read::read_items;
pub use select::{Item, Selection, explain_empty_selection, select};

/// The form an input is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InputFormat {
    /// One JSON document.
    Json,
    /// One JSON value per line.
    JsonLines,
    /// Fields with commas between them; the first row has their names.
    Csv,
    /// The same with tabs.
    Tsv,
    /// One text per line.
    Lines,
    /// JSON documents if it begins like that, else one text per line: what a command printed.
    Output,
}

impl InputFormat {
    /// Returns the form of an input that is given by its file's name, or by none.
    ///
    /// Without an ending the text itself tells.
    pub fn from_file_name(path: Option<&Path>) -> Result<Self, Error> {
        match path.filter(|path| path.extension().is_some()) {
            Some(path) => Self::from_path(path),
            None => Ok(Self::Output),
        }
    }

    /// Returns how a file is written, by its name.
    ///
    /// An ending that says something else is an error: taken as lines, a YAML
    /// file would start an agent for each of its lines.
    pub fn from_path(path: &Path) -> Result<Self, Error> {
        let Some(extension) = path.extension() else { return Ok(Self::Lines) };
        match extension.to_string_lossy().to_ascii_lowercase().as_str() {
            "json" => Ok(Self::Json),
            "jsonl" | "ndjson" => Ok(Self::JsonLines),
            "csv" => Ok(Self::Csv),
            "tsv" => Ok(Self::Tsv),
            "txt" | "list" => Ok(Self::Lines),
            _ => Err(Error::UnknownKind { extension: extension.to_string_lossy().into_owned() }),
        }
    }
}

/// Returns whether a text was meant to be the name of a file.
pub fn looks_like_path(text: &str) -> bool {
    let known = ["json", "jsonl", "ndjson", "csv", "tsv", "txt"];
    let extension = Path::new(text).extension().and_then(|extension| extension.to_str());
    let is_known = extension.is_some_and(|extension| known.contains(&extension));
    !text.contains(char::is_whitespace) && (is_known || text.contains('/'))
}

/// The content of an input, before items are selected from it.
#[derive(Debug)]
pub struct RawItems<'a> {
    form: RawItemsKind,
    values: Vec<Cow<'a, RawValue>>,
}

/// The form of the values of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RawItemsKind {
    /// Documents: the items are inside.
    Documents,
    /// JSON values that are items, unless a path leads into them.
    Records,
    /// Items, and no JSON that a path could lead into.
    Plain,
}

impl RawItems<'_> {
    /// Takes a list that stands in the workflow. A path sees it as one document.
    pub fn from_values(values: Vec<Value>) -> Result<Self, Error> {
        let document = to_raw_value(&Value::Array(values)).map_err(Error::Unwritable)?;
        Ok(Self { form: RawItemsKind::Documents, values: vec![Cow::Owned(document)] })
    }

    /// Takes texts, such as the names of files.
    pub fn from_texts<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Result<Self, Error> {
        let values = texts.into_iter().map(|text| to_raw_value(text.as_ref()).map(Cow::Owned));
        let values = values.collect::<Result<_, _>>().map_err(Error::Unwritable)?;
        Ok(Self { form: RawItemsKind::Plain, values })
    }
}

#[cfg(test)]
mod tests;
