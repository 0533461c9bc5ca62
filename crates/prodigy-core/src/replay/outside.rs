//! The combined state of an item's side effects.

use super::{EffectEvidence, EntryFacts};
use crate::dlq::CommitState;

/// The combined state of an item's side effects: the changes that the attempts may have made,
/// with the results of later checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExternalState {
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
    pub(super) fn from_facts(subject: &EntryFacts<'_>) -> Self {
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
    pub(super) fn is_uncertain(self) -> bool {
        match self {
            Self::Partial | Self::Unknown | Self::Unknowable => true,
            Self::Clear | Self::Mixed | Self::Committed => false,
        }
    }
}
