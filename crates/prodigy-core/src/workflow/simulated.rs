//! The built-in agent: what it is told to do, by the workflow or for a rehearsal.
//!
//! What it does for one prompt is decided in `decide`, so that its process decides nothing.

mod decide;
mod fault;
mod sample;
#[cfg(test)]
mod tests;
mod turn;

use serde_json::Value;

use super::AgentOptions;
use crate::{Timestamp, agent::Usage};

pub use self::{
    decide::SimulatedRequest,
    fault::SimulatedFault,
    turn::{SimulatedEdit, SimulatedEnd, SimulatedTurn},
};

/// The model that the simulated agent says it uses.
pub const SIMULATED_MODEL: &str = "simulated";

/// What the simulated agent answers if nobody says what.
const USUAL_ANSWER: &str = "done";

/// The built-in agent: scripted answers, no tokens, no network.
///
/// Without rules it succeeds and does nothing. With rules, a prompt that none of them matches is
/// an error, because a rehearsal that passes over a step by accident proves nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SimulatedAgent {
    /// Fixes what is random.
    pub seed: u64,
    /// What it does: the first rule that matches.
    pub rules: Vec<SimulatedRule>,
    /// What its configuration asks of it besides.
    pub options: AgentOptions,
    /// In a rehearsal: what it does where no rule decides.
    ///
    /// A rule whose fault does not strike is passed over then, and what the step needs to go on
    /// is made up.
    pub otherwise: Option<Box<SimulatedWork>>,
}

/// What the simulated agent does for some prompts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SimulatedRule {
    /// Which prompts it is for.
    pub when: SimulatedWhen,
    /// What it does if nothing goes wrong.
    pub work: SimulatedWork,
    /// What goes wrong.
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

/// What the simulated agent does.
///
/// `{prompt}` stands for the prompt and `{item}` for the item's id in the answer, the commit
/// message and the content of edits; in a path they stand for names that are safe in a path.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulatedWork {
    /// What it answers; for the fault `error`, the message.
    pub answer: Option<String>,
    /// Its answer as data.
    pub result: Option<Value>,
    /// How long it takes, in milliseconds.
    pub delay_ms: u64,
    /// How much longer it may take at most, in milliseconds.
    pub jitter_ms: u64,
    /// Files it writes.
    pub edits: Vec<SimulatedEdit>,
    /// The message of the commit it makes of everything; no commit is made of nothing.
    pub commit: Option<String>,
    /// What it says it cost.
    pub cost_usd: f64,
    /// What it says it used.
    pub tokens: Usage,
    /// How many turns it says it took.
    pub turns: u32,
    /// The model it says it used.
    pub model: Option<String>,
}

/// What goes wrong, and how often.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulatedTrouble {
    /// What.
    pub fault: SimulatedFault,
    /// How likely that is for one attempt, from 0 to 1. The same seed, step, item, prompt and
    /// attempt always have the same luck.
    pub probability: f64,
    /// How many attempts, counted from the first, it may go wrong for; `None` is no limit. For
    /// `not_satisfied`, how many judgements.
    pub times: Option<u32>,
    /// When a usage limit is lifted.
    pub reset: SimulatedReset,
    /// How much it prints for the fault `huge`.
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
            tokens: Usage::default(),
            turns: 1,
            model: None,
        }
    }
}

impl SimulatedTrouble {
    /// How long a usage limit lasts if nobody says so.
    pub const RESET_MS: u64 = 60_000;
    /// How much is much, if nobody says so.
    pub const MEGABYTES: u32 = 16;

    /// Makes one that is certain and never ends.
    pub fn certain(fault: SimulatedFault) -> Self {
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
