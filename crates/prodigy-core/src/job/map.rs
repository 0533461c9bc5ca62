//! The items of a job: what its events add up to.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use crate::{
    Timestamp,
    effect::Ledger,
    ids::{AgentId, ItemId},
    metrics::{Counted, Tally},
    policy::{Breaker, Judged},
};

/// The items of a job, as far as its events tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Stored")]
pub struct MapState {
    /// How many items were chosen.
    pub total: u32,
    /// The SHA-256 of the file that holds them.
    pub sha256: String,
    /// The items, in the order chosen.
    pub items: Vec<ItemState>,
    /// How the items ended that did.
    pub counts: ItemCounts,
    /// What the limits of the error policy are judged by.
    pub judged: Judged,
    /// The circuit breaker.
    pub breaker: Breaker,
    /// Why items failed.
    #[serde(default)]
    pub tally: Tally,
    /// The places of the items whose worktrees were kept as they are.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub kept: BTreeSet<u32>,
    /// When a dead letter was last claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_replay: Option<Timestamp>,
    #[serde(skip)]
    pub(super) index: Index,
}

/// What [`MapState`] keeps on disk; the rest follows from it.
#[derive(Deserialize)]
struct Stored {
    total: u32,
    sha256: String,
    items: Vec<ItemState>,
    counts: ItemCounts,
    judged: Judged,
    breaker: Breaker,
    #[serde(default)]
    tally: Tally,
    #[serde(default)]
    kept: BTreeSet<u32>,
    #[serde(default)]
    last_replay: Option<Timestamp>,
}

/// Where the items are that are under way, so that nobody has to look for them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Index {
    pub(super) by_id: HashMap<ItemId, u32>,
    pub(super) pending: BTreeSet<u32>,
    pub(super) waiting: BTreeSet<(Timestamp, u32)>,
    pub(super) running: BTreeMap<AgentId, u32>,
    pub(super) merging: BTreeSet<u32>,
    /// Those that were claimed from the dead letter queue and have not ended.
    pub(super) replaying: BTreeSet<u32>,
}

/// One item of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ItemState {
    /// Its id.
    pub id: ItemId,
    /// Where it stands.
    pub stage: Stage,
    /// How many attempts came to an end.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempts: u32,
    /// How many of them failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed: u32,
    /// How often its commits conflicted with what was merged meanwhile.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub conflicts: u32,
    /// How often it was replayed from the dead letter queue.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub replays: u32,
    /// How it died last, if it was ever in the dead letter queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub died: Option<Counted>,
    /// How often prodigy died while it was under way.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u32,
    /// The name of its work over all attempts, once there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// What its steps changed outside, as far as that was declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger: Option<Box<Ledger>>,
    /// The SHA-256 of the data that took the place of what was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited: Option<Box<str>>,
}

impl ItemState {
    /// Returns whether something outside may have been changed without anybody knowing.
    pub fn is_uncertain(&self) -> bool {
        self.ledger.as_ref().is_some_and(|ledger| ledger.is_open())
    }
}

/// Where an item stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// It waits for a free agent.
    Pending,
    /// It waits to be tried again.
    Waiting {
        /// When that may be.
        retry_at: Timestamp,
    },
    /// An attempt is under way.
    Running {
        /// Who makes it.
        agent: AgentId,
        /// Whether it shows if the circuit can be closed.
        #[serde(default)]
        probe: bool,
    },
    /// The handler of the error policy is under way.
    Handling {
        /// Who runs it.
        agent: AgentId,
    },
    /// It succeeded, and its commits are about to be merged.
    Merging(Box<Merging>),
    /// It is done.
    Successful,
    /// It is in the dead letter queue.
    DeadLettered,
    /// It was left out.
    Skipped,
}

/// Commits on their way into the job's branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merging {
    /// The commit that the attempt started from.
    pub base: String,
    /// The commit that it ended at.
    pub head: String,
    /// How many commits there are.
    pub commits: u64,
}

/// How many items ended in which way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemCounts {
    /// Done.
    pub successful: u32,
    /// Done, although a step failed on the way; part of `successful`.
    pub recovered: u32,
    /// In the dead letter queue.
    pub dead_lettered: u32,
    /// Left out.
    pub skipped: u32,
}

impl ItemCounts {
    /// Returns how many items ended.
    pub fn finished(self) -> u32 {
        self.successful + self.failed()
    }

    /// Returns how many items ended without being done.
    pub fn failed(self) -> u32 {
        self.dead_lettered + self.skipped
    }
}

impl MapState {
    /// Begins with the items that were chosen.
    pub(super) fn new(total: u32, sha256: &str) -> Self {
        Self { total, sha256: sha256.to_owned(), ..Self::default() }
    }

    /// Returns the item with an id, and its place.
    pub fn find(&self, id: &ItemId) -> Option<(u32, &ItemState)> {
        let at = *self.index.by_id.get(id)?;
        Some((at, self.item(at)?))
    }

    /// Returns the item at a place, from 0.
    pub fn item(&self, at: u32) -> Option<&ItemState> {
        self.items.get(usize::try_from(at).ok()?)
    }

    /// Returns the places of the items that can start now: those that waited to be tried
    /// again come first, the others in the order chosen.
    pub fn ready(&self, now: Timestamp) -> impl Iterator<Item = u32> {
        let waited = self.index.waiting.range(..=(now, u32::MAX)).map(|(_, at)| *at);
        waited.chain(self.index.pending.iter().copied())
    }

    /// Returns when the next item that waits to be tried again may start.
    pub fn next_retry(&self) -> Option<Timestamp> {
        self.index.waiting.first().map(|(at, _)| *at)
    }

    /// Returns the agents that are busy, and the places of their items.
    pub fn running(&self) -> &BTreeMap<AgentId, u32> {
        &self.index.running
    }

    /// Returns the places of the items whose commits are about to be merged.
    pub fn merging(&self) -> &BTreeSet<u32> {
        &self.index.merging
    }

    /// Returns how many items wait, for an agent or to be tried again.
    pub fn pending(&self) -> u32 {
        let waiting = self.index.pending.len() + self.index.waiting.len();
        u32::try_from(waiting).unwrap_or(u32::MAX)
    }

    /// Returns how many items are under way, merges included.
    pub fn under_way(&self) -> u32 {
        let busy = self.index.running.len() + self.index.merging.len();
        u32::try_from(busy).unwrap_or(u32::MAX)
    }

    /// Returns how many items were claimed from the dead letter queue and have not ended.
    pub fn replaying(&self) -> u32 {
        u32::try_from(self.index.replaying.len()).unwrap_or(u32::MAX)
    }

    /// Returns whether an item was claimed from the dead letter queue and has not ended.
    pub fn is_replaying(&self, at: u32) -> bool {
        self.index.replaying.contains(&at)
    }

    /// Returns how many attempts show whether the circuit can be closed.
    pub fn probes(&self) -> u32 {
        let is_probe = |at: &&u32| {
            let stage = self.item(**at).map(|item| &item.stage);
            matches!(stage, Some(Stage::Running { probe: true, .. }))
        };
        u32::try_from(self.index.running.values().filter(is_probe).count()).unwrap_or(u32::MAX)
    }

    /// Returns whether all items were queued that were chosen.
    pub fn is_queued(&self) -> bool {
        self.items.len() >= usize::try_from(self.total).unwrap_or(usize::MAX)
    }

    /// Returns whether every item has come to its end.
    pub fn is_finished(&self) -> bool {
        self.is_queued() && self.counts.finished() == self.total
    }

    /// Returns whether every item is accounted for exactly once:
    /// total = successful + dead-lettered + skipped + pending + running.
    pub fn is_conserved(&self) -> bool {
        let queued = u32::try_from(self.items.len()).unwrap_or(u32::MAX);
        let unqueued = self.total.saturating_sub(queued);
        let known = self.counts.finished() + self.pending() + self.under_way() + unqueued;
        let mut recount = ItemCounts { recovered: self.counts.recovered, ..ItemCounts::default() };
        for item in &self.items {
            match item.stage {
                Stage::Successful => recount.successful += 1,
                Stage::DeadLettered => recount.dead_lettered += 1,
                Stage::Skipped => recount.skipped += 1,
                Stage::Pending
                | Stage::Waiting { .. }
                | Stage::Running { .. }
                | Stage::Handling { .. }
                | Stage::Merging(_) => {}
            }
        }
        known == self.total && recount == self.counts
    }
}

impl Index {
    pub(super) fn forget(&mut self, at: u32, stage: &Stage) {
        self.replaying.remove(&at);
        match stage {
            Stage::Pending => drop(self.pending.remove(&at)),
            Stage::Waiting { retry_at } => drop(self.waiting.remove(&(*retry_at, at))),
            Stage::Running { agent, .. } | Stage::Handling { agent } => {
                self.running.remove(agent);
            }
            Stage::Merging(_) => drop(self.merging.remove(&at)),
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
            Stage::Running { agent, .. } | Stage::Handling { agent } => {
                self.running.insert(*agent, at);
            }
            Stage::Merging(_) => drop(self.merging.insert(at)),
            Stage::Successful | Stage::DeadLettered | Stage::Skipped => {}
        }
    }
}

impl From<Stored> for MapState {
    fn from(stored: Stored) -> Self {
        let Stored { total, sha256, items, counts, judged, breaker, tally, kept, last_replay } =
            stored;
        let mut index = Index::default();
        for (at, item) in (0..).zip(&items) {
            index.by_id.insert(item.id.clone(), at);
            index.learn(at, &item.stage, item.replays > 0);
        }
        Self { total, sha256, items, counts, judged, breaker, tally, kept, last_replay, index }
    }
}

/// Returns whether a number need not be written.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
