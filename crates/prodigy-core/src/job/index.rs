//! Where items are that are under way.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::map::Stage;
use crate::{
    Timestamp,
    ids::{AgentId, ItemId},
};

/// Where the items are that are under way, so that nobody has to look for them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Index {
    pub(super) by_id: HashMap<ItemId, u32>,
    pub(super) pending: BTreeSet<u32>,
    pub(super) waiting: BTreeSet<(Timestamp, u32)>,
    pub(super) running: BTreeMap<AgentId, u32>,
    pub(super) merging: BTreeSet<u32>,
    pub(super) conflicted: BTreeSet<u32>,
    /// Those whose handler was cut off.
    pub(super) unhandled: BTreeSet<u32>,
    /// The agents whose worktrees hold suspended work of items.
    pub(super) reserved: BTreeSet<AgentId>,
    /// Those that were claimed from the dead letter queue and have not ended.
    pub(super) replaying: BTreeSet<u32>,
}

impl Index {
    pub(super) fn forget(&mut self, at: u32, stage: &Stage) {
        self.replaying.remove(&at);
        match stage {
            Stage::Pending => drop(self.pending.remove(&at)),
            Stage::Waiting { retry_at } => drop(self.waiting.remove(&(*retry_at, at))),
            Stage::Running { agent, .. }
            | Stage::Handling { agent, .. }
            | Stage::Resolving { agent, .. } => {
                self.running.remove(agent);
            }
            Stage::Merging(_) => drop(self.merging.remove(&at)),
            Stage::Conflicted(_) => drop(self.conflicted.remove(&at)),
            Stage::Unhandled(_) => drop(self.unhandled.remove(&at)),
            Stage::Successful | Stage::DeadLettered | Stage::Skipped => {}
        }
    }

    pub(super) fn learn(&mut self, at: u32, stage: &Stage, is_replay: bool) {
        let is_over = matches!(stage, Stage::Successful | Stage::DeadLettered | Stage::Skipped);
        if is_replay && !is_over {
            self.replaying.insert(at);
        }
        match stage {
            Stage::Pending => drop(self.pending.insert(at)),
            Stage::Waiting { retry_at } => drop(self.waiting.insert((*retry_at, at))),
            Stage::Running { agent, .. }
            | Stage::Handling { agent, .. }
            | Stage::Resolving { agent, .. } => {
                self.running.insert(*agent, at);
            }
            Stage::Merging(_) => drop(self.merging.insert(at)),
            Stage::Conflicted(_) => drop(self.conflicted.insert(at)),
            Stage::Unhandled(_) => drop(self.unhandled.insert(at)),
            Stage::Successful | Stage::DeadLettered | Stage::Skipped => {}
        }
    }
}

impl Stage {
    /// Returns whether the item is at its end.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Successful | Self::DeadLettered | Self::Skipped)
    }
}
