//! The items of a job: what its events add up to.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{
    FailedAttempt, FailedStepKinds, ItemCounts, PreviousFailure, SuspendedWork,
    item_index::ItemIndex,
};
use crate::{
    Timestamp,
    effect::EffectLedger,
    ids::{AgentId, ItemId},
    job::error_metrics::{CountedFailure, ErrorTally},
    policy::{CircuitBreaker, FailureCounter},
};

/// The items of a job, as far as its events tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredMapState")]
pub struct MapState {
    /// The number of selected items.
    pub total: u32,
    /// The SHA-256 of the file that holds them.
    pub sha256: String,
    /// The items, in the order chosen.
    pub items: Vec<ItemState>,
    /// The number of finished items per outcome.
    pub counts: ItemCounts,
    /// The counts that the limits of the error policy are checked against.
    pub judged: FailureCounter,
    /// The circuit breaker.
    pub breaker: CircuitBreaker,
    /// The counts of failures by error type and pattern.
    #[serde(default)]
    pub tally: ErrorTally,
    /// The places of the items whose worktrees were kept as they are.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub kept: BTreeSet<u32>,
    /// The places of the items of whose last attempt something was kept, in whatever form.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub secured: BTreeSet<u32>,
    /// When a dead letter was last claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_replay: Option<Timestamp>,
    /// The maximum number of attempts in flight, if a provider lacked capacity for more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<u32>,
    /// When that was last made less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_at: Option<Timestamp>,
    #[serde(skip)]
    pub(crate) index: ItemIndex,
}

/// The fields of [`MapState`] that are stored on disk; the rest follows from them.
#[derive(Deserialize)]
struct StoredMapState {
    total: u32,
    sha256: String,
    items: Vec<ItemState>,
    counts: ItemCounts,
    judged: FailureCounter,
    breaker: CircuitBreaker,
    #[serde(default)]
    tally: ErrorTally,
    #[serde(default)]
    kept: BTreeSet<u32>,
    #[serde(default)]
    secured: BTreeSet<u32>,
    #[serde(default)]
    last_replay: Option<Timestamp>,
    #[serde(default)]
    ceiling: Option<u32>,
    #[serde(default)]
    cut_at: Option<Timestamp>,
}

/// One item of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ItemState {
    /// Its id.
    pub id: ItemId,
    /// Where it stands.
    pub stage: ItemStage,
    /// The number of attempts that ended.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempts: u32,
    /// The number of attempts that failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed: u32,
    /// The number of conflicts of its commits with what was merged meanwhile.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub conflicts: u32,
    /// The number of replays from the dead letter queue.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub replays: u32,
    /// The last failure for good, if it was ever in the dead letter queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub died: Option<CountedFailure>,
    /// The number of times that prodigy crashed while it was in flight.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u32,
    /// Set if the last attempt that was cut off was stopped, rather than lost in a crash.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_stopped: bool,
    /// The failed steps of the attempt that succeeded, until its commits are merged.
    #[serde(default, skip_serializing_if = "FailedStepKinds::is_none")]
    pub failed_steps: FailedStepKinds,
    /// The name of its work over all attempts, once there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// The side effects of its steps, as far as they were declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger: Option<Box<EffectLedger>>,
    /// The SHA-256 of the data that took the place of what was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited: Option<Box<str>>,
    /// The cost that agents reported over all its attempts.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub cost_usd: f64,
    /// The previous failures, as context for the next attempt; the last one is the latest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setbacks: Vec<PreviousFailure>,
    /// The work on it that was cut off and goes on from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<Box<SuspendedWork>>,
}

impl ItemState {
    /// Returns whether something outside may have been changed without anybody knowing.
    pub fn has_open_effects(&self) -> bool {
        self.ledger.as_ref().is_some_and(|ledger| ledger.is_open())
    }

    /// Counts a start of suspended work, if there is any.
    pub(crate) fn start_suspended(&mut self) {
        if let Some(work) = &mut self.suspended {
            work.starts = work.starts.saturating_add(1);
        }
    }
}

/// Where an item stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemStage {
    /// It waits for a free agent.
    Pending,
    /// It waits to be tried again.
    Waiting {
        /// When that may be.
        retry_at: Timestamp,
    },
    /// An attempt is under way.
    Running {
        /// The agent that makes it.
        agent: AgentId,
        /// Set if it probes a half-open circuit.
        #[serde(default)]
        probe: bool,
    },
    /// The handler of the error policy is under way.
    Handling {
        /// The agent that runs it.
        agent: AgentId,
        /// The failed attempt that it handles; left out by older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failed: Option<Box<FailedAttempt>>,
    },
    /// The handler of the error policy was cut off, and has to run once more.
    Unhandled(Box<FailedAttempt>),
    /// It succeeded, and its commits are about to be merged.
    Merging(Box<CommitRange>),
    /// Its commits conflict, and it waits for an agent to resolve that.
    Conflicted(Box<MergeConflict>),
    /// An agent resolves the conflict of its commits.
    Resolving {
        /// In whose worktree.
        agent: AgentId,
        /// The conflict.
        conflict: Box<MergeConflict>,
    },
    /// It is done.
    Successful,
    /// It is in the dead letter queue.
    DeadLettered,
    /// It was left out.
    Skipped,
}

/// Commits on their way into the job's branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitRange {
    /// The commit that the attempt started from.
    pub base: String,
    /// The commit that it ended at.
    pub head: String,
    /// The number of commits.
    pub commits: u64,
}

/// Commits that cannot be merged as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeConflict {
    /// The commits.
    pub commits: CommitRange,
    /// The paths in conflict.
    pub paths: Vec<String>,
}

impl MapState {
    /// Begins with the items that were chosen.
    pub(crate) fn new(total: u32, sha256: &str) -> Self {
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

    /// Returns the places of the items that can start now: those with a conflict come first,
    /// which grows with time, then those whose handler was cut off, then those that waited to be
    /// tried again, then the others in the order chosen.
    pub fn ready(&self, now: Timestamp) -> impl Iterator<Item = u32> {
        let waited = self.index.waiting.range(..=(now, u32::MAX)).map(|(_, at)| *at);
        let conflicted = self.index.conflicted.iter().copied();
        let unhandled = self.index.unhandled.iter().copied();
        conflicted.chain(unhandled).chain(waited).chain(self.index.pending.iter().copied())
    }

    /// Returns the items that wait for an agent to resolve their conflicts.
    pub fn conflicts(&self) -> impl Iterator<Item = (&ItemState, &MergeConflict)> {
        self.index.conflicted.iter().filter_map(|at| {
            let item = self.item(*at)?;
            if let ItemStage::Conflicted(conflict) = &item.stage {
                Some((item, &**conflict))
            } else {
                None
            }
        })
    }

    /// Returns whether an item waits for an agent to resolve its conflict.
    pub fn has_conflicts(&self) -> bool {
        !self.index.conflicted.is_empty()
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
        let ItemIndex { pending, waiting, conflicted, unhandled, .. } = &self.index;
        let waiting = pending.len() + waiting.len() + conflicted.len() + unhandled.len();
        u32::try_from(waiting).unwrap_or(u32::MAX)
    }

    /// Returns how many items are under way, merges included.
    pub fn in_flight(&self) -> u32 {
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
            matches!(stage, Some(ItemStage::Running { probe: true, .. }))
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
        let known = self.counts.finished() + self.pending() + self.in_flight() + unqueued;
        let ItemCounts { recovered, ignored, .. } = self.counts;
        let mut recount = ItemCounts { recovered, ignored, ..ItemCounts::default() };
        for item in &self.items {
            match item.stage {
                ItemStage::Successful => recount.successful += 1,
                ItemStage::DeadLettered => recount.dead_lettered += 1,
                ItemStage::Skipped => recount.skipped += 1,
                ItemStage::Pending
                | ItemStage::Waiting { .. }
                | ItemStage::Running { .. }
                | ItemStage::Handling { .. }
                | ItemStage::Unhandled(_)
                | ItemStage::Merging(_)
                | ItemStage::Conflicted(_)
                | ItemStage::Resolving { .. } => {}
            }
        }
        known == self.total && recount == self.counts
    }
}

impl From<StoredMapState> for MapState {
    fn from(stored: StoredMapState) -> Self {
        let StoredMapState { total, sha256, items, counts, judged, breaker, .. } = stored;
        let StoredMapState { tally, kept, secured, last_replay, ceiling, cut_at, .. } = stored;
        let mut index = ItemIndex::default();
        for (at, item) in (0..).zip(&items) {
            index.by_id.insert(item.id.clone(), at);
            index.insert(at, &item.stage, item.replays > 0);
            index.reserved.extend(item.suspended.as_ref().and_then(|work| work.agent));
        }
        Self {
            total,
            sha256,
            items,
            counts,
            judged,
            breaker,
            tally,
            kept,
            secured,
            last_replay,
            ceiling,
            cut_at,
            index,
        }
    }
}

/// Returns whether a sum need not be written.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_nothing(sum: &f64) -> bool {
    *sum == 0.0
}

/// Returns whether a number need not be written.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
