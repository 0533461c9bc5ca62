//! Agents: from a prompt to a process, and from what came back to a report.
//!
//! An agent runs nothing itself. The step executor launches the process under the
//! supervisor like any other, so that limits, logs, masking and the ending of
//! processes are the same for an agent and for a shell command.

mod claude;
mod codex;
mod command;
mod outcome;
mod simulated;

use std::{
    ffi::{OsStr, OsString},
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use prodigy_core::{
    Timestamp,
    agent::{DeniedTool, QuotaLimit, StreamDialect, StreamState, TokenPrices, TokenUsage},
    failure::{Failure, ReasonCode},
    workflow::{AgentConfig, AgentKind, AgentOptions, Step},
};
use serde_json::Value;

use crate::process::ProcessOutcome;

pub use simulated::turn::{Error, TurnOutcome, run_turn};

/// A request to an agent.
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
    /// The item's id, or the name that stands for the job's own steps.
    pub item: &'a str,
    /// The step.
    pub definition: &'a Step,
    /// Where the job keeps its state.
    pub state: &'a Path,
    /// The options of the step and of the agent's configuration.
    pub options: &'a AgentOptions,
    /// The addition to the agent's own system prompt, with every value filled in.
    pub system_prompt: Option<&'a str>,
    /// The session that the prompt is part of.
    pub session: SessionRef<'a>,
    /// The most that may be spent on it, besides what the options say.
    pub budget_usd: Option<f64>,
    /// Where it works.
    pub cwd: &'a Path,
    /// The worktree around it.
    pub worktree: &'a Path,
    /// A directory for files that are needed only now.
    pub scratch: &'a Path,
    /// The environment of the step.
    pub env: &'a [(OsString, OsString)],
    /// Set if it runs in the sandbox of the workflow.
    pub is_confined: bool,
    /// Set if the worktree has settings for it that the user does not trust, and that it must
    /// not read.
    pub is_untrusted: bool,
}

/// A conversation with an agent.
#[derive(Clone, Copy, Debug)]
pub struct SessionRef<'a> {
    /// Its name: a UUID.
    pub id: &'a str,
    /// Set if it exists and is resumed.
    pub resume: bool,
}

/// The process that carries out a request; it runs in the worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentLaunch {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// The standard input.
    pub stdin: Vec<u8>,
    /// The additions to the environment of the step.
    pub env: Vec<(OsString, OsString)>,
    /// The format of its stream of events, if it has one.
    pub dialect: Option<StreamDialect>,
}

/// The traces of an agent after the end of its process.
#[derive(Clone, Copy, Debug)]
pub struct AgentExit<'a> {
    /// The result of the process.
    pub ended: &'a ProcessOutcome,
    /// The state of its stream of events, if it has one.
    pub heard: Option<&'a StreamState>,
    /// Where it worked.
    pub cwd: &'a Path,
    /// The worktree around it.
    pub worktree: &'a Path,
    /// Set if it was asked to answer in the form of a schema.
    pub wants_structured: bool,
    /// The moment at which it ended.
    pub now: Timestamp,
}

/// The result of a request to an agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentReport {
    /// Its answer.
    pub output: String,
    /// Set if the answer is all that it printed, of which `output` has the beginning and the end.
    pub is_printed: bool,
    /// The answer in the form of a schema, if it was asked for one and gave it.
    pub structured: Option<Value>,
    /// The usage, as far as it reported it.
    pub usage: TokenUsage,
    /// The cost that it reported.
    pub cost_usd: Option<f64>,
    /// The model that it used.
    pub model: Option<String>,
    /// The name under which it can go on later.
    pub session: Option<String>,
    /// The tools that it wanted to use and was not allowed to.
    ///
    /// That is no failure by itself: who knows the worktree can tell whether the work was done.
    pub denied: Vec<DeniedTool>,
    /// The limit of an account that it ran into; it counts more than the failure.
    pub limit: Option<QuotaLimit>,
    /// The failure, if it did not succeed.
    pub failure: Option<Failure>,
}

/// A kind of agent.
pub trait Agent: Send + Sync {
    /// Returns the process to start for a request, or why there is no sense in starting it.
    fn launch(&self, request: &AgentRequest<'_>) -> Result<AgentLaunch, Failure>;

    /// Judges what the process left behind.
    fn evaluate(&self, traces: &AgentExit<'_>) -> AgentReport;

    /// Returns the program that must be installed, to be looked for before anything starts.
    fn program(&self) -> Option<&str>;

    /// Returns which kind it is.
    fn kind(&self) -> AgentKind;

    /// Returns what a person does to give it access to its account again.
    fn access_hint(&self) -> String {
        "renew its credential".to_owned()
    }

    /// Returns what its configuration asks of it.
    fn options(&self) -> Option<&AgentOptions> {
        None
    }

    /// Returns the prices of its tokens, if its configuration has them.
    fn prices(&self) -> Option<&TokenPrices> {
        None
    }

    /// Returns whether it is asked to write nothing and relies on a sandbox for that.
    fn is_read_only(&self, options: &AgentOptions) -> bool {
        let _ = options;
        false
    }

    /// Returns the directory in which it keeps its settings, its account and its sessions.
    fn config_dir(&self, env: &[(OsString, OsString)]) -> Option<PathBuf> {
        let _ = env;
        None
    }

    /// Makes an earlier session ready to be gone on with in a worktree; `false` if there is none
    /// in the agent's directory.
    fn restore_session(&self, session: &str, cwd: &Path, directory: &Path) -> bool {
        let _ = (session, cwd, directory);
        false
    }
}

/// Returns the agent that a workflow configures.
pub fn driver_for(config: &AgentConfig) -> Box<dyn Agent> {
    match config {
        AgentConfig::Claude(config) => Box::new(claude::ClaudeDriver::new((**config).clone())),
        AgentConfig::Codex(config) => Box::new(codex::CodexDriver::new((**config).clone())),
        AgentConfig::Command(config) => Box::new(command::CommandDriver::new(config.clone())),
        AgentConfig::Simulated(config) => Box::new(simulated::SimulatedDriver::new(config.clone())),
    }
}

/// Returns the value of a variable; the last one counts.
fn variable<'e>(env: &'e [(OsString, OsString)], name: &str) -> Option<&'e OsStr> {
    env.iter().rfind(|(have, _)| have == name).map(|(_, value)| value.as_os_str())
}

/// Writes a file for the agent and returns its path.
fn scratch_file(request: &AgentRequest<'_>, name: &str, text: &str) -> Result<PathBuf, Failure> {
    let path = request.scratch.join(name);
    let written = fs::File::create(&path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| {
        let message = format!("cannot write `{}` for the agent: {error}", path.display());
        Failure::new(ReasonCode::StoreUnavailable, message)
    })?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use prodigy_core::template::{Script, ShellDialect, VarRoots};

    use super::*;

    static STEP: LazyLock<Step> = LazyLock::new(|| {
        Step::shell(
            Script::parse("true", &VarRoots::default(), ShellDialect::Posix, false).unwrap(),
        )
    });

    /// Returns what a process left behind that ended somehow in a directory.
    pub(super) fn traces<'a>(ended: &'a ProcessOutcome, cwd: &'a Path) -> AgentExit<'a> {
        let now = Timestamp::UNIX_EPOCH;
        AgentExit { ended, heard: None, cwd, worktree: cwd, wants_structured: false, now }
    }

    /// Returns what an agent would start for a prompt that is changed in some way.
    pub(super) fn launch<'a>(
        agent: &dyn Agent,
        prompt: &'a str,
        options: &'a AgentOptions,
        change: impl FnOnce(&mut AgentRequest<'a>),
    ) -> Result<AgentLaunch, Failure> {
        let mut request = AgentRequest {
            prompt,
            program: Path::new("bin/prodigy"),
            step: "1",
            attempt: 1,
            item: "item-1",
            definition: &STEP,
            state: Path::new("state"),
            options,
            system_prompt: None,
            session: SessionRef { id: "11111111-2222-4333-8444-555555555555", resume: false },
            budget_usd: None,
            cwd: Path::new("/nowhere"),
            worktree: Path::new("/elsewhere"),
            scratch: Path::new("/nowhere"),
            env: &[],
            is_confined: false,
            is_untrusted: false,
        };
        change(&mut request);
        agent.launch(&request)
    }
}
