//! What the process of the simulated agent does: its turn, as it was decided for it.

use std::{
    ffi::OsString,
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Component, Path, PathBuf},
    process::Command,
    time::Duration,
};

use prodigy_core::workflow::{SimulatedEdit, SimulatedFault, SimulatedTurn};
use rustix::process::{Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};

/// The one line that the process prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SimulatedResult {
    pub(super) answer: String,
    pub(super) cost_usd: f64,
    pub(super) permission_denied: bool,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnEnd {
    /// With an answer; this is the line to print.
    Answered(String),
    /// With an error; this is the message.
    Failed(String),
}

/// Why a turn could not be carried out.
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
        /// Why.
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
        /// What git said.
        message: String,
    },
    /// The answer could not be written down.
    #[error("cannot write the result")]
    Result(#[source] serde_json::Error),
}

/// Carries out a turn in a directory. A hanging turn does not return, and a crashing one ends
/// the process.
pub fn perform(turn: &SimulatedTurn, directory: &Path) -> Result<TurnEnd, Error> {
    wait(Duration::from_millis(turn.delay_ms));
    match turn.fault {
        None => {
            for edit in &turn.edits {
                write(edit, directory)?;
            }
            if let Some(message) = &turn.commit {
                commit(message, directory)?;
            }
            answer(turn, false)
        }
        Some(SimulatedFault::Lie) => answer(turn, false),
        Some(SimulatedFault::PermissionDenied) => answer(turn, true),
        Some(SimulatedFault::Error) => Ok(TurnEnd::Failed(match turn.answer.as_str() {
            "" => "simulated error".to_owned(),
            message => message.to_owned(),
        })),
        Some(SimulatedFault::Crash) => {
            if let Some(edit) = turn.edits.first() {
                write(edit, directory)?;
            }
            // Should the signal be refused, the process still ends without an answer.
            kill_process(getpid(), Signal::KILL).ok();
            Ok(TurnEnd::Failed("simulated crash".to_owned()))
        }
        Some(SimulatedFault::Hang) => loop {
            wait(Duration::from_secs(3600));
        },
    }
}

#[expect(clippy::disallowed_methods, reason = "the process has nothing to do but wait")]
fn wait(duration: Duration) {
    if !duration.is_zero() {
        std::thread::sleep(duration);
    }
}

fn answer(turn: &SimulatedTurn, permission_denied: bool) -> Result<TurnEnd, Error> {
    let result =
        SimulatedResult { answer: turn.answer.clone(), cost_usd: turn.cost_usd, permission_denied };
    serde_json::to_string(&result).map(TurnEnd::Answered).map_err(Error::Result)
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

    fn turn(fault: Option<SimulatedFault>) -> SimulatedTurn {
        SimulatedTurn {
            answer: "done".to_owned(),
            edits: vec![edit("a/b.txt")],
            cost_usd: 0.5,
            fault,
            ..SimulatedTurn::default()
        }
    }

    #[test]
    fn edits_are_made_and_the_answer_is_one_line() {
        let directory = tempfile::tempdir().unwrap();
        let end = perform(&turn(None), directory.path()).unwrap();
        let line = r#"{"answer":"done","cost_usd":0.5,"permission_denied":false}"#;
        assert_eq!(end, TurnEnd::Answered(line.to_owned()));
        perform(&turn(None), directory.path()).unwrap();
        assert_eq!(fs::read_to_string(directory.path().join("a/b.txt")).unwrap(), "x\nx\n");
    }

    #[test]
    fn a_lie_an_error_and_a_denial_leave_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        for (fault, expected) in [
            (
                SimulatedFault::Lie,
                r#"Answered("{\"answer\":\"done\",\"cost_usd\":0.5,\"permission_denied\":false}")"#,
            ),
            (
                SimulatedFault::PermissionDenied,
                r#"Answered("{\"answer\":\"done\",\"cost_usd\":0.5,\"permission_denied\":true}")"#,
            ),
            (SimulatedFault::Error, r#"Failed("done")"#),
        ] {
            let end = perform(&turn(Some(fault)), directory.path()).unwrap();
            assert_eq!(format!("{end:?}"), expected);
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
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
