//! The ends of the replays of one run.

use prodigy_core::job::{ItemStage, Job};

/// The number of replays of a run, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayCounts {
    /// Done.
    pub resolved: u32,
    /// Back in the dead letter queue.
    pub dead_lettered: u32,
    /// Left to the next run.
    pub waiting: u32,
}

/// The number of items that were ever replayed, by stage.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReplayedItems {
    resolved: u32,
    skipped: u32,
    waiting: u32,
}

impl ReplayedItems {
    /// Counts the items of a job.
    pub(crate) fn of(job: &Job) -> Self {
        let mut counted = Self::default();
        let items = job.map.iter().flat_map(|map| &map.items);
        for item in items.filter(|item| item.replays > 0) {
            match item.stage {
                ItemStage::Successful => counted.resolved += 1,
                ItemStage::Skipped => counted.skipped += 1,
                ItemStage::DeadLettered => {}
                ItemStage::Pending
                | ItemStage::Waiting { .. }
                | ItemStage::Running { .. }
                | ItemStage::Handling { .. }
                | ItemStage::Unhandled(_)
                | ItemStage::Merging(_)
                | ItemStage::Conflicted(_)
                | ItemStage::Resolving { .. } => counted.waiting += 1,
            }
        }
        counted
    }

    /// Returns what a run came to that claimed so many and leaves this.
    pub(crate) fn counts_until(self, after: Self, claimed: u32) -> ReplayCounts {
        let resolved = after.resolved.saturating_sub(self.resolved);
        let skipped = after.skipped.saturating_sub(self.skipped);
        let others = resolved + skipped + after.waiting;
        let dead_lettered = (self.waiting + claimed).saturating_sub(others);
        ReplayCounts { resolved, dead_lettered, waiting: after.waiting }
    }
}
