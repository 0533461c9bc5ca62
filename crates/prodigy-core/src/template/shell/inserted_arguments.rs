//! Programs that put names or lines into the commands that they run.

use super::{
    analysis::{PlacementError, ScriptAnalysis, ValueConstraint},
    arguments::{self, AS_OPTION, forbid_leading_dash, guard_split},
    interpreter::find_interpreter,
    options::{ArgumentKind, NO_OPTIONS, OptionTable},
    programs::{EVALUATORS, PREFIXES},
    word::ShellWord,
};

pub(crate) fn find(found: &mut ScriptAnalysis, arguments: &[ShellWord]) {
    guard_split(found, "find", arguments);
    let mut rest = arguments;
    let mut before = "";
    while let Some((word, more)) = rest.split_first() {
        rest = more;
        if matches!(word.text.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir") {
            let end = rest
                .iter()
                .position(|word| word.text == ";" || word.text == "+")
                .unwrap_or(rest.len());
            let (nested, more) = rest.split_at(end);
            arguments::check_command(found, nested);
            if runs_replaced_text(nested, "{}") {
                for word in arguments {
                    found.refuse(word.range.clone(), IN_NAME);
                }
            }
            for word in nested {
                found.constrain(word, ValueConstraint::ForFind);
            }
            rest = more;
        } else if !before.starts_with('-') {
            forbid_leading_dash(found, word);
        }
        before = &word.text;
    }
}

pub(crate) fn xargs(found: &mut ScriptAnalysis, arguments: &[ShellWord]) -> bool {
    let options = OptionTable {
        valued: &[
            "-n",
            "-P",
            "-L",
            "-I",
            "-d",
            "-E",
            "-s",
            "-a",
            "--replace",
            "--arg-file",
            "--max-args",
            "--max-procs",
            "--delimiter",
        ],
        ..NO_OPTIONS
    };
    let mut replaces = None;
    let mut at = 0;
    while let Some(word) = arguments.get(at) {
        at += 1;
        let is_letters = word.text.starts_with('-') && !word.text.starts_with("--");
        if word.text.starts_with("--replace") || (is_letters && word.text.contains(['I', 'i'])) {
            replaces = Some(replaced_text(word, arguments.get(at)));
        }
        match options.classify(&word.text) {
            ArgumentKind::Next(_) => {
                if let Some(value) = arguments.get(at) {
                    found.refuse_words_filter(value, "has the filter `words` after an option");
                }
                at += 1;
            }
            ArgumentKind::Flag | ArgumentKind::Attached(_) => {
                found.refuse(word.range.clone(), AS_OPTION);
            }
            ArgumentKind::Operand => {
                let nested = arguments.get(at - 1..).unwrap_or_default();
                arguments::check_command(found, nested);
                for word in nested.iter().filter(|_| replaces.is_some()) {
                    let refusal = PlacementError {
                        reason: "is an argument of `xargs -I`, which replaces parts of it",
                        help: "use a loop: `while read -r line; do …; done`",
                    };
                    found.refuse(word.range.clone(), refusal);
                }
                return match &replaces {
                    Some(text) => runs_replaced_text(nested, text),
                    None => runs_added_argument(nested),
                };
            }
        }
    }
    false
}

/// Returns the text that `xargs` replaces: that of an option, or of the word after it.
fn replaced_text(option: &ShellWord, next: Option<&ShellWord>) -> String {
    let own = match option.text.split_once('=') {
        Some((_, text)) => text,
        None if option.text.starts_with("--") => "",
        None => option.text.split(['I', 'i']).nth(1).unwrap_or_default(),
    };
    let is_next = option.text.ends_with('I');
    let text = if is_next { next.map_or("", |word| word.text.as_str()) } else { own };
    if text.is_empty() { "{}".to_owned() } else { text.to_owned() }
}

/// Returns the command that runs program text, without those that only run another one.
fn innermost(words: &[ShellWord]) -> &[ShellWord] {
    let is_prefix = |name: &str| PREFIXES.iter().any(|prefix| prefix.names.contains(&name));
    if !words.first().and_then(ShellWord::program).is_some_and(is_prefix) {
        return words;
    }
    let at = words.iter().position(|word| word.program().is_some_and(reads_program));
    words.get(at.unwrap_or(1)..).unwrap_or_default()
}

/// Returns whether a program reads program text.
fn reads_program(name: &str) -> bool {
    find_interpreter(name).is_some() || is_evaluator(name)
}

fn is_evaluator(name: &str) -> bool {
    name == "ssh" || EVALUATORS.iter().any(|(names, _)| names.contains(&name))
}

/// Returns whether a text that is replaced stands where a command runs it.
fn runs_replaced_text(words: &[ShellWord], text: &str) -> bool {
    let words = innermost(words);
    let Some((first, rest)) = words.split_first() else { return false };
    let Some(name) = first.program() else { return true };
    if name.contains(text) {
        return true;
    }
    if is_evaluator(name) {
        return rest.iter().any(|word| word.text.contains(text));
    }
    if find_interpreter(name).is_none() {
        return false;
    }
    // As an argument of its own it is data, unless it is the program.
    let mut before = first;
    rest.iter().any(|word| {
        let is_program = before.text.starts_with('-') || std::ptr::eq(before, first);
        before = word;
        word.text.contains(text) && (word.text != text || is_program)
    })
}

/// Returns whether a command runs the argument that is added to it.
fn runs_added_argument(words: &[ShellWord]) -> bool {
    let words = innermost(words);
    let Some((first, rest)) = words.split_first() else { return false };
    let Some(name) = first.program() else { return false };
    if is_evaluator(name) {
        return true;
    }
    find_interpreter(name).is_some_and(|known| {
        let has_operand = rest.iter().any(|word| !word.text.starts_with('-'));
        known.stdin && !has_operand
    })
}

const IN_NAME: PlacementError<'static> = PlacementError {
    reason: "may be a part of `{}`, which `find` puts into program text",
    help: "pass the name as an argument: `-exec sh -c '… \"$1\" …' sh {} \\;`",
};
