//! The payloads of events about usage limits and budgets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::WorktreeSnapshot;
use crate::{Timestamp, agent::QuotaLimit};

/// Nobody's agent can go on for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuotaPaused {
    /// The limit that was reached.
    pub limit: QuotaLimit,
    /// When one agent may try whether it is lifted; left out if waiting does not help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_until: Option<Timestamp>,
    /// True, the default, if the job waits for it; otherwise the job stops once nothing is under
    /// way.
    #[serde(default = "waits", skip_serializing_if = "Clone::clone")]
    pub waits: bool,
    /// The step whose agent ran into it, if it was one of the job itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
}

/// Returns the default, for older journals, which did not record if the job waits.
fn waits() -> bool {
    true
}

/// Work that was cut off in the middle, and what it keeps until it is resumed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkSuspended {
    /// The step of the job, or `merge` for the steps of the merge; left out for an item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The worktree as it was left; left out if the work starts over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<WorktreeSnapshot>,
    /// The number of its steps that had finished, steps inside of others included.
    pub finished_steps: u32,
    /// Set if an agent was at work before a usage limit cut it off: `quota.max_restarts` bounds how
    /// often that may happen without a further finished step.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counted: bool,
}

impl WorkSuspended {
    /// Returns whether it holds anything that a restart has to know.
    pub fn is_worth_recording(&self) -> bool {
        self.snapshot.is_some() || self.finished_steps > 0 || self.counted
    }
}

/// Whose money is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BudgetScope {
    /// That of the job.
    Job,
    /// That of all jobs of a day.
    Day,
}
