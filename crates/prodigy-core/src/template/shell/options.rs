//! Telling options from operands, for programs that we know.

/// The kind of value that an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OptionArgument {
    /// Program text.
    Code,
    /// The name of a file or module with a program.
    File,
    /// Anything else.
    Value,
    /// A name and a value.
    Pair,
}

/// The kind of a word: an operand or an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArgumentKind {
    /// Not an option.
    Operand,
    /// An option without a value.
    Flag,
    /// An option whose value is in the same word.
    Attached(OptionArgument),
    /// An option whose value is the next word, or the next two.
    Next(OptionArgument),
}

/// The options of a program that take something.
#[derive(Clone, Copy, Debug)]
pub(super) struct OptionTable {
    /// Followed by program text.
    pub(super) code: &'static [&'static str],
    /// Followed by the name of a file with a program.
    pub(super) file: &'static [&'static str],
    /// Followed by one other word.
    pub(super) valued: &'static [&'static str],
    /// Followed by two words.
    pub(super) pairs: &'static [&'static str],
    /// Letters that take the rest of their own word, if there is any.
    pub(super) attached: &'static str,
}

/// A program without such options.
pub(super) const NO_OPTIONS: OptionTable =
    OptionTable { code: &[], file: &[], valued: &[], pairs: &[], attached: "" };

impl OptionTable {
    fn takes(&self, option: &str) -> Option<OptionArgument> {
        [
            (self.code, OptionArgument::Code),
            (self.file, OptionArgument::File),
            (self.valued, OptionArgument::Value),
            (self.pairs, OptionArgument::Pair),
        ]
        .into_iter()
        .find(|(options, _)| options.contains(&option))
        .map(|(_, takes)| takes)
    }

    /// Reads a word as an option.
    pub(super) fn classify(&self, text: &str) -> ArgumentKind {
        if text.len() < 2 || !text.starts_with(['-', '+']) {
            return ArgumentKind::Operand;
        }
        if let Some(takes) = self.takes(text) {
            return ArgumentKind::Next(takes);
        }
        if text.starts_with("--") {
            let name = text.split('=').next().unwrap_or(text);
            return self.takes(name).map_or(ArgumentKind::Flag, ArgumentKind::Attached);
        }
        self.read_letters(text)
    }

    /// Reads letters that share one dash, such as `-ne`.
    fn read_letters(&self, text: &str) -> ArgumentKind {
        let sign = text.get(..1).unwrap_or_default();
        let letters = text.get(1..).unwrap_or_default();
        for (at, letter) in letters.char_indices() {
            let is_last = at + letter.len_utf8() == letters.len();
            if let Some(takes) = self.takes(&format!("{sign}{letter}")) {
                return if is_last {
                    ArgumentKind::Next(takes)
                } else {
                    ArgumentKind::Attached(takes)
                };
            }
            if self.attached.contains(letter) {
                break;
            }
        }
        ArgumentKind::Flag
    }
}
