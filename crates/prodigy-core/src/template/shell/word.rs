//! A word of a command, as far as the rules need to know it.

use std::ops::Range;

use super::variables::CarriedValues;

/// Stands in [`ShellWord::text`] for whatever is known only when the script runs.
const UNKNOWN: char = '\0';

/// A word, with its quotes taken away.
#[derive(Clone, Debug, Default)]
pub(super) struct ShellWord {
    /// Where it stands in the script.
    pub(super) range: Range<usize>,
    /// Its text; what is known only at run time is one [`UNKNOWN`].
    pub(super) text: String,
    /// Set if any part of it was quoted.
    pub(super) quoted: bool,
    /// The number of the reference that it starts with.
    pub(super) starts_with: Option<usize>,
    /// The numbers of all references that stand in it directly, not in a substitution.
    pub(super) references: Vec<usize>,
    /// The variable that it starts with.
    pub(super) starts_with_variable: Option<String>,
    /// The values that travel with the word: references, also those of a list, and variables.
    pub(super) carried: CarriedValues,
    /// If it is `NAME=…`: where the `=` stands in the script.
    pub(super) equals: Option<usize>,
}

impl ShellWord {
    pub(super) fn starting_at(start: usize) -> Self {
        Self { range: start..start, ..Self::default() }
    }

    /// Adds something that is known only when the script runs.
    pub(super) fn push_dynamic(&mut self) {
        self.text.push(UNKNOWN);
    }

    /// Adds the reference with a number.
    pub(super) fn push_reference(&mut self, number: usize) {
        if self.text.is_empty() {
            self.starts_with = Some(number);
        }
        self.references.push(number);
        self.carried.references.push(number);
        self.text.push(UNKNOWN);
    }

    /// Adds what a variable, or an output with a name of its own, holds.
    pub(super) fn push_variable(&mut self, name: &str) {
        if self.text.is_empty() {
            self.starts_with_variable = Some(name.to_owned());
        }
        self.carried.variables.push(name.to_owned());
        self.text.push(UNKNOWN);
    }

    /// Returns true if the word is exactly this and unquoted, so that a shell sees a keyword.
    pub(super) fn is_keyword(&self, keyword: &str) -> bool {
        !self.quoted && self.text == keyword
    }

    /// Returns the text if all of it is known.
    pub(super) fn literal(&self) -> Option<&str> {
        (!self.text.contains(UNKNOWN)).then_some(self.text.as_str())
    }

    /// Returns the part that is known, from the start.
    pub(super) fn literal_prefix(&self) -> &str {
        self.text.split(UNKNOWN).next().unwrap_or_default()
    }

    /// Returns true if the word is an option whose name is known only at run time.
    pub(super) fn is_unknown_option(&self) -> bool {
        let start = self.literal_prefix();
        start.len() < self.text.len() && (start == "-" || start == "--")
    }

    /// Returns the name if the word is `NAME=…` in its known part, quoted or not.
    pub(super) fn assigned_name(&self) -> Option<&str> {
        let (name, _) = self.literal_prefix().split_once('=')?;
        let name = name.strip_suffix('+').unwrap_or(name);
        is_name(name.split('[').next().unwrap_or_default()).then_some(name)
    }

    /// Returns the name of the program that a command word runs.
    pub(super) fn program(&self) -> Option<&str> {
        self.literal().map(|text| text.rsplit('/').next().unwrap_or(text))
    }
}

/// Returns true if a text can be the name of a shell variable.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
