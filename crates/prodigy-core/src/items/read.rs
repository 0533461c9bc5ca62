//! From the bytes of an input to its values.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{Error, InputFormat, RawItems, RawItemsKind, csv};

/// Reads an input.
///
/// A byte order mark at the start and blank lines between records do not count.
pub fn read_items(bytes: &[u8], kind: InputFormat) -> Result<RawItems<'_>, Error> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let good = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let (line, column) = position(&String::from_utf8_lossy(good));
        Error::NotText { line, column }
    })?;
    match kind {
        InputFormat::Json => json(text),
        InputFormat::JsonLines => json_lines(text),
        InputFormat::Csv => rows(text, ','),
        InputFormat::Tsv => rows(text, '\t'),
        InputFormat::Output if looks_like_json(text) => documents(text),
        InputFormat::Lines | InputFormat::Output => {
            RawItems::from_texts(text.lines().filter(|line| !line.trim().is_empty()))
        }
    }
}

fn json(text: &str) -> Result<RawItems<'_>, Error> {
    let document: &RawValue = serde_json::from_str(text).map_err(|error| not_json(text, &error))?;
    Ok(RawItems { form: RawItemsKind::Documents, values: vec![Cow::Borrowed(document)] })
}

/// Reads line by line, so that a mistake in one is not reported in the next.
fn json_lines(text: &str) -> Result<RawItems<'_>, Error> {
    let mut values = Vec::new();
    for (index, line) in text.split('\n').enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let value: &RawValue = serde_json::from_str(line).map_err(|error| {
            let (column, reason) = (column(line, error.column()), reason(&error));
            Error::NotJson { line: index + 1, column, reason }
        })?;
        values.push(Cow::Borrowed(value));
    }
    Ok(RawItems { form: RawItemsKind::Records, values })
}

/// Reads documents one after the other: programs print one, one per line, or one per page.
fn documents(text: &str) -> Result<RawItems<'_>, Error> {
    let stream = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    let values = stream.map(|document| document.map(Cow::Borrowed)).collect::<Result<_, _>>();
    Ok(RawItems {
        form: RawItemsKind::Documents,
        values: values.map_err(|error| not_json(text, &error))?,
    })
}

fn rows(text: &str, separator: char) -> Result<RawItems<'_>, Error> {
    let values = csv::rows(text, separator)?.into_iter().map(Cow::Owned).collect();
    Ok(RawItems { form: RawItemsKind::Plain, values })
}

/// Returns whether output is meant to be JSON, even if it is damaged.
///
/// A `{` is enough. A `[` can also start the name of a file, as in `[slug]/page.tsx`, so it
/// counts only before something that can start a value.
fn looks_like_json(text: &str) -> bool {
    let text = text.trim_start();
    let Some(inside) = text.strip_prefix('[') else { return text.starts_with('{') };
    let inside = inside.trim_start();
    let literal = |word: &str| {
        let rest = inside.strip_prefix(word).map(str::trim_start);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([',', ']']))
    };
    inside.is_empty()
        || inside.starts_with(['{', '[', ']', '"', '-'])
        || inside.starts_with(|c: char| c.is_ascii_digit())
        || ["true", "false", "null"].into_iter().any(literal)
}

fn not_json(text: &str, error: &serde_json::Error) -> Error {
    let line = text.split('\n').nth(error.line().saturating_sub(1)).unwrap_or_default();
    let column = column(line, error.column());
    Error::NotJson { line: error.line().max(1), column, reason: reason(error) }
}

/// Returns what the parser says, without the place.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason).to_owned()
}

/// Turns a column in bytes into one in characters.
fn column(line: &str, bytes: usize) -> usize {
    line.char_indices().take_while(|(at, _)| *at < bytes).count().max(1)
}

/// Returns the line and the column, in characters, right behind a text.
pub(super) fn position(before: &str) -> (usize, usize) {
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}
