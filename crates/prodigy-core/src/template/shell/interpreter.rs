//! Programs that read program text, and which of their arguments that is.

use std::slice::Iter;

use super::{
    found::{Found, Refusal},
    options::{Kind, Takes},
    rules::{AS_OPTION, guard_dash},
    tools::{INTERPRETERS, Interpreter, Operand},
    word::Word,
};

/// Finds an interpreter; `python3.12` is `python`.
pub(super) fn interpreter(name: &str) -> Option<&'static Interpreter> {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    INTERPRETERS.iter().find(|known| known.names.contains(&name) || known.names.contains(&plain))
}

/// Checks the arguments of a program that reads program text.
///
/// Returns whether it runs what it reads on standard input.
pub(super) fn interpreted(
    found: &mut Found,
    name: &str,
    known: &Interpreter,
    arguments: &[Word],
) -> bool {
    let mut reading = Reading { found, name, known, has_program: false, operands: 0, ended: false };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if !reading.ended && word.text == "--" {
            reading.ended = true;
            continue;
        }
        let kind = if reading.ended { Kind::Operand } else { known.options.read(&word.text) };
        let is_over = match kind {
            Kind::Flag => reading.flag(word),
            Kind::Attached(takes) => {
                reading.value(word, takes);
                reading.note_program(&word.text, takes);
                false
            }
            Kind::Next(takes) => {
                reading.values(&mut words, takes);
                reading.note_program(&word.text, takes);
                false
            }
            Kind::Operand => reading.operand(word),
        };
        if is_over {
            break;
        }
    }
    known.stdin && !reading.has_program
}

/// The arguments of an interpreter being read.
struct Reading<'a> {
    found: &'a mut Found,
    name: &'a str,
    known: &'a Interpreter,
    /// Whether an argument has supplied the program.
    has_program: bool,
    operands: usize,
    /// Whether `--` has ended the options.
    ended: bool,
}

impl Reading<'_> {
    fn refuse_code(&mut self, word: &Word) {
        let reason = format!("stands in program text that `{}` reads", self.name);
        self.found.refuse(word.range.clone(), Refusal { reason: &reason, help: self.known.help });
    }

    fn refuse_file(&mut self, word: &Word) {
        let reason = format!("chooses the program that `{}` runs", self.name);
        let help = "write the name of the program";
        self.found.refuse(word.range.clone(), Refusal { reason: &reason, help });
    }

    /// Reads an option without a value; returns whether the rest is data.
    fn flag(&mut self, word: &Word) -> bool {
        if word.is_unknown_option() {
            self.found.refuse(word.range.clone(), AS_OPTION);
        }
        // With `-s` a shell reads the program from standard input, whatever follows.
        let letters = word.text.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        self.known.names.contains(&"sh") && letters.is_some_and(|rest| rest.contains('s'))
    }

    fn value(&mut self, word: &Word, takes: Takes) {
        match takes {
            Takes::Code => self.refuse_code(word),
            Takes::File => self.refuse_file(word),
            Takes::Value | Takes::Pair => {}
        }
        self.found.forbid_words(word, "has the filter `words` after an option");
    }

    fn values(&mut self, words: &mut Iter<'_, Word>, takes: Takes) {
        let count = if takes == Takes::Pair { 2 } else { 1 };
        for word in words.take(count) {
            self.value(word, takes);
        }
    }

    /// Notes whether an option supplies the program, so that no operand does.
    fn note_program(&mut self, option: &str, takes: Takes) {
        let only_adds = match self.name {
            "jq" | "gojq" | "jaq" => option.starts_with("-L") || option.starts_with("--lib"),
            "awk" | "gawk" | "mawk" | "nawk" => {
                option.starts_with("-v") || option.starts_with("--assign")
            }
            _ => takes == Takes::File && self.known.operand == Operand::File && option != "-m",
        };
        self.has_program |= !only_adds && matches!(takes, Takes::Code | Takes::File);
    }

    /// Reads an operand; returns whether the rest is data.
    fn operand(&mut self, word: &Word) -> bool {
        if self.known.operand == Operand::File && word.text == "-" && !self.has_program {
            return true;
        }
        let is_subcommand =
            self.name == "yq" && ["e", "eval", "ea", "eval-all"].contains(&word.text.as_str());
        let is_code = match self.known.operand {
            Operand::Code => !self.has_program && !is_subcommand,
            Operand::DataThenCode => self.operands > 0,
            Operand::File | Operand::Data => false,
        };
        if is_code {
            self.refuse_code(word);
            self.has_program = true;
        } else if self.known.operand == Operand::File && !self.has_program {
            self.refuse_file(word);
            self.has_program = true;
        } else if self.known.guard_dash && !self.ended {
            guard_dash(self.found, word);
        }
        self.operands += 1;
        !self.known.permutes
    }
}
