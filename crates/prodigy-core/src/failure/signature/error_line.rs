//! Telling in one line what went wrong.

use super::ansi_escapes::strip_ansi;
use crate::failure::Failure;

/// The most characters of a line that a message repeats.
const LONGEST: usize = 200;
/// The most characters of a step's name.
const LONGEST_NAME: usize = 60;

/// Words in lines that tell of an error.
const TELLING: &[&str] = &[
    "error",
    "fatal",
    "panic",
    "exception",
    "fail",
    "denied",
    "not found",
    "cannot",
    "can't",
    "could not",
    "couldn't",
    "unable to",
    "no such",
    "undefined",
    "unexpected",
    "unresolved",
    "invalid",
    "missing",
    "refused",
    "timed out",
    "abort",
    "killed",
    "exceeded",
    "conflict",
    "rejected",
    "segmentation fault",
    "unknown",
    "mismatch",
    "no space",
    "out of memory",
];

/// Words in lines that only say that there were errors; the errors stand above.
const SUMMARIES: &[&str] = &[
    "could not compile",
    "aborting due to",
    "previous error",
    "more information about this error",
    "have detailed explanations",
    "test failed, to rerun",
    "test result:",
    "short test summary",
    "complete log of this run",
    "make: ***",
    "make[",
    "build failed",
    "exit code",
    "exit status",
    "exited with",
    "elifecycle",
    "lifecycle script",
    "non-zero",
    "failed to push some refs",
    "failures:",
    "npm err! code",
    "npm error code",
    "npm err! errno",
    "npm error errno",
    "tests failed",
    "test suites:",
    "re-run maven",
    "[help 1]",
    "full stack trace",
    "errors found",
    "problems (",
    "error generated",
    "errors generated",
    "no error",
    " 0 errors",
    "compilation terminated",
    "pip's dependency resolver",
];

/// The beginnings of lines that tell of no error of their own.
const ASIDE: &[&str] =
    &["note:", "help:", "hint:", "warning:", "info:", "debug:", "at ", "-->", "= ", "|", "✓", "✔"];

/// Returns the line of an output that best says what went wrong.
///
/// That is the last one that tells of an error, then the last one that sums up, then the last
/// one of all.
pub fn error_line(output: &str) -> Option<String> {
    let lines: Vec<String> = output.lines().map(plain).filter(|line| !line.is_empty()).collect();
    let lower: Vec<String> = lines.iter().map(|line| line.to_lowercase()).collect();
    let has = |line: &String, words: &[&str]| words.iter().any(|word| line.contains(word));
    let tells = |line: &String| {
        let text = line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
        has(line, TELLING)
            && !ASIDE.iter().any(|start| text.starts_with(start))
            && !(line.starts_with("test ") && line.ends_with(" ok"))
    };
    let best = lower
        .iter()
        .rposition(|line| tells(line) && !has(line, SUMMARIES))
        .or_else(|| lower.iter().rposition(tells))
        .or_else(|| lower.len().checked_sub(1))?;
    lines.get(best).map(|line| bounded(line, LONGEST))
}

/// Returns a line without colours, control characters and repeated spaces.
fn plain(line: &str) -> String {
    let text = strip_ansi(line);
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    // Rules and boxes around text say nothing.
    if words.iter().any(|word| word.contains(char::is_alphanumeric)) {
        words.join(" ")
    } else {
        String::new()
    }
}

fn bounded(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or(text).trim_end()),
    }
}

/// Returns a failure whose message tells causes apart: which step it was, and what it said.
///
/// Only a message that is nothing but an exit code or a signal is changed, or one that ends with
/// an exit code: every other one says already what went wrong.
pub fn with_summary(mut failure: Failure, step: Option<&str>) -> Failure {
    let Some(end) = ending(&failure.message) else { return failure };
    let said = error_line(&failure.output_tail);
    if end.len() == failure.message.len()
        && let Some(step) = step
    {
        let step = plain(step.strip_prefix("shell: ").unwrap_or(step));
        let step = bounded(&step, LONGEST_NAME);
        let verb = if end.starts_with("exit") { "failed with" } else { "was" };
        failure.message = format!("`{step}` {verb} {end}");
    }
    if let Some(said) = said.filter(|said| !failure.message.contains(said.as_str())) {
        failure.message = format!("{}: {said}", failure.message);
    }
    failure
}

/// Returns the part of a message that is an exit code or a signal, if it ends with one.
fn ending(message: &str) -> Option<String> {
    let (before, number) = message.rsplit_once(' ')?;
    number.parse::<i32>().ok()?;
    let what = ["exit code", "ended by signal"].into_iter().find(|what| {
        before == *what || before.strip_suffix(what).is_some_and(|text| text.ends_with(": "))
    })?;
    Some(format!("{what} {number}"))
}

/// Returns a message with the name of its step as plain words: the name is not what differs from
/// case to case, as other quoted text is.
pub(crate) fn unquote_step_name(message: &str) -> String {
    const VERBS: [&str; 2] = ["` failed with exit code ", "` was ended by signal "];
    let Some(rest) = message.strip_prefix('`') else { return message.to_owned() };
    let split = VERBS.iter().filter_map(|verb| Some((rest.find(verb)?, *verb))).min();
    let parts = split.and_then(|(at, verb)| {
        Some((rest.get(..at)?, verb.trim_start_matches('`'), rest.get(at + verb.len()..)?))
    });
    match parts {
        Some((step, verb, after)) => format!("{step}{verb}{after}"),
        None => message.to_owned(),
    }
}
