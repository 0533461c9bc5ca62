//! The replay of dead letters: the policy, and the ruling over one entry.
//!
//! A replay is a policy decision, not a queue operation. [`evaluate()`] is the only way to one:
//! it is a function of the entry's facts, the policy, what was counted and the time.

pub mod alerts;
pub mod approval;
mod decision;
mod evaluate;
mod facts;
mod health;
mod policy;
#[cfg(test)]
mod tests;

pub use crate::event::IdentityKind;
pub use decision::{NextAction, ReplayDecision, ReplayGoal, ReplayVerdict};
pub use evaluate::evaluate;
pub use facts::{
    ApprovalState, EffectEvidence, EntryFacts, EvaluationContext, ReplayCounters, ReplayTrigger,
};
pub use health::{DlqHealth, HealthSample, JobHealth, OldestEntry};
pub use policy::{
    AlertRules, ApproverGroup, ReplayAction, ReplayLimits, ReplayPolicy, ReplayRole, ReplayRule,
    ReplayVelocity, RuleMatch,
    backoff::ReplayBackoff,
    rate::Rate,
    reader::LoadedPolicy,
    reference::{policy_markdown, policy_schema},
    test_case::{ExpectedDecision, PolicyCase},
};
