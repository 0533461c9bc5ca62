//! Launches of a step: the sandbox of the workflow, and the supervisors that run them.
//!
//! Agents are always in it, and so is every process that works for an item: a script that
//! runs what an agent wrote can do what the agent could not. The other scripts of the
//! workflow are its author's own.

use std::{
    ffi::OsString,
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use prodigy_core::{failure::Failure, ids::safe_name};

use super::{StepContext, output::infrastructure_failure};
use crate::{
    agent::Agent,
    process::{CapturedOutput, Launch, ProcessOutcome, ProcessStatus, SupervisorClient},
    sandbox::{self, AgentHome, SandboxAccess},
    store::{self, AgentRun},
};

/// The offset of a signal's number in the exit code that the sandbox reports.
const BY_SIGNAL: i32 = 128;

/// The signals by which a program that does something wrong is ended: ILL, ABRT, BUS, FPE,
/// KILL, SEGV.
const CRASHES: &[i32] = &[4, 6, 7, 8, 9, 11];

/// An agent that is put into the sandbox.
#[derive(Clone, Copy)]
pub(crate) struct ConfinedAgent<'a> {
    /// The agent.
    pub(crate) agent: &'a dyn Agent,
    /// The path of the step that it works for.
    pub(crate) step: &'a str,
    /// Set if it may not write anything.
    pub(crate) is_read_only: bool,
    /// Its run, to be noted before it begins.
    pub(crate) run: &'a AgentRun,
}

impl StepContext {
    /// Puts a launch into the sandbox, if it belongs there; returns how it ended if it cannot
    /// even begin.
    pub(crate) fn sandbox_launch(
        &self,
        launch: Launch,
        agent: Option<ConfinedAgent<'_>>,
    ) -> Result<Result<Launch, ProcessOutcome>, Failure> {
        let Some(sandbox) = &self.tools.sandbox else { return Ok(Ok(launch)) };
        if agent.is_none() && self.identity.item.is_none() {
            return Ok(Ok(launch));
        }
        let commit = self.tree.commit_paths().map_err(|error| infrastructure_failure(&error))?;
        let repo = self.tree.repo();
        let empty = self.tools.state.join("empty");
        if !empty.exists() {
            fs::File::create(&empty).map_err(|error| infrastructure_failure(&error))?;
        }
        let agents = self.tools.agents.values();
        let agents: Vec<_> = agents.filter_map(|agent| agent.config_dir(&launch.env)).collect();
        let own = agent.map(|it| self.agent_home(it, &launch.env)).transpose()?.flatten();
        let needs = SandboxAccess {
            checkout: repo.root(),
            common: repo.common_dir(),
            worktree: self.tree.path(),
            commit: &commit,
            temporary: &self.temp_dir(),
            empty: &empty,
            home: self.tools.layout.home(),
            prodigy: &self.tools.program,
            agents: &agents,
            own,
            is_read_only: agent.is_some_and(|agent| agent.is_read_only),
        };
        Ok(sandbox.wrap(launch, &needs).map_err(not_started))
    }

    /// Returns what an agent in the sandbox has of its own.
    fn agent_home(
        &self,
        confined: ConfinedAgent<'_>,
        env: &[(OsString, OsString)],
    ) -> Result<Option<AgentHome>, Failure> {
        let ConfinedAgent { agent, step, .. } = confined;
        let (directory, kept) = (agent.config_dir(env), self.session_dir(agent, step));
        let (Some(directory), Some(kept)) = (directory, kept) else { return Ok(None) };
        let kind = agent.kind();
        let Some(sessions) = sandbox::sessions_dir(kind).map(|name| kept.join(name)) else {
            return Ok(None);
        };
        store::create_dir(&sessions).map_err(|error| infrastructure_failure(&error))?;
        Ok(Some(AgentHome { kind, directory, sessions }))
    }

    /// Returns where the sessions of an agent are kept for it, if it is in the sandbox: what an
    /// agent leaves in its own directory is read by those outside.
    pub(crate) fn session_dir(&self, agent: &dyn Agent, step: &str) -> Option<PathBuf> {
        self.tools.sandbox.as_ref()?;
        // What one step leaves is read by nobody else.
        let [item, step] = [self.identity.item_name(), step].map(safe_name);
        Some(self.tools.state.join("agents").join(item).join(step).join(agent.kind().as_str()))
    }

    /// Returns how an agent ended: what the sandbox reports as a code of its own is the signal
    /// that ended the agent.
    pub(crate) fn restore_signal_status(&self, mut ended: ProcessOutcome) -> ProcessOutcome {
        if let (Some(_), ProcessStatus::Exited(code)) = (&self.tools.sandbox, &ended.status)
            && CRASHES.contains(&(code - BY_SIGNAL))
        {
            ended.status = ProcessStatus::Signaled(code - BY_SIGNAL);
        }
        ended
    }
}

/// Returns how a program ended that is not there.
fn not_started(status: ProcessStatus) -> ProcessOutcome {
    ProcessOutcome {
        status,
        ended_by: None,
        stdout: CapturedOutput::default(),
        stderr: CapturedOutput::default(),
        duration: Duration::ZERO,
        leftovers: 0,
        survivors: 0,
        oom_killed: false,
    }
}

/// Supervisors that wait for the next step, each with the number of its log files.
#[derive(Clone, Default)]
pub struct SupervisorPool {
    idle: Arc<Mutex<IdleSupervisors>>,
}

#[derive(Default)]
struct IdleSupervisors {
    waiting: Vec<(u32, SupervisorClient)>,
    started: u32,
}

impl SupervisorPool {
    /// Takes a waiting supervisor, or the number for a new one.
    pub(crate) fn acquire(&self) -> Result<(u32, SupervisorClient), u32> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.waiting.pop().ok_or_else(|| {
            let slot = idle.started;
            idle.started += 1;
            slot
        })
    }

    /// Gives a supervisor back.
    pub(crate) fn release(&self, slot: u32, supervisor: SupervisorClient) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.waiting.push((slot, supervisor));
        // The lowest slot is used first, so that most output is in one pair of files.
        idle.waiting.sort_by_key(|(slot, _)| std::cmp::Reverse(*slot));
    }

    /// Ends all supervisors that wait.
    pub async fn close(&self) {
        let waiting = {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut idle.waiting)
        };
        for (_, supervisor) in waiting {
            supervisor.close().await;
        }
    }
}
