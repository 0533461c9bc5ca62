//! The payloads of events.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{EnvironmentFingerprint, RunOptions};
use crate::{failure::Failure, items::InputFormat, policy::Budget};

/// The facts that are recorded when a job begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobStarted {
    /// The version of prodigy that wrote this.
    pub version: String,
    /// The workflow's file, as given.
    pub workflow_file: String,
    /// The SHA-256 of the workflow's text as run.
    pub workflow_hash: String,
    /// The workflow's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_name: Option<String>,
    /// The main working tree of the repository.
    pub repository: String,
    /// The branch that the result goes to: the one the user started from, or the one named
    /// with `--into`; left out if HEAD was detached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_branch: Option<String>,
    /// Set if the branch was named with `--into`: it is created if it does not exist.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub into: bool,
    /// The linked working tree the user started from; left out for the main one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<String>,
    /// The commit the user started from.
    pub base_commit: String,
    /// The kind of job: steps that run once each, or for many items.
    #[serde(default, skip_serializing_if = "JobMode::is_sequential")]
    pub mode: JobMode,
    /// The number of steps of one round, or of one item.
    pub steps: u32,
    /// The number of steps of the setup phase.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub setup_steps: u32,
    /// The number of steps of the reduce phase.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reduce_steps: u32,
    /// The values of `--args` and `--map`, one round for each; empty for plain rounds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<String>,
    /// The number of rounds.
    pub rounds: u32,
    /// The parameters, secrets not among them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, Value>,
    /// The profile chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// True if the result is merged without asking.
    pub yes: bool,
    /// The name of the person who started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The environment of its steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<EnvironmentFingerprint>,
    /// The budget; left out if there is no limit.
    #[serde(default, skip_serializing_if = "Budget::is_unlimited")]
    pub budget: Budget,
    /// The flags that hold until others are given.
    #[serde(default, skip_serializing_if = "RunOptions::is_empty")]
    pub options: RunOptions,
    /// The items' input that was given with `--input`; left out if the workflow names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<InputOverride>,
}

impl JobStarted {
    /// Returns whether the result is merged without asking.
    pub fn auto_merges(&self) -> bool {
        self.options.yes.unwrap_or(self.yes)
    }

    /// Applies the budget and the options of a resume.
    pub(crate) fn apply_options(&mut self, budget: Option<Budget>, options: Option<&RunOptions>) {
        self.budget = budget.unwrap_or(self.budget);
        self.options = options.copied().unwrap_or(self.options);
    }
}

/// The input of a job's items that was given with `--input`. Its bytes are kept with the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InputOverride {
    /// The file as it was given, or `-` for standard input.
    pub name: String,
    /// The form it is written in.
    pub kind: InputFormat,
    /// The SHA-256 of its bytes.
    pub sha256: String,
}

impl JobStarted {
    /// Changes the target branch, if one was named.
    pub(crate) fn retarget(&mut self, into: Option<&str>) {
        if let Some(branch) = into {
            self.target_branch = Some(branch.to_owned());
            self.into = true;
        }
    }
}

/// The two kinds of job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobMode {
    /// Steps, one after the other.
    #[default]
    Sequential,
    /// setup, then the same steps for many items, then reduce.
    Mapreduce,
}

impl JobMode {
    /// Returns whether it is the kind that need not be written.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_sequential(&self) -> bool {
        *self == Self::Sequential
    }
}

/// A workflow that took the place of the one a job began with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowChange {
    /// The SHA-256 of its text.
    pub hash: String,
    /// Its kind, which has to be the same as before.
    #[serde(default, skip_serializing_if = "JobMode::is_sequential")]
    pub mode: JobMode,
    /// The number of steps of one round, or of one item.
    pub steps: u32,
    /// The number of steps of the setup phase.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub setup_steps: u32,
    /// The number of steps of the reduce phase.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reduce_steps: u32,
    /// The top-level steps that are done, from 0, of the phase that is under way; older records
    /// have none: the first ones are done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<Vec<u32>>,
    /// The steps of effects that have another identity now.
    #[serde(default, skip_serializing_if = "RenamedSteps::is_empty")]
    pub renamed: RenamedSteps,
    /// Set if its steps are written as before: suspended work goes on. Otherwise it starts over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub same_steps: bool,
}

/// The steps of effects that have another identity in the workflow that a job goes on with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RenamedSteps {
    /// The identity of steps that were recorded by their path alone, by that path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub paths: BTreeMap<String, String>,
    /// The identity of others, by the one they were recorded with.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub identities: BTreeMap<String, String>,
}

impl RenamedSteps {
    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.identities.is_empty()
    }
}

/// The consequences of a replay of dead letters for their job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobReopening {
    /// True if the reduce phase runs once more, if it had been run.
    #[serde(default)]
    pub rerun_reduce: bool,
    /// The commit that a new worktree starts from; left out if the job still has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_commit: Option<String>,
}

/// The kind of removal of an entry from the dead letter queue without a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EntryRemoval {
    /// Somebody decided that the item is left out; its entry stays to be read.
    Dropped,
    /// Its entry was deleted.
    Cleared,
    /// The item's side effects are made: it is marked as done without running again.
    Adopted,
}

/// The result of a successful attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentCompleted {
    /// Which attempt this was, from 1.
    pub attempt: u32,
    /// The duration of the attempt.
    pub duration_ms: u64,
    /// The commit it started from.
    pub base: String,
    /// The commit it ended at; the same if it made none.
    pub head: String,
    /// The number of commits that it made.
    pub commits: u64,
    /// The number of steps that failed and were recovered, by a new try or by a handler; in older
    /// journals, also of those whose failure was ignored.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub recovered: u32,
    /// The number of steps whose failure was ignored, as the workflow says.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ignored: u32,
    /// The number of files that it left uncommitted; they are not merged. `work_kept` says where
    /// they are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub uncommitted: u32,
    /// `success`: so that this record can be told from others by its fields alone.
    #[serde(default)]
    pub status: AttemptStatus,
    /// The cost of the attempt.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub cost_usd: f64,
    /// The item's result, as `${map.results}` shows it.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub result: Value,
}

impl AgentCompleted {
    /// Returns what became of its failed steps, for people, if there were any.
    pub fn failed_steps(&self) -> Option<String> {
        let steps = |number: u32| if number == 1 { "step" } else { "steps" };
        let counted = [(self.recovered, "recovered"), (self.ignored, "failed and ignored")];
        let parts = counted.iter().filter(|(number, _)| *number > 0);
        let parts: Vec<String> =
            parts.map(|(number, how)| format!("{number} {} {how}", steps(*number))).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// Returns whether there is something to merge.
    pub fn has_commits(&self) -> bool {
        self.head != self.base
    }
}

/// The end of an attempt that did not fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttemptStatus {
    /// It did its work.
    #[default]
    Success,
}

/// The result of a failed attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentFailed {
    /// Which attempt this was, from 1.
    pub attempt: u32,
    /// The name of the item's work over all attempts; older journals leave it out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub correlation_id: String,
    /// The step that failed, if it was a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The display name of that step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The failure.
    pub failure: Failure,
    /// The duration of the attempt.
    pub duration_ms: u64,
    /// The cost of the attempt.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub cost_usd: f64,
    /// The next act for the item.
    pub then: FailureDecision,
}

/// The next act for an item after a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureDecision {
    /// It is tried again.
    Retry,
    /// It goes into the dead letter queue.
    DeadLetter,
    /// It is left out.
    Skip,
    /// The handler that the policy names runs.
    Handler,
}

/// Returns whether a number need not be written.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Returns whether a flag need not be written.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) fn is_false(flag: &bool) -> bool {
    !*flag
}

/// Returns whether a sum need not be written.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_nothing(sum: &f64) -> bool {
    *sum == 0.0
}

/// The next act after a failed try of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepFailureDecision {
    /// The step is tried again.
    Retry,
    /// A handler succeeded in its place, or the next step runs.
    GoOn,
    /// The phase ends.
    Stop,
}

/// The phases of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PhaseName {
    /// The steps of a sequential workflow.
    Steps,
    /// The steps that run once before the items.
    Setup,
    /// The items.
    Map,
    /// The steps that run once after the items.
    Reduce,
    /// The merge into the branch the user started from.
    Merge,
}
