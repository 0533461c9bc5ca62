//! Templates for a shell.

use std::fmt::Write as _;

use serde_json::Value;

use super::{
    Bound, Dialect, Names, RenderError,
    filter::{Filled, Filter},
    reference::Reference,
    resolve::{refusal, resolve},
    shell::{self, Piece, Slot, Spelling},
};
use crate::{
    diagnostic::Fault,
    vars::{Vars, value_text},
};

/// The most bytes of one value: Linux allows 128 KiB for one string.
const MOST_PER_VALUE: usize = 96 * 1024;
/// The most bytes of all values of a script; the environment has a limit too.
const MOST_IN_ALL: usize = 1024 * 1024;

/// A template for a shell: values travel in the environment, never in the text.
///
/// Each `${path}` becomes a reference to an environment variable, spelled for
/// the quotes it stands in, so the program receives exactly the value: never
/// split, expanded or run. A place where that cannot be done is an error when
/// the script is read, not when it runs.
///
/// What the script does with a shell variable afterwards is the author's affair:
/// `x=${item.n}; echo $((x))` lets bash evaluate the value.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    source: String,
    slots: Vec<Slot>,
    pieces: Vec<Piece>,
}

/// What a slot puts into the text.
enum Insert {
    Variable(String),
    Variables(Vec<String>),
    Text(String),
}

impl Script {
    /// Reads a shell script; `allow_raw` permits the `raw` filter.
    ///
    /// A `${X…}` whose root is not known belongs to the shell and is left alone.
    pub fn parse(
        source: &str,
        names: &Names,
        dialect: Dialect,
        allow_raw: bool,
    ) -> Result<Self, Vec<Fault>> {
        let (slots, pieces) = shell::scan(source, names, dialect, allow_raw)?;
        Ok(Self { source: source.to_owned(), slots, pieces })
    }

    /// Returns the script as written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the references, in the order written; repeated ones appear once.
    pub fn references(&self) -> impl Iterator<Item = &Reference> {
        self.slots.iter().map(|slot| &slot.reference)
    }

    /// Returns the references whose values become a part of the program.
    pub fn raw_uses(&self) -> impl Iterator<Item = &Reference> {
        self.references().filter(|reference| reference.shell_filter() == Some(Filter::Raw))
    }

    /// Binds the values.
    pub fn bind(&self, vars: &Vars) -> Result<Bound, RenderError> {
        let mut bound = Bound { text: String::new(), env: vec![], files: vec![] };
        let mut inserts = Vec::with_capacity(self.slots.len());
        for (number, slot) in self.slots.iter().enumerate() {
            inserts.push(bind_slot(number + 1, slot, vars, &mut bound)?);
        }
        let total: usize = bound.env.iter().map(|(name, value)| name.len() + value.len()).sum();
        if total > MOST_IN_ALL {
            let message = "the values of this script are too big together (over 1 MiB); \
                           use the filter `file` for the big ones";
            return Err(RenderError { message: message.to_owned() });
        }
        for piece in &self.pieces {
            match piece {
                Piece::Literal(text) => bound.text.push_str(text),
                Piece::Value { slot, spelling } => {
                    if let Some(insert) = inserts.get(*slot) {
                        write_insert(&mut bound.text, insert, *spelling);
                    }
                }
            }
        }
        Ok(bound)
    }
}

fn bind_slot(
    number: usize,
    slot: &Slot,
    vars: &Vars,
    bound: &mut Bound,
) -> Result<Insert, RenderError> {
    let reference = &slot.reference;
    let filled = resolve(reference, vars)?;
    let name = format!("PRODIGY_P{number}");
    let insert = match reference.shell_filter() {
        Some(Filter::File) => {
            bound.files.push((name.clone(), value_text(&filled.value)));
            return Ok(Insert::Variable(name));
        }
        Some(Filter::Words) => {
            let mut names = Vec::new();
            for (at, word) in words(&filled).into_iter().enumerate() {
                let name = format!("{name}_{}", at + 1);
                bound.env.push((name.clone(), check(slot, word)?));
                names.push(name);
            }
            Insert::Variables(names)
        }
        Some(Filter::Raw) => Insert::Text(check(slot, value_text(&filled.value))?),
        // The other filters have done their work in `resolve`.
        Some(
            Filter::Json
            | Filter::Lower
            | Filter::Upper
            | Filter::Trim
            | Filter::Length
            | Filter::Lines
            | Filter::Path,
        )
        | None => {
            bound.env.push((name.clone(), check(slot, value_text(&filled.value))?));
            Insert::Variable(name)
        }
    };
    Ok(insert)
}

/// A list has its words already; text is split where a shell would split it.
fn words(filled: &Filled) -> Vec<String> {
    match &filled.value {
        Value::Array(elements) => elements.iter().map(value_text).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            let text = value_text(&filled.value);
            text.split_ascii_whitespace().map(str::to_owned).collect()
        }
    }
}

fn check(slot: &Slot, text: String) -> Result<String, RenderError> {
    let problem = if text.contains('\0') {
        Some("contains a NUL byte, which no argument or variable can hold; use the filter `file`")
    } else if text.len() > MOST_PER_VALUE {
        Some("is too big for an environment variable (over 96 KiB); use the filter `file`")
    } else {
        slot.checks.iter().find_map(|check| check.problem(&text))
    };
    match problem {
        Some(problem) => Err(refusal(&slot.reference, problem)),
        None => Ok(text),
    }
}

fn write_insert(text: &mut String, insert: &Insert, spelling: Spelling) {
    match insert {
        Insert::Text(raw) => text.push_str(raw),
        Insert::Variable(name) => write_variable(text, name, spelling),
        Insert::Variables(names) => {
            for (at, name) in names.iter().enumerate() {
                if at > 0 {
                    text.push(' ');
                }
                write_variable(text, name, spelling);
            }
        }
    }
}

fn write_variable(text: &mut String, name: &str, spelling: Spelling) {
    let written = match spelling {
        Spelling::Quoted => write!(text, "\"${{{name}}}\""),
        Spelling::Bare => write!(text, "${{{name}}}"),
        Spelling::Single => write!(text, "'\"${{{name}}}\"'"),
        Spelling::AnsiC => write!(text, "'\"${{{name}}}\"$'"),
        Spelling::Arithmetic => write!(text, " (${{{name}}})"),
    };
    // Writing to a string cannot fail.
    written.ok();
}
