//! The decision about an entry, and the sentences that explain it.

use serde::Serialize;

use super::{ApprovalState, EffectEvidence, ReplayAction, ReplayRule, facts::ExternalState};
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
    pub(crate) because: Vec<DecisionReason>,
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
    /// It needs approval.
    Approval,
    /// It needs manual review.
    Review,
    /// It is quarantined until changed or released.
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
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::Replay => "It may be replayed.",
            Self::Adopt => "Its work counts as done: nothing runs again.",
            Self::Check => "It has to be found out first what was changed outside.",
            Self::Approval => "It needs approval.",
            Self::Review => "It needs manual review.",
            Self::Quarantine => "It is quarantined until changed or released.",
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

/// One thing that led to a verdict.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum DecisionReason {
    /// The entry is not as it was written.
    Damaged,
    /// The entry is closed.
    Closed { is_resolved: bool },
    /// It is being replayed.
    Replaying,
    /// The rule that matches.
    Rule,
    /// The state of the side effects, and the evidence for it.
    Effects { outside: ExternalState, evidence: EffectEvidence },
    /// The clause of the rule for that state, and its action.
    Clause(RuleClause, ReplayAction),
    /// It is kept back, or no longer.
    Quarantine(QuarantineReason),
    /// The uncertain side effects, which no policy can allow to repeat.
    Floor { can_check: bool },
    /// The side effects are committed: the entry is adopted, whatever the rule says.
    NotAgain,
    /// Somebody takes it on themselves.
    Forced { is_committed: bool },
    /// A limit is reached.
    Limit { bound: ReachedLimit, is_forced: bool },
    /// Something works on the job.
    Running,
    /// Nobody may agree.
    NoMembers,
    /// The state of the approval, and the number of approvals needed.
    Approval { state: Option<ApprovalState>, needed: u32 },
    /// It is too early.
    Wait { until: Timestamp, is_forced: bool },
}

/// Which part of a rule decides once it was looked for effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleClause {
    OnAbsent,
    OnCommitted,
    OnPartial,
    CannotCheck,
    CannotTell,
}

/// The reason of a quarantine, or of its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum QuarantineReason {
    ByPerson,
    Unchanged,
    Released,
    Changed(String),
}

/// A limit, and what was counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ReachedLimit {
    Rule { replays: u32, most: u32 },
    Item { replays: u32, most: u32 },
    Signature { replays: u32, most: u32 },
    Cost { cost: f64, most: f64 },
}

impl ReplayDecision<'_> {
    /// Returns why it was decided so, in plain sentences without full stops.
    pub fn explain(&self) -> Vec<String> {
        self.because.iter().map(|because| self.sentence(because)).collect()
    }

    fn sentence(&self, because: &DecisionReason) -> String {
        let rule = &self.rule.name;
        match because {
            DecisionReason::Damaged => "the entry is not as it was written".to_owned(),
            DecisionReason::Closed { is_resolved: true } => {
                "the entry is closed: a replay succeeded or its work was adopted".to_owned()
            }
            DecisionReason::Closed { is_resolved: false } => {
                "the entry is closed: the item was left out".to_owned()
            }
            DecisionReason::Replaying => "it is being replayed".to_owned(),
            DecisionReason::Rule => format!("rule `{rule}` says {}", self.rule.action.as_str()),
            DecisionReason::Effects { outside, evidence } => effects(*outside, *evidence).to_owned(),
            DecisionReason::Clause(clause, action) => clause.sentence(*action),
            DecisionReason::Quarantine(held) => held.sentence(),
            DecisionReason::Floor { can_check: true } => {
                "what may have happened is looked for before anything runs again, whatever the rules say".to_owned()
            }
            DecisionReason::Floor { can_check: false } => {
                "what may have happened is never done again without a person's decision, whatever the rules say".to_owned()
            }
            DecisionReason::NotAgain => "what is done is not done again, whatever the rules say".to_owned(),
            DecisionReason::Forced { is_committed: false } => {
                "somebody takes the decision on themselves".to_owned()
            }
            DecisionReason::Forced { is_committed: true } => {
                "somebody takes the decision on themselves; what is changed outside is not changed again".to_owned()
            }
            DecisionReason::Limit { bound, is_forced } => {
                let lifted = if *is_forced { ", which somebody lifts" } else { "" };
                format!("{}{lifted}", self.bound(*bound))
            }
            DecisionReason::Running => "another run works on the job".to_owned(),
            DecisionReason::NoMembers => {
                let group = self.rule.approver_group.as_deref().unwrap_or_default();
                format!("group `{group}` has no members, so nobody may approve")
            }
            DecisionReason::Approval { state, needed } => self.approval(*state, *needed),
            DecisionReason::Wait { until, is_forced } => {
                let lifted = if *is_forced { ", which somebody lifts" } else { "" };
                let wait = self.rule.backoff.as_str();
                format!("rule `{rule}` waits after replays that failed ({wait}): not before {until}{lifted}")
            }
        }
    }

    fn bound(&self, bound: ReachedLimit) -> String {
        match bound {
            ReachedLimit::Rule { replays, most } => {
                format!(
                    "it was replayed {}, and rule `{}` allows {most}",
                    times(replays),
                    self.rule.name
                )
            }
            ReachedLimit::Item { replays, most } => {
                format!("it was replayed {}, and `replays_per_item` is {most}", times(replays))
            }
            ReachedLimit::Signature { replays, most } => format!(
                "entries of its signature were replayed {}, and `replays_per_signature` is {most}",
                times(replays)
            ),
            ReachedLimit::Cost { cost, most } => {
                format!("the replays of the job cost ${cost:.2}, and `cost_usd` is ${most:.2}")
            }
        }
    }

    fn approval(&self, state: Option<ApprovalState>, needed: u32) -> String {
        let by = match &self.rule.approver_group {
            Some(name) => format!(" by `{name}`"),
            None => String::new(),
        };
        match state {
            None => format!("0 of {needed} approvals{by}"),
            Some(ApprovalState::SelfApproval) => {
                "somebody who has a part in it agreed, and that does not count".to_owned()
            }
            Some(ApprovalState::Pending { granted, needed }) => {
                format!("{granted} of {needed} approvals{by}")
            }
            Some(ApprovalState::Granted) => format!("{needed} of {needed} approvals{by}"),
            Some(ApprovalState::Expired) => format!("the approval{by} has expired"),
            Some(ApprovalState::Rejected) => "the approval was rejected".to_owned(),
            Some(ApprovalState::Void) => {
                "somebody agreed, but what they agreed to has changed since".to_owned()
            }
        }
    }
}

impl RuleClause {
    fn sentence(self, action: ReplayAction) -> String {
        let word = action.as_str();
        match self {
            Self::OnAbsent => format!("for that the rule says {word} (`on_absent`)"),
            Self::OnCommitted => format!("for that the rule says {word} (`on_committed`)"),
            Self::OnPartial => format!("for that the rule says {word} (`on_partial`)"),
            Self::CannotCheck => "the step has no `check` that could tell".to_owned(),
            Self::CannotTell => "so a person has to find out".to_owned(),
        }
    }
}

impl QuarantineReason {
    fn sentence(&self) -> String {
        match self {
            Self::ByPerson => "somebody put it into quarantine".to_owned(),
            Self::Unchanged => "nothing changed since it failed".to_owned(),
            Self::Released => "it was released from quarantine".to_owned(),
            Self::Changed(what) if what.is_empty() => {
                "something changed since it failed".to_owned()
            }
            Self::Changed(what) => format!("changed since it failed: {what}"),
        }
    }
}

fn effects(outside: ExternalState, evidence: EffectEvidence) -> &'static str {
    match outside {
        ExternalState::Clear if evidence == EffectEvidence::Absent => {
            "what may have happened outside was looked for and is not there"
        }
        ExternalState::Clear => "nothing was changed outside",
        ExternalState::Mixed => {
            "some of what it was to change outside is changed: only the rest would run"
        }
        ExternalState::Committed => "all that it was to change outside is changed",
        ExternalState::Partial => "something outside was changed in part",
        ExternalState::Unknown => "something outside may have been changed, and nobody has looked",
        ExternalState::Unknowable => {
            "something outside may have been changed, and looking gave no answer"
        }
    }
}

fn times(count: u32) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}
