//! What a job's events add up to.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    Timestamp,
    event::{
        CompletedStatus, Event, JobStarted, PauseReason, PhaseName, Record, Snapshot,
        StepCompleted, StepResult, StepStatus, is_top_level,
    },
    failure::Failure,
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
    /// What was known at the beginning.
    pub started: Option<JobStarted>,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// The worktree, once it was made.
    pub tree: Option<JobTreeState>,
    /// The phase that is under way.
    pub phase: Option<PhaseName>,
    /// The phases that ended well.
    pub phases_done: Vec<PhaseName>,
    /// How many top-level steps are done, over all rounds.
    pub done: u32,
    /// The top-level step that was started and has not ended, and its last attempt.
    pub running: Option<(String, u32)>,
    /// The variables that steps made.
    pub vars: Vars,
    /// The worktree after the last step that changed it.
    pub snapshot: Option<Snapshot>,
    /// How many steps failed without ending the job.
    pub failed_steps: u32,
    /// How many steps of loops and of the merge failed without ending the job.
    #[serde(default)]
    pub failed_inside: u32,
    /// Those of the top-level step or phase that is under way; they count once it is over.
    #[serde(default)]
    pub failing_inside: u32,
    /// What agents said they cost.
    pub cost_usd: f64,
    /// How it ended, if it did.
    pub end: Option<End>,
    /// The commit that the merge made, once merged.
    pub merged: Option<String>,
    /// Whether it is settled what becomes of the worktree.
    pub tidy: bool,
}

/// Where the job works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobTreeState {
    /// The worktree's directory.
    pub path: String,
    /// Its branch.
    pub branch: String,
    /// The commit it started from.
    pub base: String,
}

/// How a job ended. All but `Completed` can be resumed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Done.
    Completed(CompletedStatus),
    /// A step failed its phase.
    Failed {
        /// The step's path.
        step: String,
        /// Why it failed.
        failure: Failure,
    },
    /// It stopped before its end.
    Paused {
        /// Why.
        reason: PauseReason,
        /// Why, for people.
        message: String,
    },
}

/// The journal says that something happened which cannot have happened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unexpected {
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
    /// Takes in the next record of the journal.
    ///
    /// On an error the job is unchanged, and the journal must not be trusted further.
    pub fn apply(&mut self, record: &Record) -> Result<(), Unexpected> {
        let expected = self.seq + 1;
        if record.seq != expected {
            return Err(Unexpected::Seq { expected, found: record.seq });
        }
        let order = |event| Unexpected::Order { seq: record.seq, event };
        match &record.event {
            Event::JobStarted(started) => {
                if self.started.is_some() {
                    return Err(order("job_started"));
                }
                self.started = Some((**started).clone());
                self.started_at = Some(record.timestamp);
            }
            Event::JobResumed { workflow, .. } => {
                self.end = None;
                self.failing_inside = 0;
                if let (Some(workflow), Some(started)) = (workflow, &mut self.started) {
                    started.workflow_hash.clone_from(&workflow.hash);
                    started.steps = workflow.steps;
                }
            }
            Event::JobPaused { reason, message } => {
                self.end = Some(End::Paused { reason: *reason, message: message.clone() });
            }
            Event::JobCompleted { status, .. } => self.end = Some(End::Completed(*status)),
            Event::JobFailed { step, failure } => {
                self.end = Some(End::Failed { step: step.clone(), failure: failure.clone() });
            }
            Event::PhaseStarted { phase } => self.phase = Some(*phase),
            Event::PhaseCompleted { phase, .. } => {
                if self.phase != Some(*phase) {
                    return Err(order("phase_completed"));
                }
                self.phase = None;
                self.phases_done.push(*phase);
                self.failed_inside += std::mem::take(&mut self.failing_inside);
            }
            Event::StepStarted { step, attempt, .. } => {
                if is_top_level(step) {
                    self.running = Some((step.clone(), *attempt));
                    // What an earlier try left undone is tried again.
                    self.failing_inside = 0;
                }
            }
            Event::StepCompleted(step) => {
                if is_top_level(&step.step) {
                    if self.running.as_ref().is_none_or(|(running, _)| *running != step.step) {
                        return Err(order("step_completed"));
                    }
                    self.finish_step(step);
                } else if step.status == StepStatus::Failed && is_work(&step.step) {
                    self.failing_inside += 1;
                }
            }
            Event::StepSkipped { step, id, .. } => {
                if is_top_level(step) {
                    if let Some(id) = id {
                        set_step_result(&mut self.vars, id, &StepResult::skipped());
                    }
                    self.running = None;
                    self.done += 1;
                }
            }
            Event::WorktreeCreated { path, branch, commit } => {
                self.tree = Some(JobTreeState {
                    path: path.clone(),
                    branch: branch.clone(),
                    base: commit.clone(),
                });
            }
            Event::WorktreeMerged { commit, .. } => self.merged = Some(commit.clone()),
            Event::AgentUsage { cost_usd, .. } => self.cost_usd += cost_usd,
            Event::WorktreePreserved { .. } | Event::WorktreeCleaned { .. } => self.tidy = true,
            Event::StepFailed { .. }
            | Event::MergeConflict { .. }
            | Event::GitTampering { .. }
            | Event::CheckpointCreated { .. } => {}
        }
        self.seq = expected;
        Ok(())
    }

    /// Takes in what a top-level step left behind.
    fn finish_step(&mut self, step: &StepCompleted) {
        self.running = None;
        self.done += 1;
        self.failed_inside += std::mem::take(&mut self.failing_inside);
        if step.status == StepStatus::Failed {
            self.failed_steps += 1;
        }
        if let Some(snapshot) = &step.snapshot {
            self.snapshot = Some(snapshot.clone());
        }
        for (name, value) in &step.captures {
            self.vars.set(name.clone(), value.clone());
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

    /// Returns how many steps failed without ending the job, those inside others included.
    pub fn failures(&self) -> u32 {
        self.failed_steps + self.failed_inside
    }

    /// Returns how many top-level steps there are, over all rounds.
    pub fn steps_in_all(&self) -> u32 {
        self.started.as_ref().map_or(0, |started| started.steps.saturating_mul(started.rounds))
    }

    /// Returns the round and the step of a round, both from 0, of the next top-level step.
    pub fn position(&self) -> Option<(u32, u32)> {
        let steps = self.started.as_ref()?.steps;
        (self.done < self.steps_in_all()).then(|| (self.done / steps, self.done % steps))
    }

    /// Returns the worktree as the next step has to find it.
    pub fn last_snapshot(&self) -> Option<Snapshot> {
        self.snapshot.clone().or_else(|| {
            // A new worktree holds exactly its first commit, which git takes for a tree too.
            let base = self.tree.as_ref()?.base.clone();
            Some(Snapshot { head: base.clone(), index: base.clone(), files: base })
        })
    }
}

/// Returns whether an inner step does work of its own, rather than judge or mend another's.
fn is_work(path: &str) -> bool {
    let mending = ["on_failure", "on_exit_code", "validate", "on_incomplete"];
    !path.split('.').any(|part| mending.contains(&part))
}

/// Returns the path of a top-level step, from its round and number, both from 0.
pub(super) fn top_level_path(round: u32, step: u32, rounds: u32) -> String {
    if rounds > 1 { format!("{}:{}", round + 1, step + 1) } else { (step + 1).to_string() }
}

/// Sets `${shell.output}` or `${claude.output}`, `${last.output}` and `${steps.ID.…}`.
pub fn set_output(vars: &mut Vars, id: Option<&str>, agent: bool, result: &StepResult) {
    let root = if agent { "claude" } else { "shell" };
    vars.set_field(root, "output", result.output.clone());
    vars.set_field("last", "output", result.output.clone());
    vars.set_field("last", "exit_code", result.exit_code);
    if let Some(id) = id {
        set_step_result(vars, id, result);
    }
}

/// Sets `${steps.ID.…}`.
pub fn set_step_result(vars: &mut Vars, id: &str, result: &StepResult) {
    let status = serde_json::to_value(result.status).unwrap_or(Value::Null);
    let value = json!({
        "output": result.output, "exit_code": result.exit_code, "status": status,
    });
    vars.set_field("steps", id, value);
}
