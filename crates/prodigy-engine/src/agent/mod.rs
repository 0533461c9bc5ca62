//! Agents: from a prompt to a process, and from what came back to a report.
//!
//! An agent runs nothing itself. The step executor launches the process under the
//! supervisor like any other, so that limits, logs, masking and the ending of
//! processes are the same for an agent and for a shell command.

mod command;
mod judge;
mod simulated;
mod turn;

use std::{ffi::OsString, path::Path};

use prodigy_core::{failure::Failure, workflow::AgentConfig};

pub use self::turn::{Error, TurnEnd, perform};
use crate::process::Ended;

/// What an agent is asked to do.
#[derive(Clone, Copy, Debug)]
pub struct AgentRequest<'a> {
    /// The prompt, with every value filled in.
    pub prompt: &'a str,
    /// This binary, which is also the simulated agent.
    pub program: &'a Path,
    /// The step's path.
    pub step: &'a str,
    /// Which try this is, from 1.
    pub attempt: u32,
}

/// The process that carries out a request; it runs in the worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentLaunch {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// What it reads.
    pub stdin: Vec<u8>,
    /// What is added to the environment of the step.
    pub env: Vec<(OsString, OsString)>,
}

/// What an agent made of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentReport {
    /// Its answer.
    pub output: String,
    /// What it says it cost.
    pub cost_usd: Option<f64>,
    /// Why it did not succeed.
    ///
    /// A [`PermissionDenied`](prodigy_core::failure::FailureKind::PermissionDenied) is what the
    /// agent said; whoever knows the worktree may find that the work was done all the same.
    pub failure: Option<Failure>,
}

/// A kind of agent.
pub trait Agent: Send + Sync {
    /// Returns the process to start for a request.
    fn launch(&self, request: &AgentRequest<'_>) -> AgentLaunch;

    /// Judges how the process ended and what it printed.
    fn report(&self, ended: &Ended) -> AgentReport;

    /// Returns the program that must be installed, to be looked for before anything starts.
    fn program(&self) -> Option<&str>;
}

/// Returns the agent that a workflow configures.
pub fn agent(config: &AgentConfig) -> Box<dyn Agent> {
    match config {
        AgentConfig::Command(config) => Box::new(command::Program::new(config.clone())),
        AgentConfig::Simulated(config) => Box::new(simulated::Simulated::new(config.clone())),
    }
}
