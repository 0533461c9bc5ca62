//! Why a chore could not be done.

use std::{io, path::PathBuf};

/// Why a chore could not be done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A program could not be started.
    #[error("cannot start `{program}`: {source}")]
    Start {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// A program said no.
    #[error("`{command}` failed ({status}){}", details(.stderr))]
    Failed {
        /// The whole command.
        command: String,
        /// How it ended.
        status: String,
        /// What it said, where that was not shown already.
        stderr: String,
    },
    /// A step of the test chore failed.
    #[error("step `{step}` failed: {source}")]
    Step {
        /// The step.
        step: &'static str,
        /// Why.
        source: Box<Self>,
    },
    /// A file could not be read or written.
    #[error("cannot use `{}`: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Generated pages are not what the binary would generate now.
    #[error("out of date: {}; run `cargo xtask docs`", .0.join(", "))]
    OutOfDate(Vec<String>),
    /// Budgets were missed.
    #[error("missed: {}", .0.join(", "))]
    Missed(Vec<String>),
    /// What was measured did not do its work, so that its time says nothing.
    #[error("nothing was measured: {0}")]
    Incomplete(String),
    /// A crash trial lost something or did something twice.
    #[error("{message}\nthe world is kept in `{}`{again}", world.display())]
    Broken {
        /// What is wrong.
        message: String,
        /// Where to look.
        world: PathBuf,
        /// How to see it again.
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
