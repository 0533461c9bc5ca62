//! The state of a job, folded from its events.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{
    map_state::MapState,
    position::is_work,
    quota::{BudgetOverrun, QuotaShare, QuotaState},
    step_variables::{set_output, set_step_result},
    suspension::SuspendedWork,
};
use crate::{
    Timestamp,
    agent::TokenUsage,
    effect::EffectLedger,
    event::{
        CheckoutUpdate, CompletedStatus, Event, EventRecord, JobMode, JobStarted, PauseReason,
        PhaseName, StepCompleted, StepResult, StepStatus, WorktreeSnapshot, is_top_level,
    },
    failure::Failure,
    ids::ItemId,
    vars::Vars,
};

/// A job, as far as its events tell.
///
/// The only way to change a job is [`Job::apply`]; running and resuming share it,
/// so a resumed job is the same value as one that never stopped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The number of the last record.
    pub seq: u64,
    /// The facts that were recorded at the beginning.
    pub started: Option<JobStarted>,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// The worktree, once it was made.
    pub tree: Option<JobWorktreeState>,
    /// The phase that is under way.
    pub phase: Option<PhaseName>,
    /// The phases that ended well.
    pub phases_done: Vec<PhaseName>,
    /// The number of top-level steps done, over all rounds; with many items, of the phase.
    pub done: u32,
    /// The identities of those steps, as far as they were recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub done_steps: Vec<String>,
    /// The numbers of those steps, from 0, if they are not the first ones: the workflow was
    /// changed.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub done_apart: BTreeSet<u32>,
    /// The items, once they were chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map: Option<MapState>,
    /// When the items were begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map_began_at: Option<Timestamp>,
    /// When the last of them was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map_ended_at: Option<Timestamp>,
    /// The top-level step that was started and has not ended, and its last attempt.
    pub running: Option<(String, u32)>,
    /// The identity of that step, if it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_identity: Option<String>,
    /// The work of that step, or of the merge, that was cut off and goes on from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<SuspendedWork>,
    /// The variables that steps made.
    pub vars: Vars,
    /// The worktree after the last step that changed it.
    pub snapshot: Option<WorktreeSnapshot>,
    /// The number of steps that failed without ending the job.
    pub failed_steps: u32,
    /// The number of steps of loops and of the merge that failed without ending the job.
    #[serde(default)]
    pub failed_inside: u32,
    /// Those of the top-level step or phase that is under way; they count once it is over.
    #[serde(default)]
    pub failing_inside: u32,
    /// The cost that agents reported.
    pub cost_usd: f64,
    /// The tokens that they used.
    #[serde(default, skip_serializing_if = "TokenUsage::is_empty")]
    pub tokens: TokenUsage,
    /// The limit that keeps it from going on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<QuotaState>,
    /// The used share of a limit, if an agent reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilization: Option<QuotaShare>,
    /// The budget that is spent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overspent: Option<BudgetOverrun>,
    /// The side effects of its own steps, as far as they were declared.
    #[serde(default, skip_serializing_if = "EffectLedger::is_empty")]
    pub ledger: EffectLedger,
    /// Set if the end of its journal was lost once: effects that are not known to be made may
    /// have been made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub end_lost: bool,
    /// The effects of items that are not chosen yet: a repair carried them over.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub carried: BTreeMap<ItemId, EffectLedger>,
    /// The ending of the job, if it has ended.
    pub end: Option<JobOutcome>,
    /// The update of the user's checkout that was begun and has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkout_update: Option<CheckoutUpdate>,
    /// The commit that the merge made, once merged.
    pub merged: Option<String>,
    /// True if the worktree was removed, or kept on purpose.
    pub tidy: bool,
}

/// Where the job works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobWorktreeState {
    /// The worktree's directory.
    pub path: String,
    /// Its branch.
    pub branch: String,
    /// The commit it started from.
    pub base: String,
}

/// The ending of a job. All but `Completed` can be resumed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobOutcome {
    /// Done.
    Completed(CompletedStatus),
    /// A step failed its phase.
    Failed {
        /// The step's path.
        step: String,
        /// The failure of the step.
        failure: Failure,
    },
    /// It stopped before its end.
    Paused {
        /// The reason code of the pause.
        reason: PauseReason,
        /// The reason of the pause, for people.
        message: String,
    },
}

/// The journal says that something happened which cannot have happened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// A record is missing or out of place.
    #[error("expected record {expected} but found {found}")]
    Seq {
        /// The number that should have come next.
        expected: u64,
        /// The number that did.
        found: u64,
    },
    /// An event does not fit what was known before.
    #[error("record {seq} ({event}) cannot follow what was recorded before it")]
    Order {
        /// The record.
        seq: u64,
        /// Its event.
        event: &'static str,
    },
}

impl Job {
    /// Applies the next record of the journal.
    ///
    /// On an error the job is unchanged, and the journal must not be trusted further.
    pub fn apply(&mut self, record: &EventRecord) -> Result<(), ApplyError> {
        let expected = self.seq + 1;
        if record.seq != expected {
            return Err(ApplyError::Seq { expected, found: record.seq });
        }
        let order = |event| ApplyError::Order { seq: record.seq, event };
        if record.item_id.is_some() || record.agent_id.is_some() {
            self.apply_to_item(record)?;
            self.seq = expected;
            return Ok(());
        }
        match &record.event {
            Event::JobStarted(started) => {
                if self.started.is_some() {
                    return Err(order("job_started"));
                }
                self.started = Some((**started).clone());
                self.started_at = Some(record.timestamp);
            }
            Event::JobResumed { .. } => self.apply_resumed(record),
            Event::JobPaused { reason, message } => self.pause(*reason, message),
            Event::JobCompleted { status, .. } => self.end = Some(JobOutcome::Completed(*status)),
            Event::JobFailed { step, failure } => {
                self.fail_suspended(failure);
                self.end =
                    Some(JobOutcome::Failed { step: step.clone(), failure: failure.clone() });
            }
            Event::PhaseStarted { phase, snapshot } => {
                self.start_phase(*phase, snapshot.as_ref(), record.timestamp);
            }
            Event::PhaseCompleted { phase, .. } => {
                if self.phase != Some(*phase) {
                    return Err(order("phase_completed"));
                }
                self.complete_phase(*phase, record.timestamp);
            }
            Event::ItemsSelected { total, sha256 } => {
                if self.map.is_some() {
                    return Err(order("items_selected"));
                }
                self.map = Some(MapState::new(*total, sha256));
            }
            Event::StepStarted { step, attempt, identity, .. } if is_top_level(step) => {
                self.running = Some((step.clone(), *attempt));
                self.running_identity.clone_from(identity);
                // What an earlier try left undone is tried again.
                if !self.start_suspended(step) {
                    self.failing_inside = 0;
                }
            }
            Event::StepCompleted(step) => {
                self.complete_step(step).ok_or(order("step_completed"))?;
            }
            Event::StepSkipped { step, id, .. } => self.skip_step(step, id.as_deref()),
            Event::WorktreeCreated { path, branch, commit } => {
                let (path, branch, base) = (path.clone(), branch.clone(), commit.clone());
                self.tree = Some(JobWorktreeState { path, branch, base });
            }
            Event::CheckoutUpdateStarted(update) => self.checkout_update = Some((**update).clone()),
            Event::WorktreeMerged { commit, target, .. } => self.finish_merge(commit, target),
            Event::AgentUsage { .. }
            | Event::QuotaPaused(_)
            | Event::QuotaWarned { .. }
            | Event::QuotaResumed {}
            | Event::BudgetExceeded { .. } => self.apply_spending(&record.event, record.timestamp),
            Event::WorktreePreserved { .. } | Event::WorktreeCleaned { .. } => self.tidy = true,
            crate::circuit_news!() | Event::ConcurrencyChanged { .. } => {
                self.apply_to_item(record)?;
            }
            Event::ItemQueued {}
            | Event::AgentStarted { .. }
            | Event::AgentCompleted(_)
            | Event::AgentFailed(_)
            | Event::AgentRetrying { .. }
            | Event::AgentReleased { .. }
            | Event::ItemSkipped { .. }
            | Event::ItemDeadLettered { .. }
            | crate::resolution_news!()
            | Event::ReplayStarted { .. }
            | Event::DlqItemRemoved { .. }
            | Event::DlqItemUpdated { .. }
            | crate::approval_news!() => return Err(order(record.event.event_type())),
            crate::effect_news!() | Event::JournalEndLost { .. } => {
                self.apply_effect(&record.event);
            }
            Event::StepStarted { step, .. } => {
                self.start_suspended(step);
            }
            Event::WorkSuspended(work) => self.suspend(work),
            Event::StepFailed { .. }
            | crate::agent_news!()
            | Event::MergeConflict { .. }
            | Event::GitTampering { .. }
            | crate::checkout_news!()
            | Event::WorkKept(_)
            | Event::CheckpointCreated { .. } => {}
        }
        self.seq = expected;
        Ok(())
    }

    /// Applies the start of a phase.
    fn start_phase(
        &mut self,
        phase: PhaseName,
        snapshot: Option<&WorktreeSnapshot>,
        at: Timestamp,
    ) {
        self.phase = Some(phase);
        if phase == PhaseName::Map {
            self.map_began_at = Some(at);
        }
        if let Some(snapshot) = snapshot {
            self.snapshot = Some(snapshot.clone());
        }
        if self.mode() == JobMode::Mapreduce {
            self.done = 0;
            self.done_steps.clear();
            self.done_apart.clear();
        }
    }

    /// Applies the successful end of a phase.
    fn complete_phase(&mut self, phase: PhaseName, at: Timestamp) {
        self.phase = None;
        if phase == PhaseName::Map {
            self.map_ended_at = Some(at);
        }
        self.suspended = None;
        self.phases_done.push(phase);
        self.failed_inside += std::mem::take(&mut self.failing_inside);
    }

    /// Applies the end of a step; returns `None` if it was not in flight.
    fn complete_step(&mut self, step: &StepCompleted) -> Option<()> {
        if is_top_level(&step.step) {
            self.running.as_ref().filter(|(running, _)| *running == step.step)?;
            self.finish_step(step);
        } else if step.status == StepStatus::Failed && is_work(&step.step) {
            self.failing_inside += 1;
        }
        Some(())
    }

    /// Applies the skip of a step.
    fn skip_step(&mut self, step: &str, id: Option<&str>) {
        if is_top_level(step) {
            if let Some(id) = id {
                set_step_result(&mut self.vars, id, &StepResult::skipped());
            }
            self.mark_step_done();
        }
    }

    /// Marks the top-level step that is in flight as done.
    fn mark_step_done(&mut self) {
        if !self.done_apart.is_empty() {
            let at = self.next_step_position().map(|(_, at)| at);
            self.done_apart.extend(at);
        }
        (self.running, self.suspended) = (None, None);
        self.done += 1;
        self.done_steps.extend(self.running_identity.take());
    }

    /// Applies a record about an item or an agent.
    fn apply_to_item(&mut self, record: &EventRecord) -> Result<(), ApplyError> {
        let event = record.event.event_type();
        let order = ApplyError::Order { seq: record.seq, event };
        if self.defer_effect(record) {
            return Ok(());
        }
        let Some(map) = &mut self.map else { return Err(order) };
        let of_all = event.starts_with("circuit_") || event == "concurrency_changed";
        if record.item_id.is_none() && !of_all {
            // The worktree of an agent came or went.
            return Ok(());
        }
        map.apply(record).map_err(|_| order)?;
        self.apply_deferred_effects(record);
        self.apply_spending(&record.event, record.timestamp);
        if let Some(quota) = &mut self.quota {
            quota.track_probe(record);
        }
        Ok(())
    }

    /// Applies the result of a top-level step.
    fn finish_step(&mut self, step: &StepCompleted) {
        self.mark_step_done();
        self.failed_inside += std::mem::take(&mut self.failing_inside);
        if step.status == StepStatus::Failed {
            self.failed_steps += 1;
        }
        if let Some(snapshot) = &step.snapshot {
            self.snapshot = Some(snapshot.clone());
        }
        let of_setup = step.step.starts_with("setup.");
        for (name, value) in &step.captures {
            self.vars.set(name.clone(), value.clone());
            if of_setup {
                self.vars.set_field("setup", name, value.clone());
            }
        }
        for (id, result) in &step.inner {
            set_step_result(&mut self.vars, id, result);
        }
        let result = StepResult {
            output: step.output.clone(),
            exit_code: step.exit_code,
            status: step.status,
        };
        set_output(&mut self.vars, step.id.as_deref(), step.agent, &result);
    }

    /// Returns the worktree as the next step has to find it.
    pub fn last_snapshot(&self) -> Option<WorktreeSnapshot> {
        self.snapshot.clone().or_else(|| {
            // A new worktree holds exactly its first commit, which git takes for a tree too.
            let base = self.tree.as_ref()?.base.clone();
            Some(WorktreeSnapshot { head: base.clone(), index: base.clone(), files: base })
        })
    }
}
