//! The decision about an entry.

use serde::Serialize;

use super::{ReplayAction, ReplayRule, explain::DecisionReason};
use crate::Timestamp;

/// The decision about an entry, and the reasons for it.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a ruling that nobody looks at allows nothing"]
pub struct ReplayDecision<'a> {
    /// The verdict.
    pub verdict: ReplayVerdict,
    /// The rule that decided.
    pub rule: &'a ReplayRule,
    /// The name of the policy.
    pub snapshot: &'a str,
    /// The action of the rule, with what is known of the side effects.
    pub action: ReplayAction,
    /// The moment before which it must not be replayed, if the rule waits.
    pub not_before: Option<Timestamp>,
    /// The goal if nothing stands against it; `None` if something does that no approval can lift.
    pub goal: Option<ReplayGoal>,
    /// The need that would move the entry on.
    pub needs: Option<NextAction>,
    /// The reasons of the verdict, in order.
    pub(super) because: Vec<DecisionReason>,
}

impl ReplayDecision<'_> {
    /// Returns whether somebody lifts what would keep anybody else from a replay.
    pub fn lifts_limits(&self) -> bool {
        self.because.iter().any(|because| {
            matches!(
                because,
                DecisionReason::Forced { .. } | DecisionReason::Limit { is_forced: true, .. }
            )
        })
    }
}

/// The goal of a ruling if nothing stands against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReplayGoal {
    /// Its steps run again.
    Replay,
    /// Its work counts as done.
    Adopt,
}

/// The verdict on an entry: the action that is possible now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayVerdict {
    /// It may be replayed.
    Replay,
    /// Its work counts as done: nothing runs again.
    Adopt,
    /// A check of its side effects must come first.
    Check,
    /// Somebody has to agree.
    Approval,
    /// A person has to look at it.
    Review,
    /// It is kept back until something is changed.
    Quarantine,
    /// It may be replayed later.
    Later,
    /// It was replayed as often, or for as much, as is allowed.
    Limit,
    /// It is never replayed.
    Never,
    /// Something works on it already.
    Running,
    /// It needs nothing any more.
    Closed,
    /// It is not as it was written.
    Damaged,
}

impl ReplayVerdict {
    /// Every verdict, with its word.
    pub const WORDS: &[(&'static str, Self)] = &[
        ("replay", Self::Replay),
        ("adopt", Self::Adopt),
        ("check", Self::Check),
        ("approval", Self::Approval),
        ("review", Self::Review),
        ("quarantine", Self::Quarantine),
        ("later", Self::Later),
        ("limit", Self::Limit),
        ("never", Self::Never),
        ("running", Self::Running),
        ("closed", Self::Closed),
        ("damaged", Self::Damaged),
    ];

    /// Returns the word for it.
    pub fn as_str(self) -> &'static str {
        Self::WORDS.iter().find(|(_, verdict)| *verdict == self).map_or("", |(word, _)| word)
    }

    /// Returns what it means, for the reference.
    pub(super) fn meaning(self) -> &'static str {
        match self {
            Self::Replay => "It may be replayed.",
            Self::Adopt => "Its work counts as done: nothing runs again.",
            Self::Check => "It has to be found out first what was changed outside.",
            Self::Approval => "Somebody has to agree.",
            Self::Review => "A person has to look at it.",
            Self::Quarantine => "It is kept back until something is changed.",
            Self::Later => "It may be replayed later.",
            Self::Limit => "It was replayed as often, or for as much, as is allowed.",
            Self::Never => "It is never replayed.",
            Self::Running => "Something works on it already.",
            Self::Closed => "It needs nothing any more.",
            Self::Damaged => "It is not as it was written.",
        }
    }
}

/// The need that would move an entry on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NextAction {
    /// Finding out what was changed outside: `prodigy dlq check`.
    Check,
    /// A request for agreement: `prodigy dlq retry` asks.
    Ask,
    /// The agreement of somebody who was asked: `prodigy dlq approve`.
    Approve,
    /// Members of the group that has to agree: the policy names none.
    Members,
    /// A release from quarantine: `prodigy dlq release`.
    Release,
    /// Another input: `prodigy dlq edit`.
    Edit,
    /// Taking what is there for the result: `prodigy dlq adopt`.
    Adopt,
    /// Somebody who takes it on themselves: `prodigy dlq retry --force`.
    Force,
    /// Time.
    Wait(Timestamp),
    /// The end of the run that works on it.
    Idle,
    /// A repair: `prodigy dlq fsck`.
    Fsck,
    /// The end: `prodigy dlq drop`.
    Drop,
}
