//! The input of the simulated agent's process: a rule with everything decided and filled in.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{SIMULATED_MODEL, SimulatedReset};
use crate::agent::TokenUsage;

/// A file that the simulated agent writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimulatedEdit {
    /// The path, relative to where the agent runs and never outside of it.
    pub path: String,
    /// The text.
    pub content: String,
    /// Set to append instead of replace.
    pub append: bool,
}

/// The simulated agent's work for one prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimulatedTurn {
    /// The name of the conversation.
    pub session_id: String,
    /// The model it says it uses.
    #[serde(default = "model")]
    pub model: String,
    /// The answer, or the message of an error.
    #[serde(default)]
    pub answer: String,
    /// Its answer as data.
    #[serde(default)]
    pub result: Option<Value>,
    /// The duration, in milliseconds.
    #[serde(default)]
    pub delay_ms: u64,
    /// Files it writes.
    #[serde(default)]
    pub edits: Vec<SimulatedEdit>,
    /// The message of its commit.
    #[serde(default)]
    pub commit: Option<String>,
    /// The cost that it reports.
    #[serde(default)]
    pub cost_usd: f64,
    /// The token usage that it reports.
    #[serde(default)]
    pub tokens: TokenUsage,
    /// The number of turns that it reports.
    #[serde(default = "one")]
    pub turns: u32,
    /// The number of bytes that it prints before its work.
    #[serde(default)]
    pub noise: u64,
    /// The end of the turn.
    #[serde(default)]
    pub end: SimulatedEnd,
}

/// The end of a turn of the simulated agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SimulatedEnd {
    /// The work is done and the answer is given.
    #[default]
    Well,
    /// The same, and a tool was denied on the way.
    Denied,
    /// A signal ends it after the first edit.
    Crash,
    /// It does not end.
    Hang,
    /// It reports an error of its own.
    Error,
    /// The provider answered with this status.
    Status(u16),
    /// The usage limit of the account is reached.
    UsageLimit(SimulatedReset),
    /// It declined.
    Refusal,
    /// It used all its turns.
    MaxTurns,
    /// It spent all the money that it may.
    OverBudget,
    /// Its output cannot be read.
    Garbage,
}

impl Default for SimulatedTurn {
    /// It succeeds in one turn and does nothing.
    fn default() -> Self {
        Self {
            session_id: String::new(),
            model: model(),
            answer: String::new(),
            result: None,
            delay_ms: 0,
            edits: Vec::new(),
            commit: None,
            cost_usd: 0.0,
            tokens: TokenUsage::default(),
            turns: one(),
            noise: 0,
            end: SimulatedEnd::Well,
        }
    }
}

fn model() -> String {
    SIMULATED_MODEL.to_owned()
}

fn one() -> u32 {
    1
}
