//! The built-in agent: what it is told to do, by the workflow or for a rehearsal.
//!
//! The module `decide` chooses its work for one prompt, so that its process decides nothing.

mod decide;
mod fault;
mod sample;
#[cfg(test)]
mod tests;
mod turn;

use serde_json::Value;

use super::AgentOptions;
use crate::{Timestamp, agent::TokenUsage};

pub use self::{
    decide::SimulatedRequest,
    fault::SimulatedFault,
    turn::{SimulatedEdit, SimulatedEnd, SimulatedTurn},
};

/// The model that the simulated agent says it uses.
pub const SIMULATED_MODEL: &str = "simulated";

/// The default answer of the simulated agent.
const USUAL_ANSWER: &str = "done";

/// The built-in agent: scripted answers, no tokens, no network.
///
/// Without rules it succeeds and does nothing. With rules, a prompt that none of them matches is
/// an error, because a rehearsal that passes over a step by accident proves nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SimulatedAgent {
    /// Fixes what is random.
    pub seed: u64,
    /// The rules; the first one that matches applies.
    pub rules: Vec<SimulatedRule>,
    /// The options of its configuration.
    pub options: AgentOptions,
    /// In a rehearsal: what it does where no rule decides.
    ///
    /// A rule whose fault does not strike is passed over then, and what the step needs to go on
    /// is made up.
    pub otherwise: Option<Box<SimulatedWork>>,
}

/// A rule of the simulated agent: the work and the fault for some prompts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SimulatedRule {
    /// Which prompts it is for.
    pub when: SimulatedWhen,
    /// The work if no fault strikes.
    pub work: SimulatedWork,
    /// The fault.
    pub trouble: Option<SimulatedTrouble>,
}

/// Which prompts a rule is for: those that fit everything that is said here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimulatedWhen {
    /// A regular expression on the prompt.
    pub prompt: Option<String>,
    /// The item's id, with `*` for any text; the job's own steps have the item `workflow`.
    pub item: Option<String>,
    /// The step's id or path, with `*` for any text.
    pub step: Option<String>,
    /// The attempt, counted from 1.
    pub attempt: Option<u32>,
}

/// The work of the simulated agent.
///
/// `{prompt}` stands for the prompt and `{item}` for the item's id in the answer, the commit
/// message and the content of edits; in a path they stand for names that are safe in a path.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulatedWork {
    /// The answer; for the fault `error`, the message.
    pub answer: Option<String>,
    /// Its answer as data.
    pub result: Option<Value>,
    /// The duration, in milliseconds.
    pub delay_ms: u64,
    /// The maximum random addition to the duration, in milliseconds.
    pub jitter_ms: u64,
    /// Files it writes.
    pub edits: Vec<SimulatedEdit>,
    /// The message of the commit it makes of everything; no commit is made of nothing.
    pub commit: Option<String>,
    /// The cost that it reports.
    pub cost_usd: f64,
    /// The token usage that it reports.
    pub tokens: TokenUsage,
    /// The number of turns that it reports.
    pub turns: u32,
    /// The model it says it used.
    pub model: Option<String>,
}

/// A fault, and how often it strikes.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulatedTrouble {
    /// The fault.
    pub fault: SimulatedFault,
    /// The probability of the fault for one attempt, from 0 to 1. The same seed, step, item,
    /// prompt and attempt always get the same outcome.
    pub probability: f64,
    /// The number of attempts, counted from the first, that it can strike; `None` is no limit.
    /// For `not_satisfied`, the number of judgements.
    pub times: Option<u32>,
    /// When a usage limit is lifted.
    pub reset: SimulatedReset,
    /// The megabytes that it prints for the fault `huge`.
    pub megabytes: u32,
}

/// When a usage limit is lifted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SimulatedReset {
    /// So many milliseconds after somebody first ran into it.
    AfterMs(u64),
    /// At a time.
    At(Timestamp),
}

impl Default for SimulatedWork {
    /// It succeeds in one turn and does nothing.
    fn default() -> Self {
        Self {
            answer: None,
            result: None,
            delay_ms: 0,
            jitter_ms: 0,
            edits: Vec::new(),
            commit: None,
            cost_usd: 0.0,
            tokens: TokenUsage::default(),
            turns: 1,
            model: None,
        }
    }
}

impl SimulatedTrouble {
    /// The default duration of a usage limit.
    pub const RESET_MS: u64 = 60_000;
    /// The default number of megabytes for the fault `huge`.
    pub const MEGABYTES: u32 = 16;

    /// Makes one that is certain and never ends.
    pub fn always(fault: SimulatedFault) -> Self {
        Self {
            fault,
            probability: 1.0,
            times: None,
            reset: SimulatedReset::AfterMs(Self::RESET_MS),
            megabytes: Self::MEGABYTES,
        }
    }
}

impl SimulatedAgent {
    /// Returns whether the agent may run into a usage limit, which all attempts of a job share.
    pub fn has_usage_limit(&self) -> bool {
        self.has_fault(SimulatedFault::UsageLimit)
    }

    /// Returns whether the judgements of a step have to be counted, for a judge that is not
    /// satisfied for some of them.
    pub fn counts_judgements(&self, step: &str) -> bool {
        sample::is_judge(step) && self.has_fault(SimulatedFault::NotSatisfied)
    }

    fn has_fault(&self, fault: SimulatedFault) -> bool {
        let mut troubles = self.rules.iter().filter_map(|rule| rule.trouble.as_ref());
        troubles.any(|trouble| trouble.fault == fault)
    }
}
