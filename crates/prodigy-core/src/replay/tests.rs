//! Tests of the policy and of what is decided with it.

mod properties;
mod reading;
mod verdicts;

use super::{
    Asked, Counters, EffectEvidence, Match, Policy, ReplayAction, Rule, Situation, Subject,
};
use crate::{
    Timestamp,
    dlq::{CommitState, EntryStatus},
    failure::FailureKind,
};

/// The moment at which the tests decide.
const NOW: &str = "2026-01-02T03:04:05Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

/// An entry that nothing speaks against, of an item that died of `reason_code` just now.
fn subject(reason_code: FailureKind) -> Subject<'static> {
    Subject {
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
fn situation(policy: &Policy) -> Situation<'_> {
    Situation {
        policy,
        counters: Counters::default(),
        asked: Asked::Asked,
        now: now(),
        is_running: false,
    }
}

/// A policy of one rule for everything, which a test may change first.
fn policy_of(action: ReplayAction, change: impl FnOnce(&mut Rule)) -> Policy {
    let mut rule = Rule::new("the rule", Match::default(), action);
    change(&mut rule);
    let builtin = Policy::builtin().clone();
    Policy::new(vec![rule], builtin.limits, builtin.velocity, builtin.groups, builtin.alerts)
}

/// The same policy with other limits.
fn limited(policy: Policy, change: impl FnOnce(&mut super::Limits)) -> Policy {
    let Policy { rules, mut limits, velocity, groups, alerts, .. } = policy;
    change(&mut limits);
    Policy::new(rules, limits, velocity, groups, alerts)
}
