//! What is decided over an entry.

use serde::Serialize;

use super::{ReplayAction, Rule, explain::Because};
use crate::Timestamp;

/// What is decided over an entry, and why.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a ruling that nobody looks at allows nothing"]
pub struct Ruling<'a> {
    /// What may happen now.
    pub verdict: Verdict,
    /// The rule that decided.
    pub rule: &'a Rule,
    /// The name of the policy.
    pub snapshot: &'a str,
    /// What the rule wants done, as far as is known what the attempts changed outside.
    pub action: ReplayAction,
    /// The moment before which it must not be replayed, if the rule waits.
    pub not_before: Option<Timestamp>,
    /// What is done in the end if nothing speaks against it; `None` if something does that
    /// nobody can agree to.
    pub goal: Option<Goal>,
    /// What would get it on.
    pub needs: Option<Need>,
    /// What led to the verdict, in order.
    pub(super) because: Vec<Because>,
}

impl Ruling<'_> {
    /// Returns whether somebody lifts what would keep anybody else from a replay.
    pub fn is_lifting(&self) -> bool {
        self.because.iter().any(|because| {
            matches!(because, Because::Forced { .. } | Because::Limit { is_forced: true, .. })
        })
    }
}

/// What is done in the end if nothing speaks against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Goal {
    /// Its steps run again.
    Replay,
    /// Its work counts as done.
    Adopt,
}

/// What may happen to an entry now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It may be replayed.
    Replay,
    /// Its work counts as done: nothing runs again.
    Adopt,
    /// It has to be found out first what was changed outside.
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

impl Verdict {
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
    pub fn word(self) -> &'static str {
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

/// What would get an entry on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Need {
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
