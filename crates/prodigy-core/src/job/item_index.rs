//! Where items are that are under way.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::map_state::ItemStage;
use crate::{
    Timestamp,
    ids::{AgentId, ItemId},
};

/// Where the items are that are under way, so that nobody has to look for them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ItemIndex {
    pub(crate) by_id: HashMap<ItemId, u32>,
    pub(crate) pending: BTreeSet<u32>,
    pub(crate) waiting: BTreeSet<(Timestamp, u32)>,
    pub(crate) running: BTreeMap<AgentId, u32>,
    pub(crate) merging: BTreeSet<u32>,
    pub(crate) conflicted: BTreeSet<u32>,
    /// Those whose handler was cut off.
    pub(crate) unhandled: BTreeSet<u32>,
    /// The agents whose worktrees hold suspended work of items.
    pub(crate) reserved: BTreeSet<AgentId>,
    /// Those that were claimed from the dead letter queue and have not ended.
    pub(crate) replaying: BTreeSet<u32>,
}

impl ItemIndex {
    pub(crate) fn remove(&mut self, at: u32, stage: &ItemStage) {
        self.replaying.remove(&at);
        match stage {
            ItemStage::Pending => drop(self.pending.remove(&at)),
            ItemStage::Waiting { retry_at } => drop(self.waiting.remove(&(*retry_at, at))),
            ItemStage::Running { agent, .. }
            | ItemStage::Handling { agent, .. }
            | ItemStage::Resolving { agent, .. } => {
                self.running.remove(agent);
            }
            ItemStage::Merging(_) => drop(self.merging.remove(&at)),
            ItemStage::Conflicted(_) => drop(self.conflicted.remove(&at)),
            ItemStage::Unhandled(_) => drop(self.unhandled.remove(&at)),
            ItemStage::Successful | ItemStage::DeadLettered | ItemStage::Skipped => {}
        }
    }

    pub(crate) fn insert(&mut self, at: u32, stage: &ItemStage, is_replay: bool) {
        let is_over =
            matches!(stage, ItemStage::Successful | ItemStage::DeadLettered | ItemStage::Skipped);
        if is_replay && !is_over {
            self.replaying.insert(at);
        }
        match stage {
            ItemStage::Pending => drop(self.pending.insert(at)),
            ItemStage::Waiting { retry_at } => drop(self.waiting.insert((*retry_at, at))),
            ItemStage::Running { agent, .. }
            | ItemStage::Handling { agent, .. }
            | ItemStage::Resolving { agent, .. } => {
                self.running.insert(*agent, at);
            }
            ItemStage::Merging(_) => drop(self.merging.insert(at)),
            ItemStage::Conflicted(_) => drop(self.conflicted.insert(at)),
            ItemStage::Unhandled(_) => drop(self.unhandled.insert(at)),
            ItemStage::Successful | ItemStage::DeadLettered | ItemStage::Skipped => {}
        }
    }
}

impl ItemStage {
    /// Returns whether the item is at its end.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Successful | Self::DeadLettered | Self::Skipped)
    }
}
