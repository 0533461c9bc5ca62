//! Ends of steps, as records tell them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::job::{is_false, is_zero};

/// The end of a step, and all that later steps and a resume need of it.
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
    /// The duration, retries and handlers included.
    pub duration_ms: u64,
    /// The start of its output, for `${steps.ID.output}` and `${last.output}`.
    pub output: String,
    /// True if it was an agent, so that `${claude.output}` is set and not `${shell.output}`.
    #[serde(default)]
    pub agent: bool,
    /// The variables it made, those of the steps inside it included.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub captures: BTreeMap<String, Value>,
    /// The results of the steps inside it, by id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inner: BTreeMap<String, StepResult>,
    /// The worktree after it, so that a cut-off step can be taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<WorktreeSnapshot>,
    /// Where its output stands in the log files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogRange>,
    /// Set if its side effect was known to be made before, so that it was not run.
    #[serde(default, skip_serializing_if = "is_false")]
    pub adopted: bool,
}

impl StepCompleted {
    /// Returns whether this is a step of the workflow itself, and not one inside another.
    pub fn is_top_level(&self) -> bool {
        is_top_level(&self.step)
    }
}

/// Returns whether a step's path names a step of the workflow itself: `3`, `2:3` in
/// round 2, `setup.1` or `reduce.1`. The steps of an item are told apart by its record.
pub fn is_top_level(step: &str) -> bool {
    let number = ["setup.", "reduce."].iter().find_map(|phase| step.strip_prefix(phase));
    number.unwrap_or(step).chars().all(|c| c.is_ascii_digit() || c == ':')
}

/// The values of `${steps.ID.…}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepResult {
    /// The start of its output.
    pub output: String,
    /// The code of its process.
    pub exit_code: i32,
    /// The status of the step.
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
pub struct WorktreeSnapshot {
    /// The commit that HEAD names.
    pub head: String,
    /// The index, as a tree.
    pub index: String,
    /// All files that are not ignored, as a tree.
    pub files: String,
}

/// A part of a pair of log files: one for standard output, one for standard error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogRange {
    /// Which pair of files: steps that run side by side write to pairs of their own.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub slot: u32,
    /// Set if standard output is an agent's transcript, in the `.jsonl` file and not in `.out`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub transcript: bool,
    /// Where the part starts in the file of standard output.
    pub stdout_at: u64,
    /// The length of the part in that file.
    pub stdout_len: u64,
    /// Where the part starts in the `.err` file.
    pub stderr_at: u64,
    /// The length of the part in that file.
    pub stderr_len: u64,
}

/// The status of a finished step, as `${steps.ID.status}` shows it.
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
