//! Programs that read program text, and which of their arguments that is.

use std::slice::Iter;

use super::{
    analysis::{PlacementError, ScriptAnalysis},
    arguments::{AS_OPTION, forbid_leading_dash, guard_split},
    options::{ArgumentKind, OptionArgument},
    programs::{INTERPRETERS, Interpreter, OperandKind},
    word::ShellWord,
};

/// Finds an interpreter; `python3.12` is `python`.
pub(super) fn find_interpreter(name: &str) -> Option<&'static Interpreter> {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    INTERPRETERS.iter().find(|known| known.names.contains(&name) || known.names.contains(&plain))
}

/// Checks the arguments of a program that reads program text.
///
/// Returns whether it runs what it reads on standard input.
pub(super) fn check_interpreter(
    found: &mut ScriptAnalysis,
    name: &str,
    known: &Interpreter,
    arguments: &[ShellWord],
) -> bool {
    let mut reading = ArgumentReader {
        found,
        name,
        known,
        has_program: false,
        expects_code: false,
        expects_stdin: false,
        operands: 0,
        ended: false,
    };
    if known.guard_dash {
        guard_split(reading.found, name, arguments);
    }
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        // A shell takes a lone dash for the end of its options, and a lone plus for no option.
        let shell = known.names.contains(&"sh");
        if !reading.ended && (word.text == "--" || (shell && word.text == "-")) {
            reading.ended = true;
            continue;
        }
        if !reading.ended && shell && word.text == "+" {
            continue;
        }
        let kind =
            if reading.ended { ArgumentKind::Operand } else { known.options.classify(&word.text) };
        let is_over = match kind {
            ArgumentKind::Flag | ArgumentKind::Attached(_) | ArgumentKind::Next(_)
                if known.names.contains(&"sh") =>
            {
                reading.shell_option(word, &mut words, kind);
                false
            }
            ArgumentKind::Flag => {
                reading.flag(word);
                false
            }
            ArgumentKind::Attached(takes) => {
                reading.value(word, takes);
                reading.note_program(&word.text, takes);
                false
            }
            ArgumentKind::Next(takes) => {
                reading.values(&mut words, takes);
                reading.note_program(&word.text, takes);
                false
            }
            ArgumentKind::Operand => reading.operand(word),
        };
        if is_over {
            break;
        }
    }
    known.stdin && !reading.has_program
}

/// The arguments of an interpreter being read.
struct ArgumentReader<'a> {
    found: &'a mut ScriptAnalysis,
    name: &'a str,
    known: &'a Interpreter,
    /// Set if an argument has supplied the program.
    has_program: bool,
    /// Set if the first operand is program text, because an option said so.
    expects_code: bool,
    /// Set if an option said that the program is on standard input.
    expects_stdin: bool,
    operands: usize,
    /// Set if `--` has ended the options.
    ended: bool,
}

impl ArgumentReader<'_> {
    fn refuse_code(&mut self, word: &ShellWord) {
        let reason = format!("stands in program text that `{}` reads", self.name);
        let refusal = PlacementError { reason: &reason, help: self.known.help };
        // The value of a variable of awk has escapes, and nothing that runs.
        if self.name.ends_with("awk") && word.assigned_name().is_some() {
            self.found.refuse_references(&word.range, refusal);
        } else {
            self.found.refuse(word.range.clone(), refusal);
        }
    }

    fn refuse_file(&mut self, word: &ShellWord) {
        let reason = format!("chooses the program that `{}` runs", self.name);
        let help = "write the name of the program";
        self.found.refuse(word.range.clone(), PlacementError { reason: &reason, help });
    }

    fn flag(&mut self, word: &ShellWord) {
        if word.is_unknown_option() {
            self.found.refuse(word.range.clone(), AS_OPTION);
        }
    }

    /// Reads an option of a shell. Its `-c` takes the first operand, which more
    /// options may precede: `sh -c -e TEXT`, `bash -ceo pipefail TEXT`.
    fn shell_option(
        &mut self,
        word: &ShellWord,
        words: &mut Iter<'_, ShellWord>,
        kind: ArgumentKind,
    ) {
        self.flag(word);
        let letters = word.text.strip_prefix(['-', '+']).unwrap_or_default();
        if letters.starts_with('-') {
            match kind {
                ArgumentKind::Next(takes) => self.values(words, takes),
                ArgumentKind::Attached(takes) => self.value(word, takes),
                ArgumentKind::Flag | ArgumentKind::Operand => {}
            }
            self.has_program |= word.text.starts_with("--command");
            return;
        }
        self.expects_code |= letters.contains('c');
        self.expects_stdin |= letters.contains('s');
        let takes_value = letters.chars().filter(|letter| matches!(letter, 'o' | 'O')).count();
        for value in words.take(takes_value) {
            self.found.refuse(value.range.clone(), AS_OPTION);
        }
    }

    fn value(&mut self, word: &ShellWord, takes: OptionArgument) {
        match takes {
            OptionArgument::Code => self.refuse_code(word),
            OptionArgument::File => self.refuse_file(word),
            OptionArgument::Value | OptionArgument::Pair => {}
        }
        self.found.refuse_words_filter(word, "has the filter `words` after an option");
    }

    fn values(&mut self, words: &mut Iter<'_, ShellWord>, takes: OptionArgument) {
        let count = if takes == OptionArgument::Pair { 2 } else { 1 };
        // Interpreters disagree whether an option can be the text of a program.
        let first = words.as_slice().first();
        if takes == OptionArgument::Code && first.is_some_and(|word| word.text.starts_with('-')) {
            self.expects_code = true;
        }
        for word in words.take(count) {
            self.value(word, takes);
        }
    }

    /// Notes whether an option supplies the program, so that no operand does.
    fn note_program(&mut self, option: &str, takes: OptionArgument) {
        let only_adds = match self.name {
            "jq" | "gojq" | "jaq" => option.starts_with("-L") || option.starts_with("--lib"),
            "awk" | "gawk" | "mawk" | "nawk" => {
                option.starts_with("-v") || option.starts_with("--assign")
            }
            _ => {
                takes == OptionArgument::File
                    && self.known.operand == OperandKind::File
                    && option != "-m"
            }
        };
        self.has_program |=
            !only_adds && matches!(takes, OptionArgument::Code | OptionArgument::File);
    }

    /// Reads an operand; returns whether the rest is data.
    fn operand(&mut self, word: &ShellWord) -> bool {
        let is_file = self.known.operand == OperandKind::File;
        let reads_stdin = self.expects_stdin || word.text == "-";
        if is_file && reads_stdin && !self.has_program && !self.expects_code {
            return true;
        }
        let is_subcommand =
            self.name == "yq" && ["e", "eval", "ea", "eval-all"].contains(&word.text.as_str());
        // Awk reads escapes in the value of an operand such as `x=1`.
        let sets_variable = self.name.ends_with("awk") && word.assigned_name().is_some();
        let is_code = match self.known.operand {
            OperandKind::Code => (!self.has_program && !is_subcommand) || sets_variable,
            OperandKind::DataThenCode => self.operands > 0,
            OperandKind::File | OperandKind::Data => false,
        };
        if is_code || self.expects_code {
            self.refuse_code(word);
            self.has_program = true;
            self.expects_code = false;
        } else if is_file && !self.has_program {
            self.refuse_file(word);
            self.has_program = true;
        } else if self.known.guard_dash && !self.ended {
            forbid_leading_dash(self.found, word);
        }
        self.operands += 1;
        !self.known.permutes
    }
}
