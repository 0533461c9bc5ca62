//! The fold of events about dead letters into their items.

use super::{
    fold::Misplaced,
    map::{MapState, Stage},
};
use crate::{Timestamp, event::Withdrawal};

impl MapState {
    /// Applies the start of a replay. The counts for the error policy start anew.
    pub(super) fn replay(&mut self, at: u32, now: Timestamp) -> Result<(), Misplaced> {
        let item = self.item_mut(at)?;
        if item.stage != Stage::DeadLettered {
            return Err(Misplaced);
        }
        item.replays += 1;
        (item.failed, item.conflicts, item.lost) = (0, 0, 0);
        if let Some(counted) = item.died {
            self.tally.remove(counted);
        }
        self.counts.dead_lettered = self.counts.dead_lettered.saturating_sub(1);
        self.last_replay = Some(now);
        self.enter(at, Stage::Pending)
    }

    /// Closes the entry of an item: the item is skipped, or successful if its side effects are
    /// made.
    pub(super) fn remove(&mut self, at: u32, how: Withdrawal) -> Result<(), Misplaced> {
        let item = self.item_mut(at)?;
        let died = item.died;
        match item.stage {
            Stage::DeadLettered => {
                self.counts.dead_lettered = self.counts.dead_lettered.saturating_sub(1);
                let stage = match how {
                    Withdrawal::Dropped | Withdrawal::Cleared => {
                        self.counts.skipped += 1;
                        Stage::Skipped
                    }
                    Withdrawal::Adopted => {
                        self.counts.successful += 1;
                        if let Some(counted) = died {
                            self.tally.remove(counted);
                        }
                        Stage::Successful
                    }
                };
                self.enter(at, stage)
            }
            Stage::Successful | Stage::Skipped => Ok(()),
            Stage::Pending
            | Stage::Waiting { .. }
            | Stage::Running { .. }
            | Stage::Handling { .. }
            | Stage::Unhandled(_)
            | Stage::Merging(_)
            | Stage::Conflicted(_)
            | Stage::Resolving { .. } => Err(Misplaced),
        }
    }
}
