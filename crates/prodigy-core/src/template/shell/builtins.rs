//! Programs whose arguments follow rules of their own.

use super::{
    analysis::{PlacementError, ScriptAnalysis, ValueConstraint},
    arguments::{self, forbid_leading_dash, guard_split},
    inserted_arguments::{find, xargs},
    options::{ArgumentKind, NO_OPTIONS, OptionArgument, OptionTable},
    variables::{ARGUMENTS, CarriedValues},
    word::ShellWord,
};

/// Checks the arguments of a program with rules of its own.
///
/// Returns whether it runs what it reads on standard input, or `None` for a
/// program without such rules.
pub(crate) fn check_builtin(
    found: &mut ScriptAnalysis,
    name: &str,
    arguments: &[ShellWord],
) -> Option<bool> {
    match name {
        "export" | "readonly" | "local" | "declare" | "typeset" => declaration(found, arguments),
        "unset" | "read" | "mapfile" | "readarray" | "getopts" => {
            names(found, name, arguments);
        }
        "printf" => printf(found, arguments),
        "test" | "[" => test(found, arguments),
        "." | "source" => source(found, arguments),
        "set" => found.variables.note_flow(ARGUMENTS, &CarriedValues::from_words(arguments)),
        "find" => find(found, arguments),
        "xargs" => return Some(xargs(found, arguments)),
        "make" | "gmake" => make(found, arguments),
        "git" => git(found, arguments),
        "ssh" => return Some(ssh(found, arguments)),
        _ => return None,
    }
    Some(false)
}

fn declaration(found: &mut ScriptAnalysis, arguments: &[ShellWord]) {
    let has = |letters: &[char]| {
        arguments.iter().any(|word| word.text.starts_with('-') && word.text.contains(letters))
    };
    let is_list = has(&['a', 'A']);
    let is_evaluated = has(&['i', 'n', '\0']);
    for word in arguments.iter().filter(|word| !word.text.starts_with('-')) {
        let assigned = word.assigned_name();
        let name = assigned.unwrap_or_else(|| word.literal_prefix());
        if is_list {
            found.variables.note_list(name);
        }
        if is_evaluated {
            found.variables.note_evaluated(name);
        }
        if assigned.is_none() || name.contains('[') {
            found.refuse(word.range.clone(), NAME);
        }
        found.refuse_words_filter(word, "has the filter `words` in a declaration");
        found.variables.note_declared(name, word.range.clone());
        arguments::check_assignment(found, name, word.range.clone(), &word.carried);
    }
}

fn names(found: &mut ScriptAnalysis, name: &str, arguments: &[ShellWord]) {
    let valued: &[&str] =
        if name == "read" { &["-p", "-t", "-n", "-N", "-d", "-u", "-i"] } else { &[] };
    let options = OptionTable { valued, ..NO_OPTIONS };
    let is_list = matches!(name, "mapfile" | "readarray")
        || arguments.iter().any(|word| word.text.starts_with('-') && word.text.contains('a'));
    for word in arguments.iter().filter(|_| is_list) {
        found.variables.note_list(&word.text);
    }
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match options.classify(&word.text) {
            ArgumentKind::Next(_) => {
                words.next();
            }
            ArgumentKind::Attached(_) => {}
            ArgumentKind::Flag | ArgumentKind::Operand => {
                found.refuse(word.range.clone(), NAME);
                if name != "unset" {
                    found.variables.note_read(&word.text);
                }
            }
        }
    }
    if name == "read" {
        found.variables.note_read("REPLY");
    }
}

fn printf(found: &mut ScriptAnalysis, arguments: &[ShellWord]) {
    let mut words = arguments.iter().filter(|word| word.text != "--");
    let mut format = words.next();
    if format.is_some_and(|word| word.text.starts_with("-v")) {
        let name = words.next();
        for word in format.into_iter().chain(name) {
            found.refuse(word.range.clone(), NAME);
        }
        if let Some(name) = name.filter(|_| !prints_numbers(arguments)) {
            found.variables.note_flow(&name.text, &CarriedValues::from_words(arguments));
        }
        format = words.next();
    }
    if let Some(format) = format {
        let refusal = PlacementError {
            reason: "stands in the format of `printf`, which gives `%` and `\\` a meaning",
            help: "write `printf '%s\\n' ${x}`",
        };
        found.refuse_references(&format.range, refusal);
    }
}

/// Returns whether the arguments of a `printf` make it print numbers alone.
pub(crate) fn prints_numbers(arguments: &[ShellWord]) -> bool {
    let Some(format) = arguments.iter().find(|word| word.text.contains('%')) else { return false };
    let Some(format) = format.literal() else { return false };
    let kind = |text: &str| {
        text.trim_start_matches(|c: char| "-+ #0.".contains(c))
            .chars()
            .find(|c| !c.is_ascii_digit())
    };
    format.split('%').skip(1).all(|text| kind(text).is_some_and(|kind| "diouxX".contains(kind)))
}

/// Demands whole numbers of the variables in a word that is evaluated.
pub(crate) fn require_numbers(found: &mut ScriptAnalysis, word: &ShellWord) {
    found.variables.demand_numbers(&word.text);
    for name in &word.carried.variables {
        found.variables.demand(name, ValueConstraint::NumberInVariable);
    }
}

fn test(found: &mut ScriptAnalysis, arguments: &[ShellWord]) {
    for pair in arguments.windows(2) {
        if let [operator, operand] = pair
            && matches!(operator.text.as_str(), "-v" | "-R")
        {
            found.refuse(operand.range.clone(), NAME);
        }
    }
}

fn source(found: &mut ScriptAnalysis, arguments: &[ShellWord]) {
    if let Some(file) = arguments.iter().find(|word| word.text != "--") {
        let refusal = PlacementError {
            reason: "chooses a file that the shell runs",
            help: "write the name of the file",
        };
        found.refuse(file.range.clone(), refusal);
    }
}

fn make(found: &mut ScriptAnalysis, arguments: &[ShellWord]) {
    let options = OptionTable {
        code: &["--eval", "-E"],
        file: &["-f", "--file", "--makefile", "-I", "--include-dir"],
        valued: &["-C", "--directory", "-o", "-W"],
        ..NO_OPTIONS
    };
    let refusal = PlacementError {
        reason: "is read by `make`, which runs `$(shell …)` in values",
        help: "use the environment: `X=${x} make …`, and `\"$$X\"` in the recipe",
    };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match options.classify(&word.text) {
            ArgumentKind::Next(OptionArgument::Code | OptionArgument::File) => {
                if let Some(value) = words.next() {
                    found.refuse(value.range.clone(), refusal);
                }
            }
            ArgumentKind::Next(OptionArgument::Value | OptionArgument::Pair) => {
                words.next();
            }
            ArgumentKind::Attached(OptionArgument::Code | OptionArgument::File)
            | ArgumentKind::Flag => {
                found.refuse(word.range.clone(), refusal);
            }
            ArgumentKind::Attached(OptionArgument::Value | OptionArgument::Pair) => {}
            ArgumentKind::Operand if word.literal_prefix().contains('=') => {
                found.refuse(word.range.clone(), refusal);
            }
            ArgumentKind::Operand => found.constrain(word, ValueConstraint::Simple),
        }
    }
}

fn git(found: &mut ScriptAnalysis, arguments: &[ShellWord]) {
    let options = OptionTable {
        code: &["-c", "--exec-path", "--config-env"],
        valued: &["-C", "--git-dir", "--work-tree", "--namespace"],
        ..NO_OPTIONS
    };
    let refusal = PlacementError {
        reason: "is read by git as a setting or a command to run",
        help: "write the setting or the command itself",
    };
    let mut at = 0;
    while let Some(word) = arguments.get(at) {
        at += 1;
        let more = match options.classify(&word.text) {
            ArgumentKind::Operand => break,
            ArgumentKind::Flag => 0,
            ArgumentKind::Attached(takes) | ArgumentKind::Next(takes) => {
                let value = if takes == OptionArgument::Code { arguments.get(at) } else { None };
                for word in value.into_iter().chain([word]) {
                    found.refuse(word.range.clone(), refusal);
                }
                usize::from(matches!(options.classify(&word.text), ArgumentKind::Next(_)))
            }
        };
        at += more;
    }
    let rest = arguments.get(at.saturating_sub(1)..).unwrap_or_default();
    let Some((subcommand, rest)) = rest.split_first() else { return };
    found.refuse(subcommand.range.clone(), refusal);
    if GIT_RUNS.contains(&subcommand.text.as_str()) {
        guard_split(found, "git", rest);
    }
    let second = rest.first().map(|word| word.text.as_str()).unwrap_or_default();
    let runs_text = match subcommand.text.as_str() {
        "filter-branch" => true,
        "submodule" => second == "foreach",
        "bisect" => second == "run",
        _ => false,
    };
    let mut before = "";
    for word in rest {
        let is_command = runs_text
            || (before == "-x" && subcommand.text == "rebase")
            || GIT_COMMAND_OPTIONS.contains(&before)
            || GIT_COMMAND_OPTIONS.iter().any(|option| {
                word.text.strip_prefix(option).is_some_and(|rest| rest.starts_with('='))
            });
        if is_command {
            found.refuse(word.range.clone(), refusal);
        } else if word.text == "--" {
            return;
        } else if !before.starts_with('-') {
            forbid_leading_dash(found, word);
        }
        before = &word.text;
    }
}

/// Subcommands of git with options that run commands.
const GIT_RUNS: [&str; 13] = [
    "archive",
    "bisect",
    "clone",
    "difftool",
    "fetch",
    "grep",
    "ls-remote",
    "mergetool",
    "pull",
    "push",
    "rebase",
    "remote",
    "submodule",
];

/// Options of git's subcommands that are followed by a command to run.
const GIT_COMMAND_OPTIONS: [&str; 6] =
    ["--exec", "--upload-pack", "--receive-pack", "--open-files-in-pager", "--extcmd", "--config"];

fn ssh(found: &mut ScriptAnalysis, arguments: &[ShellWord]) -> bool {
    let options = OptionTable {
        code: &["-o", "-F", "-J", "-e"],
        valued: &[
            "-p", "-i", "-l", "-b", "-c", "-D", "-E", "-I", "-L", "-m", "-Q", "-R", "-S", "-w",
            "-W", "-B",
        ],
        ..NO_OPTIONS
    };
    let setting = PlacementError {
        reason: "is a setting of `ssh`, which can run commands",
        help: "write the setting itself",
    };
    let remote = PlacementError {
        reason: "is an argument of `ssh`, which the remote shell reads as a program",
        help: "send the value on standard input: `printf '%s' ${x} | ssh host 'cat > file'`",
    };
    guard_split(found, "ssh", arguments);
    let mut words = arguments.iter();
    let mut has_host = false;
    while let Some(word) = words.next() {
        match options.classify(&word.text) {
            ArgumentKind::Next(takes) => {
                if let Some(value) = words.next()
                    && takes == OptionArgument::Code
                {
                    found.refuse(value.range.clone(), setting);
                }
            }
            ArgumentKind::Attached(OptionArgument::Code) | ArgumentKind::Flag => {
                found.refuse(word.range.clone(), setting);
            }
            ArgumentKind::Attached(_) => {}
            ArgumentKind::Operand if !has_host => {
                has_host = true;
                found.refuse_words_filter(word, "has the filter `words`, but `ssh` takes one host");
                found.constrain(word, ValueConstraint::Simple);
            }
            ArgumentKind::Operand => {
                for word in std::iter::once(word).chain(words.by_ref()) {
                    found.refuse(word.range.clone(), remote);
                }
                let first = word.text.split_whitespace().next().unwrap_or_default();
                return ["sh", "bash", "dash", "zsh", "ksh"].contains(&first);
            }
        }
    }
    true
}

const NAME: PlacementError<'static> = PlacementError {
    reason: "stands where the name of a variable is expected",
    help: "write the name; bash would run a command hidden in a subscript",
};
