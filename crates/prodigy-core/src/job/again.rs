//! What becomes of a job that is taken up again.

use super::{End, Job};
use crate::{
    Timestamp,
    event::{ChangedWorkflow, PauseReason, PhaseName, Reopened},
};

impl Job {
    /// Takes in that the job stopped before its end.
    pub(super) fn pause(&mut self, reason: PauseReason, message: &str) {
        if let Some(map) = &mut self.map {
            map.release(false);
        }
        if let Some(quota) = &mut self.quota {
            quota.probe = None;
        }
        self.end = Some(End::Paused { reason, message: message.to_owned() });
    }

    /// Returns whether everything is done and the result waits to be merged.
    pub fn waits_for_merge(&self) -> bool {
        matches!(self.end, Some(End::Paused { reason: PauseReason::MergeOutstanding, .. }))
    }

    /// Takes in that the result is in the target branch, and in its checkout if it has one.
    pub(super) fn finish_merge(&mut self, commit: &str, target: &str) {
        if let Some(started) = &mut self.started {
            // Somebody may have merged it by hand into another branch.
            started.target_branch = Some(target.to_owned());
        }
        self.merged = Some(commit.to_owned());
        self.checkout_update = None;
    }

    /// Takes in that the job was taken up again.
    pub(super) fn resume(&mut self, workflow: Option<&ChangedWorkflow>, now: Timestamp) {
        self.end = None;
        self.failing_inside = 0;
        if let (Some(workflow), Some(started)) = (workflow, &mut self.started) {
            started.workflow_hash.clone_from(&workflow.hash);
            started.steps = workflow.steps;
            started.setup_steps = workflow.setup_steps;
            started.reduce_steps = workflow.reduce_steps;
        }
        // Whoever resumes it may have set more money aside.
        self.overspent = None;
        if let Some(quota) = &mut self.quota {
            quota.resume(now);
        }
        if let Some(map) = &mut self.map {
            map.release(true);
            map.forgive();
        }
    }

    /// Takes in that dead letters are tried again: the items come first once more.
    pub(super) fn reopen(&mut self, reopened: &Reopened) {
        let is_over = self.phases_done.contains(&PhaseName::Map);
        let again = |phase: &PhaseName| match phase {
            PhaseName::Map | PhaseName::Merge => is_over,
            PhaseName::Reduce => reopened.rerun_reduce,
            PhaseName::Setup | PhaseName::Steps => false,
        };
        self.phases_done.retain(|phase| !again(phase));
        for (phase, steps) in [(PhaseName::Reduce, "reduce"), (PhaseName::Merge, "merge")] {
            if again(&phase) {
                self.ledger.begin_again(steps);
            }
        }
        if is_over {
            (self.phase, self.running, self.merged) = (None, None, None);
        }
        self.tidy = false;
        if let Some(commit) = &reopened.base_commit {
            (self.tree, self.snapshot) = (None, None);
            if let Some(started) = &mut self.started {
                started.base_commit.clone_from(commit);
            }
        }
    }
}
