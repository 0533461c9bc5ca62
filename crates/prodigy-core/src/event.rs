//! The journal's vocabulary.
//!
//! An event is a fact that already happened, named in the past tense. The journal
//! is the only record of a job: checkpoints, progress and summaries are computed
//! from it and can be deleted and rebuilt.
//!
//! Adding a variant or an optional field is a minor change of the format. Renaming
//! or removing one needs a new [`FORMAT`] and a reader for the old one.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Timestamp, failure::Failure, ids::JobId};

/// The format that this build writes.
pub const FORMAT: u16 = 1;

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// The format the line was written in.
    pub format: u16,
    /// The line's place in the job's journal, from 1 with no gaps.
    pub seq: u64,
    /// When the event was recorded.
    pub timestamp: Timestamp,
    /// The job the event belongs to.
    #[schemars(with = "String")]
    pub job_id: JobId,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// Something that happened to a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event_type", rename_all = "snake_case")]
pub enum Event {
    /// A job began. Always the first record.
    JobStarted(Box<JobStarted>),
    /// A dead or paused run of the job was taken up again.
    JobResumed {
        /// The version of prodigy that took it up.
        version: String,
        /// The workflow that is used from here on, if it was changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        workflow: Option<ChangedWorkflow>,
    },
    /// The job stopped before its end and can be resumed.
    JobPaused {
        /// Why.
        reason: PauseReason,
        /// Why, for people.
        message: String,
    },
    /// Every step was run, and the result is merged or there was nothing to merge.
    JobCompleted {
        /// `completed`, or `completed_with_failures` if a step failed and the run went on.
        status: CompletedStatus,
        /// How long the run that ended it took; runs before a resume are not counted.
        duration_ms: u64,
        /// The commits on the job's branch.
        commits: u64,
    },
    /// A step failed its phase. The job can be resumed at that step.
    JobFailed {
        /// The step.
        step: String,
        /// Why it failed.
        failure: Failure,
    },
    /// A phase began.
    PhaseStarted {
        /// Which one.
        phase: PhaseName,
    },
    /// A phase ended well.
    PhaseCompleted {
        /// Which one.
        phase: PhaseName,
    },
    /// A step began. Written before anything of it runs.
    StepStarted {
        /// The step's path, e.g. `3` or `3.on_failure.1`.
        step: String,
        /// What progress calls it.
        name: String,
        /// Which try this is, from 1.
        attempt: u32,
    },
    /// A step ended well, or its failure was recovered from.
    StepCompleted(Box<StepCompleted>),
    /// A try of a step failed.
    StepFailed {
        /// The step's path.
        step: String,
        /// Which try this was.
        attempt: u32,
        /// Why it failed.
        failure: Failure,
        /// What follows: another try, the next step, or the end of the phase.
        then: AfterFailure,
        /// How long it took.
        duration_ms: u64,
        /// Where its output stands in the log files.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        log: Option<LogRange>,
    },
    /// A step was not run because its condition was false.
    StepSkipped {
        /// The step's path.
        step: String,
        /// The step's id in the workflow.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// What progress calls it.
        name: String,
        /// The condition.
        when: String,
    },
    /// An agent reported what it used.
    AgentUsage {
        /// The step's path.
        step: String,
        /// The agent's name.
        agent: String,
        /// What it cost.
        cost_usd: f64,
    },
    /// The job's worktree was made.
    WorktreeCreated {
        /// Where.
        path: String,
        /// Its branch.
        branch: String,
        /// The commit it starts from.
        commit: String,
    },
    /// The job's branch was merged.
    WorktreeMerged {
        /// The job's branch.
        source: String,
        /// The branch the user started from.
        target: String,
        /// The target's new commit.
        commit: String,
        /// How many commits came with it.
        commits: u64,
    },
    /// The worktree was kept.
    WorktreePreserved {
        /// Where.
        path: String,
        /// Why.
        reason: String,
    },
    /// The worktree was removed.
    WorktreeCleaned {
        /// Where it was.
        path: String,
    },
    /// The final merge met a conflict; nothing was changed.
    MergeConflict {
        /// The branch the user started from.
        target: String,
        /// The paths in conflict.
        paths: Vec<String>,
    },
    /// A step changed git settings or hooks that would run code; they were put back.
    GitTampering {
        /// What was changed and put back.
        changes: Vec<String>,
    },
    /// A snapshot of the fold was written.
    CheckpointCreated {
        /// The last record it covers.
        covers: u64,
    },
}

/// What is known when a job begins.
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
    /// The branch the user started from; left out on a detached HEAD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_branch: Option<String>,
    /// The commit the user started from.
    pub base_commit: String,
    /// How many steps one round has.
    pub steps: u32,
    /// The values of `--args` and `--map`, one round for each; empty for plain rounds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<String>,
    /// How many rounds there are in all.
    pub rounds: u32,
    /// The parameters, secrets not among them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, Value>,
    /// The profile chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Whether the result is merged without asking.
    pub yes: bool,
}

/// A workflow that took the place of the one a job began with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedWorkflow {
    /// The SHA-256 of its text.
    pub hash: String,
    /// How many steps one round has.
    pub steps: u32,
}

/// What a step left behind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepCompleted {
    /// The step's path.
    pub step: String,
    /// The step's id in the workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The try that ended it, from 1.
    pub attempt: u32,
    /// `success`, `recovered` if a failure was mended, `failed` if it stayed failed and the run goes on.
    pub status: StepStatus,
    /// The code of its process.
    pub exit_code: i32,
    /// How long it took, retries and handlers included.
    pub duration_ms: u64,
    /// The start of its output, for `${steps.ID.output}` and `${last.output}`.
    pub output: String,
    /// Whether it was an agent, so that `${claude.output}` is set and not `${shell.output}`.
    #[serde(default)]
    pub agent: bool,
    /// The variables it made, those of the steps inside it included.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub captures: BTreeMap<String, Value>,
    /// How the steps inside it ended, by id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inner: BTreeMap<String, StepResult>,
    /// The worktree after it, so that a cut-off step can be taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Snapshot>,
    /// Where its output stands in the log files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogRange>,
}

impl StepCompleted {
    /// Returns whether this is a step of the workflow itself, and not one inside another.
    pub fn is_top_level(&self) -> bool {
        is_top_level(&self.step)
    }
}

/// Returns whether a step's path names a step of the workflow itself: `3`, or `2:3` in round 2.
pub fn is_top_level(step: &str) -> bool {
    step.chars().all(|c| c.is_ascii_digit() || c == ':')
}

/// What `${steps.ID.…}` shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepResult {
    /// The start of its output.
    pub output: String,
    /// The code of its process.
    pub exit_code: i32,
    /// How it ended.
    pub status: StepStatus,
}

impl StepResult {
    /// Returns the result of a step whose condition was false.
    pub fn skipped() -> Self {
        Self { output: String::new(), exit_code: 0, status: StepStatus::Skipped }
    }
}

/// A worktree, as git objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    /// The commit that HEAD names.
    pub head: String,
    /// The index, as a tree.
    pub index: String,
    /// All files that are not ignored, as a tree.
    pub files: String,
}

/// A part of a pair of log files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogRange {
    /// Which pair of files: steps that run side by side write to pairs of their own.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub slot: u32,
    /// Where the part starts in the `.out` file.
    pub stdout_at: u64,
    /// How long it is there.
    pub stdout_len: u64,
    /// Where the part starts in the `.err` file.
    pub stderr_at: u64,
    /// How long it is there.
    pub stderr_len: u64,
}

/// Returns whether a number need not be written.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// How a step ended, as `${steps.ID.status}` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// It did its work.
    Success,
    /// It failed and was mended.
    Recovered,
    /// It failed and the run goes on.
    Failed,
    /// Its condition was false.
    Skipped,
}

/// What follows a failed try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AfterFailure {
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
    /// The merge into the branch the user started from.
    Merge,
}

/// Why a job stopped before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PauseReason {
    /// Ctrl-C.
    Interrupted,
    /// SIGTERM or SIGHUP.
    Terminated,
    /// The result waits to be merged.
    MergeOutstanding,
    /// The disk is full or nearly so.
    DiskFull,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CompletedStatus {
    /// Every step succeeded.
    Completed,
    /// A step failed and the run went on.
    CompletedWithFailures,
}
