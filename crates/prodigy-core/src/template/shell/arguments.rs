//! Which values a command can take, and where.
//!
//! A value that arrives as an argument is safe only as long as the program takes
//! arguments for data. Many do not: they run them, or read them as a program.

use std::ops::Range;

use super::{
    analysis::{PlacementError, ScriptAnalysis, ValueConstraint},
    builtins,
    external::{self, ExternalCommand},
    interpreter::{check_interpreter, find_interpreter},
    options::{ArgumentKind, OptionArgument},
    programs::{CommandWrapper, EVALUATORS, OperandKind, PREFIXES, PRINTERS, RUNNERS},
    variables::CarriedValues,
    word::ShellWord,
};

/// Checks a command, its assignments first.
///
/// Returns whether the command runs what it reads on standard input.
pub(crate) fn check_simple_command(found: &mut ScriptAnalysis, words: &[ShellWord]) -> bool {
    let assignments = words.iter().take_while(|word| word.equals.is_some()).count();
    let (before, words) = words.split_at(assignments.min(words.len()));
    for word in before {
        found.refuse_words_filter(word, IN_ASSIGNMENT);
        let name = word.text.split(['=', '+', '[']).next().unwrap_or_default();
        let equals = word.equals.unwrap_or(word.range.end);
        let target = word.range.start..equals;
        found.refuse_references(&target, AS_VARIABLE);
        // What stands in a subscript is evaluated.
        found.variables.demand_of_uses(&target, ValueConstraint::NumberInVariable);
        let subscript = word.text.split('=').next().and_then(|text| text.split_once('['));
        found.variables.demand_numbers(subscript.map_or("", |(_, subscript)| subscript));
        check_assignment(found, name, word.range.clone(), &word.carried);
    }
    note_printed(found, words);
    check_command(found, words)
}

/// Notes what a command prints of its arguments.
fn note_printed(found: &mut ScriptAnalysis, words: &[ShellWord]) {
    let program = |word: &ShellWord| word.program().is_some_and(|name| PRINTERS.contains(&name));
    // `command`, `builtin` and their like stand before it.
    let Some(at) = words.iter().take(2).position(program) else { return };
    let arguments = words.get(at + 1..).unwrap_or_default();
    if !builtins::prints_numbers(arguments) {
        found.variables.note_printed(&CarriedValues::from_words(arguments));
    }
}

/// Checks the value that a variable gets.
pub(crate) fn check_assignment(
    found: &mut ScriptAnalysis,
    name: &str,
    range: Range<usize>,
    carried: &CarriedValues,
) {
    found.variables.note_assigned(name, range.clone());
    found.variables.note_flow(name, carried);
    let is_guarded = GUARDED.contains(&name) || GUARDED_STARTS.iter().any(|s| name.starts_with(s));
    if is_guarded {
        let reason = format!("would set `{name}`, which changes what programs run");
        let help = "choose another name, or set a fixed value";
        found.refuse(range, PlacementError { reason: &reason, help });
    }
}

/// Checks a command without assignments.
///
/// Returns whether the command runs what it reads on standard input.
pub(crate) fn check_command(found: &mut ScriptAnalysis, words: &[ShellWord]) -> bool {
    let Some((first, arguments)) = words.split_first() else { return false };
    if found.has_values(&first.range) {
        found.refuse(first.range.clone(), AS_COMMAND);
        return false;
    }
    let Some(name) = first.program() else {
        found.refuse(first.range.clone(), AS_COMMAND);
        unknown_program(found, arguments);
        return false;
    };
    found.variables.note_call(name, arguments);
    if let Some(name) = external::external_effect(name, arguments) {
        let end = arguments.last().map_or(first.range.end, |last| last.range.end);
        found.outside.push(ExternalCommand { range: first.range.start..end, name });
    }
    if let Some((_, help)) = EVALUATORS.iter().find(|(names, _)| names.contains(&name)) {
        let reason = format!("is an argument of `{name}`, which reads it as a program");
        for word in arguments {
            let refusal = PlacementError { reason: &reason, help };
            if name == "let" {
                found.refuse_references(&word.range, refusal);
                builtins::require_numbers(found, word);
            } else {
                found.refuse(word.range.clone(), refusal);
            }
        }
        return false;
    }
    if let Some(prefix) = PREFIXES.iter().find(|prefix| prefix.names.contains(&name)) {
        return prefixed(found, name, prefix, arguments);
    }
    if let Some(interpreter) = find_interpreter(name) {
        return check_interpreter(found, name, interpreter, arguments);
    }
    builtins::check_builtin(found, name, arguments)
        .unwrap_or_else(|| nested_interpreter(found, name, arguments))
}

/// Checks the arguments of a program that is known only at run time: `-c` and
/// `-e` mean program text to most.
fn unknown_program(found: &mut ScriptAnalysis, arguments: &[ShellWord]) {
    for pair in arguments.windows(2) {
        let [option, value] = pair else { continue };
        if matches!(option.text.as_str(), "-c" | "-e" | "--eval" | "--command") {
            let reason = format!("follows `{}`, which most shells read as a program", option.text);
            let help = "write the name of the program, or pass the value as a later argument";
            found.refuse(value.range.clone(), PlacementError { reason: &reason, help });
        }
    }
}

/// Finds `sh -c` and its like among the arguments of another program, such as
/// a container runner.
fn nested_interpreter(found: &mut ScriptAnalysis, name: &str, arguments: &[ShellWord]) -> bool {
    for (number, word) in arguments.iter().enumerate() {
        let Some(nested) = word.program() else { continue };
        let Some(known) =
            find_interpreter(nested).filter(|known| known.operand == OperandKind::File)
        else {
            continue;
        };
        let rest = arguments.get(number + 1..).unwrap_or_default();
        let is_code = |word: &ShellWord| {
            matches!(
                known.options.classify(&word.text),
                ArgumentKind::Next(OptionArgument::Code)
                    | ArgumentKind::Attached(OptionArgument::Code)
            )
        };
        let is_runner = RUNNERS.contains(&name);
        if is_runner || rest.iter().take_while(|word| word.text.starts_with('-')).any(is_code) {
            return check_interpreter(found, nested, known, rest) && is_runner;
        }
    }
    false
}

/// Refuses variables that would become several arguments of a program with options that run
/// commands.
pub(crate) fn guard_split(found: &mut ScriptAnalysis, name: &str, arguments: &[ShellWord]) {
    let reason = format!("the shell splits it into arguments of `{name}`, which can run commands");
    let help = "write the variable in double quotes";
    for word in arguments {
        found.variables.refuse_split(&word.range, PlacementError { reason: &reason, help });
    }
}

/// Demands that a word that starts with a value is no option.
pub(crate) fn forbid_leading_dash(found: &mut ScriptAnalysis, word: &ShellWord) {
    if let Some(name) = &word.starts_with_variable {
        found.variables.demand(name, ValueConstraint::NoDash);
    }
    if let Some(number) = word.starts_with {
        found.constrain_reference(number, ValueConstraint::NoDash);
    }
}

/// Checks a program that runs its arguments as a command.
fn prefixed(
    found: &mut ScriptAnalysis,
    name: &str,
    prefix: &CommandWrapper,
    arguments: &[ShellWord],
) -> bool {
    let code = format!("stands in program text that `{name}` reads");
    let help = "write the command as arguments of its own";
    let code = PlacementError { reason: &code, help };
    let mut operands = 0;
    let mut at = 0;
    while let Some(word) = arguments.get(at) {
        at += 1;
        if word.text == "--" {
            continue;
        }
        if prefix.only_looks.contains(&word.text.as_str()) {
            return false;
        }
        match prefix.options.classify(&word.text) {
            ArgumentKind::Flag => found.refuse(word.range.clone(), AS_OPTION),
            ArgumentKind::Attached(OptionArgument::Code) => found.refuse(word.range.clone(), code),
            ArgumentKind::Attached(_) => {}
            ArgumentKind::Next(takes) => {
                if let Some(value) = arguments.get(at) {
                    if takes == OptionArgument::Code {
                        found.refuse(value.range.clone(), code);
                    }
                    found.refuse_words_filter(value, "has the filter `words` after an option");
                }
                at += 1;
            }
            ArgumentKind::Operand => {
                if let Some(variable) = word.assigned_name() {
                    found.refuse_words_filter(word, IN_ASSIGNMENT);
                    // It is a variable of the command alone.
                    check_assignment(
                        found,
                        variable,
                        word.range.clone(),
                        &CarriedValues::default(),
                    );
                } else if operands < prefix.operands {
                    operands += 1;
                    found.refuse_words_filter(word, "has the filter `words` before a command");
                    found.constrain(word, ValueConstraint::Simple);
                } else {
                    return check_command(found, arguments.get(at - 1..).unwrap_or_default());
                }
            }
        }
    }
    false
}

/// Variables that decide which programs run.
const GUARDED: &[&str] = &[
    "PATH",
    "IFS",
    "ENV",
    "BASH_ENV",
    "SHELL",
    "SHELLOPTS",
    "BASHOPTS",
    "PS4",
    "PROMPT_COMMAND",
    "CDPATH",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "BROWSER",
    "LESSOPEN",
    "LESSCLOSE",
    "MANPAGER",
    "PERL5OPT",
    "PERL5LIB",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "PYTHONHOME",
    "NODE_OPTIONS",
    "NODE_PATH",
    "RUBYOPT",
    "RUBYLIB",
    "JAVA_TOOL_OPTIONS",
    "MAKEFLAGS",
    "RUSTC_WRAPPER",
    "RUSTFLAGS",
    "HOME",
];

/// Prefixes of the names of more such variables.
const GUARDED_STARTS: &[&str] = &["LD_", "DYLD_", "GIT_", "PRODIGY_", "BASH_FUNC", "SSH_ASKPASS"];

const IN_ASSIGNMENT: &str = "has the filter `words`, but a variable takes one word";
const AS_COMMAND: PlacementError<'static> = PlacementError {
    reason: "stands where a command is expected, so its value would choose what runs",
    help: "write the command's name, or use `${x|raw}` with `allow_raw: true` if it can be trusted like code",
};
const AS_VARIABLE: PlacementError<'static> = PlacementError {
    reason: "stands in the name of a variable",
    help: "write the name, and keep the value on the right of `=`",
};
pub(crate) const AS_OPTION: PlacementError<'static> = PlacementError {
    reason: "chooses an option of a program that can run commands",
    help: "write the option's name",
};
