//! Tables and lists of any length: written as they come.

use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr as _;

use crate::{
    commands::dlq::entries::labels::SCHEMA_VERSION,
    error::CliError,
    progress::{padded, truncate},
    render::console::{Console, one_line},
};

/// So many rows are held back to find out how wide their columns are.
const BATCH: usize = 500;
/// The least room for the last column; with less, columns that can be spared are left out.
const LEAST_TEXT: usize = 28;
/// The width of the gap between two columns.
const GAP: usize = 2;

/// A table whose last column is text that takes what room there is.
pub(crate) struct TextTable {
    head: Vec<&'static str>,
    /// The columns that give way on a narrow terminal, the first of them first.
    spare: Vec<&'static str>,
    indent: usize,
    widths: Vec<usize>,
    held: Vec<Vec<String>>,
    begun: bool,
}

impl TextTable {
    pub(crate) fn new(head: &[&'static str], spare: &[&'static str], indent: usize) -> Self {
        Self {
            head: head.to_vec(),
            spare: spare.to_vec(),
            indent,
            widths: head.iter().map(|name| name.width()).collect(),
            held: Vec::new(),
            begun: false,
        }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: &[String], out: &mut Console) -> Result<(), CliError> {
        let cells: Vec<_> = cells.iter().map(|cell| one_line(cell)).collect();
        for (width, cell) in self.widths.iter_mut().zip(&cells) {
            *width = (*width).max(cell.width());
        }
        self.held.push(cells);
        if self.held.len() >= BATCH { self.write(out) } else { Ok(()) }
    }

    /// Writes what is held back.
    pub(crate) fn write(&mut self, out: &mut Console) -> Result<(), CliError> {
        let room = out.width();
        let shown = self.visible_columns(room);
        if !self.begun && !self.held.is_empty() {
            let head: Vec<_> = self.head.iter().map(|&name| name.to_owned()).collect();
            out.line(self.line(&head, &shown, room))?;
            self.begun = true;
        }
        for row in std::mem::take(&mut self.held) {
            out.line(self.line(&row, &shown, room))?;
        }
        Ok(())
    }

    /// Returns which columns are shown.
    fn visible_columns(&self, room: Option<usize>) -> Vec<bool> {
        let mut shown = vec![true; self.head.len()];
        let Some(room) = room else { return shown };
        for spare in &self.spare {
            if room.saturating_sub(self.columns_before_last(&shown)) >= LEAST_TEXT {
                break;
            }
            for (shown, name) in shown.iter_mut().zip(&self.head) {
                *shown &= name != spare;
            }
        }
        shown
    }

    /// Returns how many columns stand before the last column of the table.
    fn columns_before_last(&self, shown: &[bool]) -> usize {
        let columns = self.widths.iter().zip(shown).take(self.head.len().saturating_sub(1));
        self.indent
            + columns.filter(|(_, shown)| **shown).map(|(width, _)| width + GAP).sum::<usize>()
    }

    fn line(&self, cells: &[String], shown: &[bool], room: Option<usize>) -> String {
        let mut line = " ".repeat(self.indent);
        let last = self.head.len().saturating_sub(1);
        for (column, ((cell, width), shown)) in
            cells.iter().zip(&self.widths).zip(shown).enumerate()
        {
            if !shown {
                continue;
            }
            if column < last {
                line.push_str(&padded(cell, width + GAP));
            } else {
                line.push_str(cell);
            }
        }
        match room {
            Some(room) => truncate(line.trim_end(), room),
            None => line.trim_end().to_owned(),
        }
    }
}

/// A JSON document with one long list, as `{:#}` would show it, written as it comes.
pub(crate) struct JsonListWriter {
    empty: bool,
}

impl JsonListWriter {
    /// Begins the document.
    pub(crate) fn begin(name: &str, out: &mut Console) -> Result<Self, CliError> {
        let head = format!("{{\n  \"schema_version\": {SCHEMA_VERSION},\n  {}: [", json!(name));
        out.raw(head.as_bytes())?;
        Ok(Self { empty: true })
    }

    /// Adds a value.
    pub(crate) fn push(&mut self, value: &Value, out: &mut Console) -> Result<(), CliError> {
        let between = if self.empty { "\n" } else { ",\n" };
        self.empty = false;
        out.raw(format!("{between}{}", indented(value, "    ")).as_bytes())
    }

    /// Ends the document with fields that are known only now.
    pub(crate) fn end(self, more: &[(&str, Value)], out: &mut Console) -> Result<(), CliError> {
        let mut text = if self.empty { "]" } else { "\n  ]" }.to_owned();
        for (name, value) in more {
            let (name, value) = (json!(name).to_string(), indented(value, "  "));
            text.extend([",\n  ", &name, ": ", value.trim_start()]);
        }
        out.raw(format!("{text}\n}}\n").as_bytes())
    }
}

/// Returns a value in lines that are moved to the right.
fn indented(value: &Value, by: &str) -> String {
    let text = format!("{value:#}");
    text.lines().map(|line| format!("{by}{line}")).collect::<Vec<_>>().join("\n")
}
