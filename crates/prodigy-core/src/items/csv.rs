//! Tables: rows of fields (RFC 4180).

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use super::{Error, read::position};

/// Reads a table; each row becomes an object with the names of the header.
pub(super) fn rows(text: &str, separator: char) -> Result<Vec<Box<RawValue>>, Error> {
    let mut table = CsvReader { text, at: 0, line: 1, row_line: 1, separator };
    let Some(header) = table.row()? else { return Ok(Vec::new()) };
    let mut columns = BTreeMap::new();
    for (index, name) in header.iter().enumerate() {
        if let Some(first) = columns.insert(name, index + 1) {
            let name = name.clone().into_owned();
            return Err(Error::SameColumn { line: table.row_line, name, first, second: index + 1 });
        }
    }
    let mut rows = Vec::new();
    while let Some(fields) = table.row()? {
        if fields.len() != header.len() {
            let (expected, found) = (header.len(), fields.len());
            return Err(Error::Ragged { line: table.row_line, expected, found });
        }
        let row = CsvRow { header: &header, fields: &fields };
        rows.push(to_raw_value(&row).map_err(Error::Unwritable)?);
    }
    Ok(rows)
}

/// One row, as an object.
struct CsvRow<'r> {
    header: &'r [Cow<'r, str>],
    fields: &'r [Cow<'r, str>],
}

impl Serialize for CsvRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.header.iter().zip(self.fields))
    }
}

/// A place in a table.
struct CsvReader<'t> {
    text: &'t str,
    at: usize,
    line: usize,
    /// The first line of the last row.
    row_line: usize,
    separator: char,
}

impl<'t> CsvReader<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn take(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    /// Takes the end of a line.
    fn take_end(&mut self) -> bool {
        let found = self.take("\n") || self.take("\r\n");
        self.line += usize::from(found);
        found
    }

    /// Reads the next row that is not blank.
    fn row(&mut self) -> Result<Option<Vec<Cow<'t, str>>>, Error> {
        while self.take_end() {}
        if self.rest().is_empty() {
            return Ok(None);
        }
        self.row_line = self.line;
        let mut fields = Vec::new();
        loop {
            fields.push(if self.take("\"") { self.quoted()? } else { self.plain() });
            let mut buffer = [0; 4];
            if !self.take(self.separator.encode_utf8(&mut buffer)) {
                break;
            }
        }
        if !self.take_end() && !self.rest().is_empty() {
            let (line, column) = position(self.text.get(..self.at).unwrap_or_default());
            return Err(Error::AfterQuote { line, column });
        }
        Ok(Some(fields))
    }

    /// Reads a field up to the separator or the end of the line.
    fn plain(&mut self) -> Cow<'t, str> {
        let rest = self.rest();
        let end = rest.find([self.separator, '\n']).unwrap_or(rest.len());
        let field = rest.get(..end).unwrap_or_default();
        let at_end = rest.get(end..).is_some_and(|rest| rest.starts_with('\n'));
        let field = if at_end { field.strip_suffix('\r').unwrap_or(field) } else { field };
        self.at += field.len();
        Cow::Borrowed(field)
    }

    /// Reads a field up to its closing quote; the first quote was taken.
    fn quoted(&mut self) -> Result<Cow<'t, str>, Error> {
        let start = self.at;
        loop {
            let Some(quote) = self.rest().find('"') else {
                let before = self.text.get(..start.saturating_sub(1)).unwrap_or_default();
                let (line, column) = position(before);
                return Err(Error::OpenQuote { line, column });
            };
            self.at += quote + 1;
            if !self.take("\"") {
                break;
            }
        }
        let field = self.text.get(start..self.at.saturating_sub(1)).unwrap_or_default();
        self.line += field.matches('\n').count();
        Ok(if field.contains('"') {
            Cow::Owned(field.replace("\"\"", "\""))
        } else {
            Cow::Borrowed(field)
        })
    }
}
