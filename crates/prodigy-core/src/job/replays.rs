//! Which dead letters are tried again.

use std::collections::BTreeSet;

use super::{ItemState, Job, MapState, Stage};
use crate::{
    event::PhaseName,
    failure::{DefaultAction, FailureKind},
};

/// Dead letters that are to be tried again in a run.
///
/// They are claimed one by one, when there is room for them: a run that is cut off
/// leaves the others as they were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replays {
    /// The places of their items; whoever starts one takes it out.
    pub places: BTreeSet<u32>,
    /// Those that are tried again although their reason speaks against it.
    pub forced: BTreeSet<u32>,
    /// Whether the items that were never finished are left alone.
    pub only: bool,
    /// Who asked for it.
    pub by: String,
    /// Why, if somebody said so.
    pub reason: Option<String>,
}

impl Replays {
    /// Returns the places of the items that are dead letters now, in order.
    pub(super) fn left<'a>(&'a self, map: &'a MapState) -> impl Iterator<Item = u32> + 'a {
        self.places
            .iter()
            .copied()
            .filter(|at| map.item(*at).is_some_and(|item| item.stage == Stage::DeadLettered))
    }
}

/// Returns whether a dead letter may be replayed when somebody asks for it.
pub fn is_replayable(kind: FailureKind) -> bool {
    match kind.action() {
        DefaultAction::Always | DefaultAction::Once => true,
        DefaultAction::Check
        | DefaultAction::Approval
        | DefaultAction::Review
        | DefaultAction::Quarantine
        | DefaultAction::Never => false,
    }
}

impl ItemState {
    /// Returns whether it is a dead letter that is replayed without anybody asking for it.
    fn is_replayed_unasked(&self) -> bool {
        let action = self.died.map(|died| died.kind.action());
        self.stage == Stage::DeadLettered
            && match action {
                Some(DefaultAction::Always) => true,
                Some(DefaultAction::Once) => self.replays == 0,
                Some(
                    DefaultAction::Check
                    | DefaultAction::Approval
                    | DefaultAction::Review
                    | DefaultAction::Quarantine
                    | DefaultAction::Never,
                )
                | None => false,
            }
    }
}

impl Job {
    /// Returns the dead letters that a resumed run tries again without being asked to.
    ///
    /// Once only the merge is left there are none: whoever resumes such a job wants it
    /// merged as it is.
    pub fn replayed_unasked(&self) -> BTreeSet<u32> {
        let is_early = self.next_phase().is_some_and(|phase| phase != PhaseName::Merge);
        let map = self.map.iter().filter(|_| is_early);
        let items = map.flat_map(|map| (0..).zip(&map.items));
        items.filter(|(_, item)| item.is_replayed_unasked()).map(|(at, _)| at).collect()
    }
}
