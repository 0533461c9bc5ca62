//! Putting steps into the sandbox of the workflow.
//!
//! Agents are always in it, and so is every process that works for an item: a script that
//! runs what an agent wrote can do what the agent could not. The other scripts of the
//! workflow are its author's own.

use std::{fs, time::Duration};

use prodigy_core::failure::Failure;

use super::{Workplace, fault::fault};
use crate::{
    process::{Ended, Launch, Printed, Status},
    sandbox::Needs,
};

/// What a program that was ended by a signal exits with, as the sandbox reports it.
const BY_SIGNAL: i32 = 128;

/// The signals by which a program that does something wrong is ended: ILL, ABRT, BUS, FPE,
/// KILL, SEGV.
const CRASHES: &[i32] = &[4, 6, 7, 8, 9, 11];

impl Workplace {
    /// Puts a launch into the sandbox, if it belongs there; returns how it ended if it cannot
    /// even begin.
    pub(super) fn confine(
        &self,
        launch: Launch,
        is_agent: bool,
    ) -> Result<Result<Launch, Ended>, Failure> {
        let Some(sandbox) = &self.tools.sandbox else { return Ok(Ok(launch)) };
        if !is_agent && self.identity.item.is_none() {
            return Ok(Ok(launch));
        }
        let commit = self.tree.commit_paths().map_err(|error| fault(&error))?;
        let repo = self.tree.repo();
        let empty = self.tools.state.join("empty");
        if !empty.exists() {
            fs::File::create(&empty).map_err(|error| fault(&error))?;
        }
        let needs = Needs {
            checkout: repo.root(),
            common: repo.common_dir(),
            worktree: self.tree.path(),
            commit: &commit,
            temporary: &self.temporary(),
            empty: &empty,
            home: self.tools.layout.home(),
            prodigy: &self.tools.program,
            is_agent,
        };
        Ok(sandbox.wrap(launch, &needs).map_err(not_started))
    }

    /// Returns how an agent ended: what the sandbox reports as a code of its own is the signal
    /// that ended the agent.
    pub(super) fn unconfined(&self, mut ended: Ended) -> Ended {
        if let (Some(_), Status::Exited(code)) = (&self.tools.sandbox, &ended.status)
            && CRASHES.contains(&(code - BY_SIGNAL))
        {
            ended.status = Status::Signaled(code - BY_SIGNAL);
        }
        ended
    }
}

/// Returns how a program ended that is not there.
fn not_started(status: Status) -> Ended {
    Ended {
        status,
        ended_by: None,
        stdout: Printed::default(),
        stderr: Printed::default(),
        duration: Duration::ZERO,
        leftovers: 0,
        survivors: 0,
        oom_killed: false,
    }
}
