//! Tests of the policy and of what is decided with it.

mod decisions;
mod policy_file;
mod properties;

use super::{
    EffectEvidence, EntryFacts, EvaluationContext, ReplayAction, ReplayCounters, ReplayPolicy,
    ReplayRule, ReplayTrigger, RuleMatch,
};
use crate::{
    Timestamp,
    dlq::{CommitState, EntryStatus},
    failure::ReasonCode,
};

/// The moment at which the tests decide.
const NOW: &str = "2026-01-02T03:04:05Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

/// An entry that nothing speaks against, of an item that died of `reason_code` just now.
fn subject(reason_code: ReasonCode) -> EntryFacts<'static> {
    EntryFacts {
        item: "item-1",
        status: EntryStatus::Open,
        reason_code,
        topic: "map.2",
        step: "open-pr",
        attempts: 3,
        replays: 0,
        signature: "0123456789abcdef",
        last_attempt: now(),
        commit_state: CommitState::Local,
        effect: EffectEvidence::None,
        can_check: true,
        is_intact: true,
        is_quarantined: false,
        is_released: false,
        is_changed: false,
        changed: &[],
        approval: None,
    }
}

/// Somebody asks, and nothing else is going on.
fn situation(policy: &ReplayPolicy) -> EvaluationContext<'_> {
    EvaluationContext {
        policy,
        counters: ReplayCounters::default(),
        asked: ReplayTrigger::Asked,
        now: now(),
        is_running: false,
    }
}

/// A policy of one rule for everything, which a test may change first.
fn policy_of(action: ReplayAction, change: impl FnOnce(&mut ReplayRule)) -> ReplayPolicy {
    let mut rule = ReplayRule::new("the rule", RuleMatch::default(), action);
    change(&mut rule);
    let builtin = ReplayPolicy::builtin().clone();
    ReplayPolicy::new(vec![rule], builtin.limits, builtin.velocity, builtin.groups, builtin.alerts)
}

/// The same policy with other limits.
fn limited(policy: ReplayPolicy, change: impl FnOnce(&mut super::ReplayLimits)) -> ReplayPolicy {
    let ReplayPolicy { rules, mut limits, velocity, groups, alerts, .. } = policy;
    change(&mut limits);
    ReplayPolicy::new(rules, limits, velocity, groups, alerts)
}
