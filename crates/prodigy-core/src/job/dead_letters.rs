//! The fold of events about dead letters into their items.

use super::{
    map_apply::MisplacedEvent,
    map_state::{ItemStage, MapState},
};
use crate::{Timestamp, event::EntryRemoval};

impl MapState {
    /// Applies the start of a replay. The counts for the error policy start anew.
    pub(super) fn replay(&mut self, at: u32, now: Timestamp) -> Result<(), MisplacedEvent> {
        let item = self.item_mut(at)?;
        if item.stage != ItemStage::DeadLettered {
            return Err(MisplacedEvent);
        }
        item.replays += 1;
        (item.failed, item.conflicts, item.lost) = (0, 0, 0);
        if let Some(counted) = item.died {
            self.tally.remove(counted);
        }
        self.counts.dead_lettered = self.counts.dead_lettered.saturating_sub(1);
        self.last_replay = Some(now);
        self.enter(at, ItemStage::Pending)
    }

    /// Closes the entry of an item: the item is skipped, or successful if its side effects are
    /// made.
    pub(super) fn remove(&mut self, at: u32, how: EntryRemoval) -> Result<(), MisplacedEvent> {
        let item = self.item_mut(at)?;
        let died = item.died;
        match item.stage {
            ItemStage::DeadLettered => {
                self.counts.dead_lettered = self.counts.dead_lettered.saturating_sub(1);
                let stage = match how {
                    EntryRemoval::Dropped | EntryRemoval::Cleared => {
                        self.counts.skipped += 1;
                        ItemStage::Skipped
                    }
                    EntryRemoval::Adopted => {
                        self.counts.successful += 1;
                        if let Some(counted) = died {
                            self.tally.remove(counted);
                        }
                        ItemStage::Successful
                    }
                };
                self.enter(at, stage)
            }
            ItemStage::Successful | ItemStage::Skipped => Ok(()),
            ItemStage::Pending
            | ItemStage::Waiting { .. }
            | ItemStage::Running { .. }
            | ItemStage::Handling { .. }
            | ItemStage::Unhandled(_)
            | ItemStage::Merging(_)
            | ItemStage::Conflicted(_)
            | ItemStage::Resolving { .. } => Err(MisplacedEvent),
        }
    }
}
