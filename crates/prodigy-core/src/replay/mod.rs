//! The replay of dead letters: the policy, and the ruling over one entry.
//!
//! A replay is a policy decision, not a queue operation. [`evaluate()`] is the only way to one:
//! it is a function of the entry's facts, the policy, what was counted and the time.

pub mod alerts;
pub mod approval;
mod builtin;
mod case_grammar;
mod cases;
mod decide;
mod explain;
mod grammar;
mod matching;
mod outside;
mod policy;
mod rate;
mod reach;
mod read;
mod read_match;
mod reference;
mod ruling;
mod snapshot;
mod subject;
#[cfg(test)]
mod tests;
mod vitals;
mod wait;
mod words;

pub use crate::event::IdentityKind;
pub use cases::{ExpectedDecision, PolicyCase};
pub use decide::evaluate;
pub use matching::RuleMatch;
pub use policy::{
    AlertRules, ApproverGroup, ReplayAction, ReplayLimits, ReplayPolicy, ReplayRole, ReplayRule,
    ReplayVelocity,
};
pub use rate::Rate;
pub use read::LoadedPolicy;
pub use reference::{policy_markdown, policy_schema};
pub use ruling::{NextAction, ReplayDecision, ReplayGoal, ReplayVerdict};
pub use subject::{
    ApprovalState, EffectEvidence, EntryFacts, EvaluationContext, ReplayCounters, ReplayTrigger,
};
pub use vitals::{DlqHealth, HealthSample, JobHealth, OldestEntry};
pub use wait::ReplayBackoff;
