//! The ends of the replays of one run.

use prodigy_core::job::{Job, Stage};

/// The number of replays of a run, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayEnds {
    /// Done.
    pub resolved: u32,
    /// Back in the dead letter queue.
    pub dead_lettered: u32,
    /// Left to the next run.
    pub waiting: u32,
}

/// The number of items that were ever replayed, by stage.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReplayedItems {
    resolved: u32,
    skipped: u32,
    waiting: u32,
}

impl ReplayedItems {
    /// Counts the items of a job.
    pub(super) fn of(job: &Job) -> Self {
        let mut counted = Self::default();
        let items = job.map.iter().flat_map(|map| &map.items);
        for item in items.filter(|item| item.replays > 0) {
            match item.stage {
                Stage::Successful => counted.resolved += 1,
                Stage::Skipped => counted.skipped += 1,
                Stage::DeadLettered => {}
                Stage::Pending
                | Stage::Waiting { .. }
                | Stage::Running { .. }
                | Stage::Handling { .. }
                | Stage::Unhandled(_)
                | Stage::Merging(_)
                | Stage::Conflicted(_)
                | Stage::Resolving { .. } => counted.waiting += 1,
            }
        }
        counted
    }

    /// Returns what a run came to that claimed so many and leaves this.
    pub(super) fn until(self, after: Self, claimed: u32) -> ReplayEnds {
        let resolved = after.resolved.saturating_sub(self.resolved);
        let skipped = after.skipped.saturating_sub(self.skipped);
        let others = resolved + skipped + after.waiting;
        let dead_lettered = (self.waiting + claimed).saturating_sub(others);
        ReplayEnds { resolved, dead_lettered, waiting: after.waiting }
    }
}
