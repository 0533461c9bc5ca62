//! What events say about limits and money.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Timestamp, agent::Limit};

/// Nobody's agent can go on for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuotaPaused {
    /// The limit that was reached.
    pub limit: Limit,
    /// When one agent may try whether it is lifted; left out if waiting does not help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_until: Option<Timestamp>,
    /// Whether the job waits for it, as it does if this is left out; otherwise it stops once nothing
    /// is under way.
    #[serde(default = "waits", skip_serializing_if = "Clone::clone")]
    pub waits: bool,
    /// The step whose agent ran into it, if it was one of the job itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
}

/// What a pause of an older journal was: those that did not wait did not say so.
fn waits() -> bool {
    true
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
