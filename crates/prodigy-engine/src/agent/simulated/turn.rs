//! The process of the simulated agent: its turn, as it was decided for it.

use std::{
    borrow::Cow,
    ffi::OsString,
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Component, Path, PathBuf},
    process::Command,
    time::Duration,
};

use prodigy_core::{
    agent::TokenUsage,
    workflow::{SimulatedEdit, SimulatedEnd, SimulatedTurn},
};
use rustix::process::{Signal, getpid, kill_process};
use serde_json::json;

use super::{event_printer::EventPrinter, quota};
use crate::clock;

/// The command that is denied.
const DENIED: &str = "git commit --all";

/// The end of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnOutcome {
    /// With an answer.
    Answered,
    /// With an error, which was said.
    Failed,
}

/// The reason why a turn could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An edit would lie outside of the directory, or inside of git's own.
    #[error("`{0}` is not a path inside the worktree")]
    Outside(String),
    /// A file could not be written.
    #[error("cannot write `{path}`")]
    Write {
        /// The file.
        path: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// git could not be run.
    #[error("cannot run git")]
    Git(#[source] io::Error),
    /// git refused.
    #[error("`git {command}` failed: {message}")]
    GitFailed {
        /// The git command.
        command: &'static str,
        /// The message of git.
        message: String,
    },
    /// The agent's output could not be printed.
    #[error("cannot print")]
    Print(#[from] io::Error),
    /// The file that says when the usage limit is reset could not be used.
    #[error("cannot use `{}`", path.display())]
    Limit {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// Carries out a turn in a directory and says so in events, one per line. A hanging turn does not
/// return, and a crashing one ends the process.
///
/// A usage limit is one for all turns that are given the same file.
pub fn run_turn(
    turn: &SimulatedTurn,
    directory: &Path,
    limit: Option<&Path>,
    out: &mut dyn Write,
) -> Result<TurnOutcome, Error> {
    let resets_at = quota::quota_reset_time(turn.end, limit, clock::now())?;
    let mut turn = Cow::Borrowed(turn);
    if resets_at.is_some() && !matches!(turn.end, SimulatedEnd::UsageLimit(_)) {
        // It meets the limit of others, and is turned away before it has used anything.
        let turn = turn.to_mut();
        (turn.cost_usd, turn.tokens) = (0.0, TokenUsage::default());
    }
    let turn = &*turn;
    let mut speech = EventPrinter::new(turn, out);
    speech.init()?;
    if let Some(resets_at) = resets_at {
        let message = format!("You've hit your limit · resets at {resets_at:.0}");
        speech.rate_limit(resets_at)?;
        speech.api_error(429, "rate_limit", &message)?;
        return Ok(TurnOutcome::Failed);
    }
    wait(Duration::from_millis(turn.delay_ms));
    speech.long_text(turn.noise)?;
    match turn.end {
        SimulatedEnd::Well | SimulatedEnd::UsageLimit(_) => {
            work(turn, directory, &mut speech)?;
            speech.success_result(&turn.answer)?;
        }
        SimulatedEnd::Denied => {
            speech.denied_tool("Bash", &json!({ "command": DENIED }))?;
            work(turn, directory, &mut speech)?;
            let apology = "I was not allowed to commit";
            speech.success_result(if turn.answer.is_empty() { apology } else { &turn.answer })?;
        }
        SimulatedEnd::Garbage => {
            work(turn, directory, &mut speech)?;
            speech.truncated_line()?;
        }
        SimulatedEnd::Crash => {
            if let Some(edit) = turn.edits.first() {
                make(edit, directory, &mut speech)?;
            }
            // Should the signal be refused, the process still ends without an answer.
            kill_process(getpid(), Signal::KILL).ok();
            return Ok(TurnOutcome::Failed);
        }
        SimulatedEnd::Hang => loop {
            wait(Duration::from_secs(3600));
        },
        SimulatedEnd::Error
        | SimulatedEnd::Status(_)
        | SimulatedEnd::Refusal
        | SimulatedEnd::MaxTurns
        | SimulatedEnd::OverBudget => {
            work(turn, directory, &mut speech)?;
            fail(turn, &mut speech)?;
            return Ok(TurnOutcome::Failed);
        }
    }
    Ok(TurnOutcome::Answered)
}

/// Does what is left of the work.
fn work(
    turn: &SimulatedTurn,
    directory: &Path,
    speech: &mut EventPrinter<'_>,
) -> Result<(), Error> {
    for edit in &turn.edits {
        make(edit, directory, speech)?;
    }
    if let Some(message) = &turn.commit {
        commit(message, directory)?;
        let command = format!("git commit --all --message={message:?}");
        speech.use_tool("Bash", &json!({ "command": command }), "")?;
    }
    Ok(())
}

/// Makes an edit.
fn make(
    edit: &SimulatedEdit,
    directory: &Path,
    speech: &mut EventPrinter<'_>,
) -> Result<(), Error> {
    write(edit, directory)?;
    let input = json!({ "file_path": edit.path, "content": edit.content });
    Ok(speech.use_tool("Write", &input, "The file was written")?)
}

/// Says what went wrong, in the words of the rule or in those of a real agent.
fn fail(turn: &SimulatedTurn, speech: &mut EventPrinter<'_>) -> io::Result<()> {
    let said = |usual: String| if turn.answer.is_empty() { usual } else { turn.answer.clone() };
    match turn.end {
        SimulatedEnd::Status(status) => {
            let (error, message) = status_words(status);
            if matches!(status, 429 | 500 | 529) {
                speech.retry(status, error)?;
            }
            speech.api_error(status, error, &said(message.to_owned()))
        }
        SimulatedEnd::Refusal => speech.refusal(&said("I cannot help with that".to_owned())),
        SimulatedEnd::MaxTurns => {
            let message = format!("Reached maximum number of turns ({})", turn.turns);
            speech.error_result("error_max_turns", &message)
        }
        SimulatedEnd::OverBudget => {
            let message = format!("Reached maximum budget (${})", dollars(turn.cost_usd));
            speech.error_result("error_max_budget_usd", &message)
        }
        SimulatedEnd::Error
        | SimulatedEnd::Well
        | SimulatedEnd::Denied
        | SimulatedEnd::Crash
        | SimulatedEnd::Hang
        | SimulatedEnd::UsageLimit(_)
        | SimulatedEnd::Garbage => {
            speech.error_result("error_during_execution", &said("simulated error".to_owned()))
        }
    }
}

/// Returns an amount without the error of its binary form, and without zeros at its end.
fn dollars(amount: f64) -> String {
    let text = format!("{amount:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns what Claude Code calls a status of its provider, and what it says then.
fn status_words(status: u16) -> (&'static str, &'static str) {
    match status {
        400 => ("billing_error", "Credit balance is too low"),
        401 => ("authentication_failed", "Invalid API key · Fix external API key"),
        429 => ("rate_limit", "API Error: Request rejected (429) · Please try again later"),
        529 => ("overloaded", "API Error: 529 Overloaded"),
        _ => ("server_error", "API Error: 500 Internal server error"),
    }
}

#[expect(clippy::disallowed_methods, reason = "the process has nothing to do but wait")]
fn wait(duration: Duration) {
    if !duration.is_zero() {
        std::thread::sleep(duration);
    }
}

fn write(edit: &SimulatedEdit, directory: &Path) -> Result<(), Error> {
    let path = make_way(&edit.path, directory)?;
    let mut options = OpenOptions::new();
    options.create(true).write(true).append(edit.append).truncate(!edit.append);
    options
        .open(path)
        .and_then(|mut file| file.write_all(edit.content.as_bytes()))
        .map_err(|source| Error::Write { path: edit.path.clone(), source })
}

/// Makes the directories above a file and returns its full path.
///
/// No part of the way may be a link: a link could lead out of the worktree.
fn make_way(path: &str, directory: &Path) -> Result<PathBuf, Error> {
    let outside = || Error::Outside(path.to_owned());
    let mut names = Vec::new();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(name) if name != ".git" => names.push(name),
            Component::CurDir => {}
            Component::Normal(_)
            | Component::Prefix(_)
            | Component::RootDir
            | Component::ParentDir => return Err(outside()),
        }
    }
    let Some((file, above)) = names.split_last() else { return Err(outside()) };
    let mut way = directory.to_owned();
    for name in above {
        way.push(name);
        if way.is_symlink() {
            return Err(outside());
        }
        if !way.is_dir() {
            fs::create_dir(&way)
                .map_err(|source| Error::Write { path: path.to_owned(), source })?;
        }
    }
    way.push(file);
    if way.is_symlink() { Err(outside()) } else { Ok(way) }
}

/// Commits everything, under a name of the agent's own where the environment gives none.
fn commit(message: &str, directory: &Path) -> Result<(), Error> {
    git("add", &["--all".into()], directory)?;
    let status = git("status", &["--porcelain".into()], directory)?;
    if status.is_empty() {
        return Ok(());
    }
    let message = if message.trim().is_empty() { "Simulated change" } else { message };
    let args = ["--quiet".into(), "--no-gpg-sign".into(), format!("--message={message}").into()];
    git("commit", &args, directory).map(drop)
}

#[expect(clippy::disallowed_methods, reason = "this process runs under the supervisor itself")]
fn git(command: &'static str, args: &[OsString], directory: &Path) -> Result<Vec<u8>, Error> {
    let output = Command::new("git")
        .args(["-c", "user.name=Simulated agent", "-c", "user.email=simulated@localhost"])
        .arg(command)
        .args(args)
        .current_dir(directory)
        .output()
        .map_err(Error::Git)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::GitFailed { command, message })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn edit(path: &str) -> SimulatedEdit {
        SimulatedEdit { path: path.to_owned(), content: "x\n".to_owned(), append: true }
    }

    fn turn(end: SimulatedEnd) -> SimulatedTurn {
        SimulatedTurn {
            session_id: "s".to_owned(),
            answer: "done".to_owned(),
            edits: vec![edit("a/b.txt")],
            cost_usd: 0.5,
            end,
            ..SimulatedTurn::default()
        }
    }

    /// Carries out a turn; returns how it ended and the kinds of its events.
    fn told(turn: &SimulatedTurn, directory: &Path) -> (TurnOutcome, Vec<String>) {
        let mut out = Vec::new();
        let end = run_turn(turn, directory, None, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let kinds = text.lines().map(|line| {
            let event: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
            let subtype = event["subtype"].as_str().unwrap_or_default();
            format!("{}/{subtype}", event["type"].as_str().unwrap_or("?"))
        });
        (end, kinds.collect())
    }

    #[test]
    fn edits_are_made_and_told_of() {
        let directory = tempfile::tempdir().unwrap();
        let (end, kinds) = told(&turn(SimulatedEnd::Well), directory.path());
        assert_eq!(end, TurnOutcome::Answered);
        let expected = ["system/init", "assistant/", "user/", "assistant/", "result/success"];
        assert_eq!(kinds, expected);
        told(&turn(SimulatedEnd::Well), directory.path());
        assert_eq!(fs::read_to_string(directory.path().join("a/b.txt")).unwrap(), "x\nx\n");
    }

    #[test]
    fn each_failure_is_told_as_claude_code_tells_it() {
        let directory = tempfile::tempdir().unwrap();
        let ends = [
            SimulatedEnd::Error,
            SimulatedEnd::Status(429),
            SimulatedEnd::Status(401),
            SimulatedEnd::UsageLimit(prodigy_core::workflow::SimulatedReset::AfterMs(60_000)),
            SimulatedEnd::Refusal,
            SimulatedEnd::MaxTurns,
            SimulatedEnd::OverBudget,
            SimulatedEnd::Garbage,
            SimulatedEnd::Denied,
        ];
        let shown = ends.map(|end| {
            let turn = SimulatedTurn { edits: Vec::new(), ..turn(end) };
            let (ended, kinds) = told(&turn, directory.path());
            format!("{end:?}: {ended:?} {}", kinds[1..].join(" "))
        });
        insta::assert_snapshot!(shown.join("\n"), @"
        Error: Failed result/error_during_execution
        Status(429): Failed system/api_retry assistant/ result/success
        Status(401): Failed assistant/ result/success
        UsageLimit(AfterMs(60000)): Failed rate_limit_event/ assistant/ result/success
        Refusal: Failed assistant/ result/success
        MaxTurns: Failed result/error_max_turns
        OverBudget: Failed result/error_max_budget_usd
        Garbage: Answered ?/
        Denied: Answered assistant/ system/permission_denied user/ assistant/ result/success
        ");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_amount_is_told_as_a_person_would() {
        let told = [0.1_f64 + 0.2 - 0.2 - 0.000_000_01, 0.5, 2.0, 0.003_54, 10.0].map(dollars);
        assert_eq!(told, ["0.1", "0.5", "2", "0.00354", "10"]);
    }

    #[test]
    fn who_meets_the_limit_of_others_has_used_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("limit");
        let reset = prodigy_core::workflow::SimulatedReset::AfterMs(60_000);
        let costs = [SimulatedEnd::UsageLimit(reset), SimulatedEnd::Well].map(|end| {
            let mut out = Vec::new();
            let end = run_turn(&turn(end), directory.path(), Some(&file), &mut out).unwrap();
            assert_eq!(end, TurnOutcome::Failed);
            let last = String::from_utf8(out).unwrap().lines().last().unwrap().to_owned();
            let result: serde_json::Value = serde_json::from_str(&last).unwrap();
            result["total_cost_usd"].to_string()
        });
        assert_eq!(costs, ["0.5", "0.0"]);
    }

    #[test]
    fn an_edit_stays_inside() {
        let outer = tempfile::tempdir().unwrap();
        let directory = outer.path().join("inner");
        fs::create_dir(&directory).unwrap();
        symlink(outer.path(), directory.join("way-out")).unwrap();
        symlink(outer.path().join("target"), directory.join("link")).unwrap();
        for path in ["", ".", "../x", "a/../../x", "/etc/x", ".git/config", "way-out/x", "link"] {
            let error = write(&edit(path), &directory).unwrap_err();
            assert_eq!(error.to_string(), format!("`{path}` is not a path inside the worktree"));
        }
        assert_eq!(fs::read_dir(outer.path()).unwrap().count(), 1);
        write(&edit("./ok/file"), &directory).unwrap();
    }
}
