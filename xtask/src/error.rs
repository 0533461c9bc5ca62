//! The errors of chores.

use std::{io, path::PathBuf};

/// An error of a chore.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A program could not be started.
    #[error("cannot start `{program}`: {source}")]
    Start {
        /// The program.
        program: String,
        /// The cause.
        source: io::Error,
    },
    /// A program said no.
    #[error("`{command}` failed ({status}){}", details(.stderr))]
    Failed {
        /// The whole command.
        command: String,
        /// The exit status.
        status: String,
        /// The standard error, where it was not shown already.
        stderr: String,
    },
    /// A step of the test chore failed.
    #[error("step `{step}` failed: {source}")]
    Step {
        /// The step.
        step: &'static str,
        /// The cause.
        source: Box<Self>,
    },
    /// A file could not be read or written.
    #[error("cannot use `{}`: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Generated pages are not what the binary would generate now.
    #[error("out of date: {}; run `cargo xtask docs`", .0.join(", "))]
    OutOfDate(Vec<String>),
    /// Budgets were missed.
    #[error("missed: {}", .0.join(", "))]
    Missed(Vec<String>),
    /// The measured program did not do its work, so that its time says nothing.
    #[error("nothing was measured: {0}")]
    Incomplete(String),
    /// A crash trial lost something or did something twice.
    #[error("{message}\nthe world is kept in `{}`{again}", world.display())]
    Broken {
        /// The error that was found.
        message: String,
        /// Where to look.
        world: PathBuf,
        /// The instructions to reproduce it.
        again: String,
    },
    /// The scripted model could not go on.
    #[error("the model cannot listen: {0}")]
    Model(io::Error),
    /// There is no package of an agent for this kind of machine.
    #[error("there is no `{name}` for this machine at {url}")]
    NoAgent {
        /// The agent.
        name: &'static str,
        /// Where it would be.
        url: String,
    },
    /// A tool is not installed.
    #[error("`{tool}` is not installed; install it with `{install}`")]
    Missing {
        /// The tool.
        tool: &'static str,
        /// The command that installs it.
        install: &'static str,
    },
}

fn details(stderr: &str) -> String {
    if stderr.trim().is_empty() { String::new() } else { format!("\n{}", stderr.trim_end()) }
}
