//! The facts about an entry and its surroundings that a replay decision is made from.

use super::ReplayPolicy;
use crate::{
    Timestamp,
    dlq::{CommitState, EntryStatus},
    effect::{EffectLedger, EffectState},
    failure::ReasonCode,
};

/// The facts of an entry that a ruling depends on.
#[derive(Clone, Copy, Debug)]
pub struct EntryFacts<'a> {
    /// The item.
    pub item: &'a str,
    /// Where the entry stands.
    pub status: EntryStatus,
    /// The reason code of the failure.
    pub reason_code: ReasonCode,
    /// The path of the step that failed last: `map.2`.
    pub topic: &'a str,
    /// The name or the id of that step.
    pub step: &'a str,
    /// The number of attempts that ended.
    pub attempts: u32,
    /// The number of replays.
    pub replays: u32,
    /// The error signature, which entries of one cause share.
    pub signature: &'a str,
    /// When the last attempt ended.
    pub last_attempt: Timestamp,
    /// The changes that the attempts may have made.
    pub commit_state: CommitState,
    /// The evidence of side effects that may have happened; of several, the worst.
    pub effect: EffectEvidence,
    /// True if a step whose side effect was not looked for yet has a `check`.
    pub can_check: bool,
    /// True if the entry is as it was written.
    pub is_intact: bool,
    /// True if a user quarantined it.
    pub is_quarantined: bool,
    /// True if a user released it from quarantine, and it has not failed since.
    pub is_released: bool,
    /// True if the input, the workflow, a tool or the environment has changed since it failed, or
    /// since it was quarantined, if that was later.
    pub is_changed: bool,
    /// Which of these are, for people.
    pub changed: &'a [&'a str],
    /// The state of the approval, if one was requested.
    pub approval: Option<ApprovalState>,
}

/// The evidence of a side effect that was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EffectEvidence {
    /// None was begun, or all were seen to their end.
    #[default]
    None,
    /// One was begun, and nobody has looked what became of it.
    Prepared,
    /// It was looked for and is not there.
    Absent,
    /// It was looked for and is there.
    Committed,
    /// It was looked for and is there in part.
    Partial,
    /// It was looked for, and that gave no answer.
    Indeterminate,
}

impl EffectEvidence {
    /// Sums up what is known of the effects of an item; of several, the worst.
    pub fn from_ledger(ledger: &EffectLedger) -> Self {
        // From bad to good. What may be made twice without harm is not asked for.
        let is = |state| ledger.open().any(|effect| effect.state == state);
        let is_known = |state| ledger.effects().iter().any(|effect| effect.state == state);
        if is(EffectState::Indeterminate) {
            Self::Indeterminate
        } else if is(EffectState::Partial) {
            Self::Partial
        } else if is(EffectState::Prepared) {
            Self::Prepared
        } else if is_known(EffectState::Committed) {
            Self::Committed
        } else if [EffectState::Absent, EffectState::Compensated].into_iter().any(is_known) {
            Self::Absent
        } else {
            Self::None
        }
    }
}

/// The state of the approval of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ApprovalState {
    /// More have to agree.
    Pending {
        /// The number of approvals so far.
        granted: u32,
        /// The number of approvals needed.
        needed: u32,
    },
    /// Everybody agreed who had to.
    Granted,
    /// Enough agreed, but not without those who have a part in the replay.
    SelfApproval,
    /// They agreed too long ago.
    Expired,
    /// Somebody refused.
    Rejected,
    /// They agreed to something else: what they were shown has changed.
    Void,
}

/// The counts of earlier replays.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReplayCounters {
    /// The number of replays of entries with the same signature in the job.
    pub signature_replays: u32,
    /// The cost of the job's replays.
    pub cost_usd: f64,
}

/// The kind of replay request: resume, retry or force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReplayTrigger {
    /// Nobody asked: the job is resumed.
    Unasked,
    /// Somebody asked for it.
    Asked,
    /// Somebody named the item, gave a reason, and takes the decision on themselves.
    Forced,
}

/// Everything besides the entry that a ruling depends on.
#[derive(Clone, Copy, Debug)]
pub struct EvaluationContext<'a> {
    /// The rules.
    pub policy: &'a ReplayPolicy,
    /// The counts of earlier replays.
    pub counters: ReplayCounters,
    /// The kind of replay request.
    pub asked: ReplayTrigger,
    /// The time.
    pub now: Timestamp,
    /// True if another run works on the job, or the item is in flight.
    pub is_running: bool,
}

/// The combined state of an item's side effects: the changes that the attempts may have made,
/// with the results of later checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExternalState {
    /// Nothing was changed outside.
    Clear,
    /// Some effects are there, and what is missing is known to be missing.
    Mixed,
    /// Everything is there.
    Committed,
    /// An effect is there in part.
    Partial,
    /// Something may be there, and nobody has looked.
    Unknown,
    /// Something may be there, and looking gave no answer.
    Unknowable,
}

impl ExternalState {
    /// Puts together what is known. Where two facts disagree, the worse one counts.
    pub(crate) fn from_facts(subject: &EntryFacts<'_>) -> Self {
        match (subject.effect, subject.commit_state) {
            (EffectEvidence::Indeterminate, _) => Self::Unknowable,
            (EffectEvidence::Partial, _) => Self::Partial,
            (EffectEvidence::Prepared, _) | (EffectEvidence::None, CommitState::Unknown) => {
                Self::Unknown
            }
            (_, CommitState::Mixed)
            | (EffectEvidence::Committed, CommitState::None | CommitState::Local) => Self::Mixed,
            (_, CommitState::Committed) => Self::Committed,
            (EffectEvidence::Committed, CommitState::Unknown) => Self::Unknown,
            (EffectEvidence::Absent, _)
            | (EffectEvidence::None, CommitState::None | CommitState::Local) => Self::Clear,
        }
    }

    /// Returns whether it is unknown what a replay would do twice.
    pub(crate) fn is_uncertain(self) -> bool {
        match self {
            Self::Partial | Self::Unknown | Self::Unknowable => true,
            Self::Clear | Self::Mixed | Self::Committed => false,
        }
    }
}
