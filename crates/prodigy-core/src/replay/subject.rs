//! What a ruling depends on.

use super::Policy;
use crate::{
    Timestamp,
    dlq::{CommitState, EntryStatus},
    effect::{EffectState, Ledger},
    failure::FailureKind,
};

/// The facts of an entry that a ruling depends on.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The item.
    pub item: &'a str,
    /// Where the entry stands.
    pub status: EntryStatus,
    /// Why the item died.
    pub reason_code: FailureKind,
    /// The path of the step that failed last: `map.2`.
    pub topic: &'a str,
    /// The name or the id of that step.
    pub step: &'a str,
    /// How many attempts came to an end.
    pub attempts: u32,
    /// How often it was replayed.
    pub replays: u32,
    /// What entries of one cause have in common.
    pub signature: &'a str,
    /// When the last attempt ended.
    pub last_attempt: Timestamp,
    /// What the attempts may have changed.
    pub commit_state: CommitState,
    /// What was found out about effects that may have happened; of several, the worst.
    pub effect: EffectEvidence,
    /// Whether there is a way to find out: a step whose effect nobody has looked for has a `check`.
    pub can_check: bool,
    /// Whether the entry is as it was written.
    pub is_intact: bool,
    /// Whether somebody put it into quarantine.
    pub is_quarantined: bool,
    /// Whether somebody released it from quarantine, and it has not failed since.
    pub is_released: bool,
    /// Whether the input, the workflow, a tool or the environment is another than when it died,
    /// or than when it was put into quarantine, if that was later.
    pub is_changed: bool,
    /// Which of these are, for people.
    pub changed: &'a [&'a str],
    /// How far an agreement has come, if somebody was asked.
    pub approval: Option<ApprovalState>,
}

/// What is known of an effect outside that was begun.
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
    pub fn of(ledger: &Ledger) -> Self {
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

/// How far an agreement to a replay has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ApprovalState {
    /// More have to agree.
    Pending {
        /// How many agreed.
        granted: u32,
        /// How many have to.
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

/// What was counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// How often entries of the same signature were replayed in the job.
    pub signature_replays: u32,
    /// What the replays of the job cost.
    pub cost_usd: f64,
}

/// How much somebody wants the replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Asked {
    /// Nobody asked: the job is resumed.
    Unasked,
    /// Somebody asked for it.
    Asked,
    /// Somebody named the item, gave a reason, and takes the decision on themselves.
    Forced,
}

/// Everything besides the entry that a ruling depends on.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The rules.
    pub policy: &'a Policy,
    /// What was counted so far.
    pub counters: Counters,
    /// How much somebody wants it.
    pub asked: Asked,
    /// The time.
    pub now: Timestamp,
    /// Whether another run works on the job, or the item is under way.
    pub is_running: bool,
}
