//! Templates for a shell.

use std::fmt::Write as _;

use serde_json::Value;

use super::{
    BoundScript, RenderError, ShellDialect, VarRoots,
    filter::{FilteredValue, TemplateFilter},
    reference::VarReference,
    resolve::{resolve, value_error},
    shell::{self, ExternalCommand, QuoteStyle, ScannedScript, ScriptParam, ScriptPart},
};
use crate::{
    diagnostic::ParseError,
    vars::{Vars, value_text},
};

/// The most bytes of one value: Linux allows 128 KiB for one string.
const MOST_PER_VALUE: usize = 96 * 1024;
/// The most bytes of all values of a script; the environment has a limit too.
const MOST_IN_ALL: usize = 1024 * 1024;

/// A template for a shell: values travel in the environment, never in the text.
///
/// Values that are too big for the environment travel in files, and the script
/// begins by reading them into shell variables; the author need not know.
///
/// Each `${path}` becomes a reference to an environment variable, spelled for
/// the quotes it stands in, so the program receives exactly the value: never
/// split, expanded or run. A place where that cannot be done is an error when
/// the script is read, not when it runs.
///
/// A value that the script puts into a shell variable is followed there: it is refused
/// where the value itself would be, and must be a whole number in arithmetic.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    source: String,
    slots: Vec<ScriptParam>,
    pieces: Vec<ScriptPart>,
    outside: Vec<ExternalCommand>,
}

/// The way a value reaches the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueTransport {
    /// In the environment, as long as there is room.
    Environment,
    /// In the environment in any case.
    Word,
    /// In a file, from which the script reads it into a shell variable. Unlike
    /// one of the environment it is not handed on to programs, whose start it
    /// would make fail.
    Loaded,
    /// In a file, as the author asked.
    File,
}

/// A value and the variable it travels under.
struct ScriptVariable {
    name: String,
    value: String,
    way: ValueTransport,
}

impl ScriptVariable {
    /// The room it takes in the environment; the name of a file does not count.
    fn room(&self) -> usize {
        match self.way {
            ValueTransport::Environment | ValueTransport::Word => {
                self.name.len() + self.value.len()
            }
            ValueTransport::Loaded | ValueTransport::File => 0,
        }
    }
}

/// The text or the variables that a slot inserts.
enum ScriptInsertion {
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
        names: &VarRoots,
        dialect: ShellDialect,
        allow_raw: bool,
    ) -> Result<Self, Vec<ParseError>> {
        let ScannedScript { slots, pieces, outside } =
            shell::scan(source, names, dialect, allow_raw)?;
        Ok(Self { source: source.to_owned(), slots, pieces, outside })
    }

    /// Returns the script as written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the commands that are known to change something outside the worktree.
    pub fn external_commands(&self) -> &[ExternalCommand] {
        &self.outside
    }

    /// Returns the references, in the order written; repeated ones appear once.
    pub fn references(&self) -> impl Iterator<Item = &VarReference> {
        self.slots.iter().map(|slot| &slot.reference)
    }

    /// Returns the references whose values become a part of the program.
    pub fn raw_references(&self) -> impl Iterator<Item = &VarReference> {
        self.references().filter(|reference| reference.shell_filter() == Some(TemplateFilter::Raw))
    }

    /// Returns the script with the values that are known, for people to read.
    ///
    /// Never to be run: in a run values do not become a part of the text. What has no
    /// value yet stays as it is written.
    pub fn preview(&self, vars: &Vars) -> String {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                ScriptPart::Literal(literal) => text.push_str(literal),
                ScriptPart::Value { slot, spelling } => {
                    let Some(slot) = self.slots.get(*slot) else { continue };
                    text.push_str(&display_value(&slot.reference, vars, &self.source, *spelling));
                }
            }
        }
        text
    }

    /// Binds the values.
    pub fn bind(&self, vars: &Vars) -> Result<BoundScript, RenderError> {
        let mut parcels = Vec::with_capacity(self.slots.len());
        let mut inserts = Vec::with_capacity(self.slots.len());
        for (number, slot) in self.slots.iter().enumerate() {
            inserts.push(bind_slot(number + 1, slot, vars, &mut parcels)?);
        }
        make_room(&mut parcels)?;
        let mut bound = pack(parcels);
        for piece in &self.pieces {
            match piece {
                ScriptPart::Literal(text) => bound.text.push_str(text),
                ScriptPart::Value { slot, spelling } => {
                    if let Some(insert) = inserts.get(*slot) {
                        write_insert(&mut bound.text, insert, *spelling);
                    }
                }
            }
        }
        Ok(bound)
    }
}

/// Sends the biggest values by file until the others fit into the environment.
fn make_room(parcels: &mut [ScriptVariable]) -> Result<(), RenderError> {
    let mut total: usize = parcels.iter().map(ScriptVariable::room).sum();
    if total <= MOST_IN_ALL {
        return Ok(());
    }
    let mut movable: Vec<&mut ScriptVariable> =
        parcels.iter_mut().filter(|parcel| parcel.way == ValueTransport::Environment).collect();
    movable.sort_by_key(|parcel| std::cmp::Reverse(parcel.room()));
    for parcel in movable {
        if total <= MOST_IN_ALL {
            break;
        }
        total -= parcel.room();
        parcel.way = ValueTransport::Loaded;
    }
    if total > MOST_IN_ALL {
        let message = "the words of this script are too big together (over 1 MiB); \
                       use the filter `file` instead of `words` for the big ones";
        return Err(RenderError { message: message.to_owned() });
    }
    Ok(())
}

/// Puts the values where they travel, and starts the script with what reads them.
fn pack(parcels: Vec<ScriptVariable>) -> BoundScript {
    let mut bound = BoundScript { text: String::new(), env: vec![], files: vec![] };
    for ScriptVariable { name, value, way } in parcels {
        match way {
            ValueTransport::Environment | ValueTransport::Word => bound.env.push((name, value)),
            ValueTransport::File => bound.files.push((name, value)),
            ValueTransport::Loaded => {
                bound.text.push_str(&loading(&name, value.ends_with('\n')));
                bound.files.push((format!("{name}_FILE"), value));
            }
        }
    }
    bound
}

/// Returns the commands that read a value from its file, byte for byte.
///
/// They stand before the script on its first line, so that the line numbers in
/// the shell's messages stay right; a first line `#!…` is still a comment there,
/// and `$?` is 0 as it should be. A script whose value cannot be read does not
/// start: an empty value in its place could do harm.
///
/// A substitution takes line breaks from the end, so a value that has some gets
/// a full stop to shield them, which no character set reads as the second half
/// of a character. Other values do without, because bash needs much time and
/// memory to take it off again.
fn loading(name: &str, has_break: bool) -> String {
    let (shield, taken_off) = if has_break {
        (" && printf .", format!(" {name}=${{{name}%.}};"))
    } else {
        ("", String::new())
    };
    // A variable that came from outside would stay exported.
    format!("unset {name}; {name}=$(cat \"${{{name}_FILE}}\"{shield}) || exit;{taken_off} ")
}

fn bind_slot(
    number: usize,
    slot: &ScriptParam,
    vars: &Vars,
    parcels: &mut Vec<ScriptVariable>,
) -> Result<ScriptInsertion, RenderError> {
    let reference = &slot.reference;
    let filled = resolve(reference, vars)?;
    let name = format!("PRODIGY_P{number}");
    let mut send = |name: &str, value: String, way: ValueTransport| {
        parcels.push(ScriptVariable { name: name.to_owned(), value, way });
    };
    let insert = match reference.shell_filter() {
        Some(TemplateFilter::File) => {
            send(&name, value_text(&filled.value), ValueTransport::File);
            ScriptInsertion::Variable(name)
        }
        Some(TemplateFilter::Words) => {
            let mut names = Vec::new();
            for (at, word) in words(&filled).into_iter().enumerate() {
                let name = format!("{name}_{}", at + 1);
                send(&name, short(slot, check(slot, word)?)?, ValueTransport::Word);
                names.push(name);
            }
            ScriptInsertion::Variables(names)
        }
        Some(TemplateFilter::Raw) => {
            ScriptInsertion::Text(short(slot, check(slot, value_text(&filled.value))?)?)
        }
        // The other filters have done their work in `resolve`.
        Some(
            TemplateFilter::Json
            | TemplateFilter::Lower
            | TemplateFilter::Upper
            | TemplateFilter::Trim
            | TemplateFilter::Length
            | TemplateFilter::Lines
            | TemplateFilter::Path,
        )
        | None => {
            let value = check(slot, value_text(&filled.value))?;
            let is_big = value.len() > MOST_PER_VALUE;
            send(
                &name,
                value,
                if is_big { ValueTransport::Loaded } else { ValueTransport::Environment },
            );
            ScriptInsertion::Variable(name)
        }
    };
    Ok(insert)
}

/// A list has its words already; text is split where a shell would split it.
fn words(filled: &FilteredValue) -> Vec<String> {
    match &filled.value {
        Value::Array(elements) => elements.iter().map(value_text).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            let text = value_text(&filled.value);
            text.split_ascii_whitespace().map(str::to_owned).collect()
        }
    }
}

fn check(slot: &ScriptParam, text: String) -> Result<String, RenderError> {
    let problem = if text.contains('\0') {
        Some("contains a NUL byte, which no argument or variable can hold; use the filter `file`")
    } else {
        slot.checks.iter().find_map(|check| check.violation(&text))
    };
    match problem {
        Some(problem) => Err(value_error(&slot.reference, problem)),
        None => Ok(text),
    }
}

/// Refuses what is too big to be a word or a part of the script.
fn short(slot: &ScriptParam, text: String) -> Result<String, RenderError> {
    if text.len() > MOST_PER_VALUE {
        let problem = "is too big for a word or for the text of a script (over 96 KiB); use the \
                       filter `file`";
        return Err(value_error(&slot.reference, problem));
    }
    Ok(text)
}

/// Returns a value as it would read, or the reference if there is none.
fn display_value(
    reference: &VarReference,
    vars: &Vars,
    source: &str,
    spelling: QuoteStyle,
) -> String {
    let Ok(filled) = resolve(reference, vars) else {
        return source.get(reference.range()).unwrap_or_default().to_owned();
    };
    let value = value_text(&filled.value);
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+@%,:=".contains(c);
    match spelling {
        QuoteStyle::Quoted if value.is_empty() || !value.chars().all(is_plain) => {
            format!("'{}'", value.replace('\'', r"'\''"))
        }
        QuoteStyle::Quoted
        | QuoteStyle::Bare
        | QuoteStyle::Single
        | QuoteStyle::AnsiC
        | QuoteStyle::Arithmetic => value,
    }
}

fn write_insert(text: &mut String, insert: &ScriptInsertion, spelling: QuoteStyle) {
    match insert {
        ScriptInsertion::Text(raw) => text.push_str(raw),
        ScriptInsertion::Variable(name) => write_variable(text, name, spelling),
        ScriptInsertion::Variables(names) => {
            for (at, name) in names.iter().enumerate() {
                if at > 0 {
                    text.push(' ');
                }
                write_variable(text, name, spelling);
            }
        }
    }
}

fn write_variable(text: &mut String, name: &str, spelling: QuoteStyle) {
    let written = match spelling {
        QuoteStyle::Quoted => write!(text, "\"${{{name}}}\""),
        QuoteStyle::Bare => write!(text, "${{{name}}}"),
        QuoteStyle::Single => write!(text, "'\"${{{name}}}\"'"),
        QuoteStyle::AnsiC => write!(text, "'\"${{{name}}}\"$'"),
        QuoteStyle::Arithmetic => write!(text, " (${{{name}}})"),
    };
    // Writing to a string cannot fail.
    written.ok();
}
