//! The policies for usage limits of agents and for budgets.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The longest wait for a limit unless `max_wait` says otherwise: a day more than the longest
/// limit that agents name, which is a week. A time that lies further off is most likely wrong.
const LONGEST_WAIT: Duration = Duration::from_secs(8 * 24 * 60 * 60);

/// The restarts of work that limits cut off, unless `max_restarts` says otherwise: work that does
/// not fit into the window of a limit would be paid for again and again.
const MOST_RESTARTS: u32 = 5;

/// The policy for the usage limit of an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QuotaPolicy {
    /// The action at the limit: wait until it is lifted, or stop.
    pub on_limit: OnLimit,
    /// The longest wait; a longer one stops the job.
    pub max_wait: Option<Duration>,
    /// Fewer items start from this share of the limit on, from 0 to 1.
    pub throttle_at: Option<f64>,
    /// The most restarts of work that limits cut off without a further finished step.
    pub max_restarts: Option<u32>,
}

impl QuotaPolicy {
    /// Returns the longest wait for a limit to be lifted.
    pub fn longest_wait(&self) -> Duration {
        self.max_wait.unwrap_or(LONGEST_WAIT)
    }

    /// Returns how often work may be cut off by limits without a further finished step.
    pub fn most_restarts(&self) -> u32 {
        self.max_restarts.unwrap_or(MOST_RESTARTS)
    }
}

/// The action of a job at a usage limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLimit {
    /// It waits.
    #[default]
    Wait,
    /// It stops and can be resumed.
    Stop,
}

/// The most that may be spent, in US dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Budget {
    /// For one item, over all its attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_usd: Option<f64>,
    /// For the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_usd: Option<f64>,
    /// For all jobs of a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub day_usd: Option<f64>,
    /// The action when the budget of the job or of the day is spent.
    #[serde(default)]
    pub on_exceeded: OnExceeded,
    /// The consequence of an agent whose cost is unknown.
    #[serde(default, skip_serializing_if = "OnUnknownCost::is_default")]
    pub on_unknown: OnUnknownCost,
}

impl Budget {
    /// Returns whether any amount may be spent.
    pub fn is_unlimited(&self) -> bool {
        let Self { item_usd, job_usd, day_usd, on_exceeded: _, on_unknown: _ } = self;
        [item_usd, job_usd, day_usd].into_iter().all(Option::is_none)
    }
}

/// The consequence of an agent whose cost is unknown: a budget cannot be kept then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnUnknownCost {
    /// The job goes on with a warning.
    #[default]
    Ignore,
    /// No further agent starts; the job can be resumed.
    Stop,
}

impl OnUnknownCost {
    /// Returns true if it need not be written.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The budget of one item, and its cost so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ItemBudget {
    /// The most it may cost.
    pub most_usd: f64,
    /// The cost so far.
    pub spent_usd: f64,
}

impl ItemBudget {
    /// Adds a cost.
    #[must_use]
    pub fn with_spend(self, cost_usd: f64) -> Self {
        Self { spent_usd: self.spent_usd + cost_usd, ..self }
    }

    /// Returns what may still be spent, or why nothing may.
    pub fn remaining(self) -> Result<f64, String> {
        let Self { most_usd, spent_usd } = self;
        let left_usd = most_usd - spent_usd;
        // Most amounts have no exact binary form.
        if left_usd > 1e-9 {
            return Ok(left_usd);
        }
        Err(format!(
            "the item has cost ${spent_usd:.2}, and its budget is ${most_usd:.2}; raise `item_usd`, and replay it with `--use-current-workflow`"
        ))
    }
}

/// The action when a budget is spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnExceeded {
    /// Work in flight may finish.
    #[default]
    Pause,
    /// Work in flight is stopped; its items wait for a resume.
    Stop,
}
