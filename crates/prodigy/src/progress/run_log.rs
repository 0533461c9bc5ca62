//! The facts about items in the summary of a run that the fold does not keep.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use prodigy_core::{
    Timestamp,
    event::{CheckoutChange, Event, EventRecord},
    failure::Failure,
    ids::{ItemId, JobId},
    job::{
        AgentWarnings, CostSummary, Job, KeptSummary,
        error_metrics::{ErrorMetrics, ErrorTally},
    },
};
use prodigy_engine::{
    run::Reporter,
    store::{self, JournalReader, Layout},
};

/// The most failed items that are kept one by one.
const MOST_FAILURES: usize = 50;
/// The most kept worktrees that are named.
const MOST_KEPT: usize = 10;
/// The most changes of the user's checkout that are kept one by one.
const MOST_CHANGES: usize = 10;

/// The reported events of a job's items, in bounded memory.
#[derive(Debug, Default)]
pub(crate) struct RunLog {
    /// The first record that was seen.
    first: Option<u64>,
    /// When the last run began.
    began: Option<Timestamp>,
    /// When the last record was written.
    last: Option<Timestamp>,
    /// The first items that failed.
    pub(crate) failures: Vec<FailedItem>,
    /// The number of completed items that left uncommitted files.
    pub(crate) uncommitted: u32,
    /// Where failed items were kept: the first of them.
    pub(crate) kept: Vec<(ItemId, String)>,
    /// All that were kept.
    pub(crate) kept_in_all: BTreeSet<ItemId>,
    /// The first changes in the user's checkout.
    pub(crate) checkout: Vec<CheckoutChange>,
    /// The total number of these changes.
    pub(crate) checkout_in_all: usize,
    /// The costs of agents.
    pub(crate) costs: CostSummary,
    /// The warnings to show although the work was done.
    pub(crate) warnings: AgentWarnings,
    /// The work that was kept outside of the job's commits.
    pub(crate) kept_work: KeptSummary,
    /// Items with files uncommitted whose commits are being merged.
    merging: BTreeSet<ItemId>,
    /// The failures of items, and what they have in common.
    tally: ErrorTally,
    /// The items that failed: how many are in the dead letter queue, how many were left out.
    failed: (u32, u32),
}

/// An item that failed for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailedItem {
    /// The item.
    pub(crate) item: ItemId,
    /// The number of attempts, if it is in the dead letter queue; `None` if it was skipped.
    pub(crate) dead_lettered: Option<u32>,
    /// The failure of the last attempt.
    pub(crate) failure: Failure,
}

impl RunLog {
    /// Applies a record.
    pub(crate) fn apply(&mut self, record: &EventRecord) {
        self.first.get_or_insert(record.seq);
        self.last = Some(record.timestamp);
        self.costs.apply(record);
        self.warnings.apply(record);
        self.kept_work.apply(record);
        if let Event::JobStarted(_) | Event::JobResumed { .. } = &record.event {
            self.began = Some(record.timestamp);
        }
        if let Event::CheckoutChanged { changes } = &record.event {
            self.checkout_in_all += changes.len();
            let room = MOST_CHANGES.saturating_sub(self.checkout.len());
            self.checkout.extend(changes.iter().take(room).cloned());
        }
        let Some(item) = &record.item_id else { return };
        match &record.event {
            Event::AgentCompleted(done) if done.uncommitted > 0 => {
                if done.has_commits() {
                    self.merging.insert(item.clone());
                } else {
                    self.uncommitted += 1;
                }
            }
            Event::WorktreeMerged { .. } => {
                self.uncommitted += u32::from(self.merging.remove(item));
            }
            Event::AgentRetrying { .. } => drop(self.merging.remove(item)),
            Event::ItemSkipped { failure, .. } => self.add_failure(item, None, failure),
            Event::ItemDeadLettered { attempts, failure } => {
                self.merging.remove(item);
                self.add_failure(item, Some(*attempts), failure);
            }
            Event::ReplayStarted { .. } => {
                self.failures.retain(|failed| failed.item != *item);
                self.kept.retain(|(kept, _)| kept != item);
                self.kept_in_all.remove(item);
            }
            // Without a path it could not be kept.
            Event::WorktreePreserved { path, .. } if !path.is_empty() => {
                self.kept_in_all.insert(item.clone());
                if self.kept.len() < MOST_KEPT {
                    self.kept.push((item.clone(), path.clone()));
                }
            }
            Event::JobStarted(_)
            | Event::JobResumed { .. }
            | Event::JobPaused { .. }
            | Event::JobCompleted { .. }
            | Event::JobFailed { .. }
            | Event::PhaseStarted { .. }
            | Event::PhaseCompleted { .. }
            | Event::ItemsSelected { .. }
            | Event::ItemQueued {}
            | Event::AgentStarted { .. }
            | Event::AgentCompleted(_)
            | Event::AgentFailed(_)
            | prodigy_core::circuit_news!()
            | Event::StepStarted { .. }
            | Event::StepCompleted(_)
            | Event::StepFailed { .. }
            | Event::StepSkipped { .. }
            | Event::AgentUsage { .. }
            | prodigy_core::agent_news!()
            | Event::AgentReleased { .. }
            | prodigy_core::spending_news!()
            | Event::WorktreeCreated { .. }
            | Event::WorktreePreserved { .. }
            | Event::WorktreeCleaned { .. }
            | Event::WorkKept(_)
            | Event::MergeConflict { .. }
            | prodigy_core::resolution_news!()
            | Event::GitTampering { .. }
            | Event::CheckoutUpdateStarted(_)
            | prodigy_core::checkout_news!()
            | Event::DlqItemRemoved { .. }
            | Event::DlqItemUpdated { .. }
            | prodigy_core::approval_news!()
            | prodigy_core::effect_news!()
            | Event::JournalEndLost { .. }
            | Event::CheckpointCreated { .. } => {}
        }
    }

    /// Returns why items failed in the records that were seen.
    pub(crate) fn metrics(&self) -> ErrorMetrics {
        let (dead_lettered, skipped) = self.failed;
        let in_all = u64::from(dead_lettered) + u64::from(skipped);
        self.tally.metrics(in_all, 0, dead_lettered.into(), skipped.into())
    }

    fn add_failure(&mut self, item: &ItemId, dead_lettered: Option<u32>, failure: &Failure) {
        self.tally.add(failure, item);
        match dead_lettered {
            Some(_) => self.failed.0 += 1,
            None => self.failed.1 += 1,
        }
        if self.failures.len() < MOST_FAILURES {
            let (item, failure) = (item.clone(), failure.clone());
            self.failures.push(FailedItem { item, dead_lettered, failure });
        }
    }

    /// Returns the notebook of the whole job, also of what earlier runs of it recorded.
    pub(crate) fn with_earlier_runs(
        self,
        layout: &Layout,
        job: &JobId,
    ) -> Result<Self, store::Error> {
        if self.first.is_none_or(|first| first == 1) {
            return Ok(self);
        }
        Self::of_job(layout, job)
    }

    /// Returns the notebook of a job, of all that its journal says.
    pub(crate) fn of_job(layout: &Layout, job: &JobId) -> Result<Self, store::Error> {
        let mut whole = Self::default();
        for record in JournalReader::open(layout, job)? {
            whole.apply(&record?);
        }
        Ok(whole)
    }

    /// Returns how long the last run took.
    pub(crate) fn elapsed(&self) -> Duration {
        let (Some(began), Some(last)) = (self.began, self.last) else { return Duration::ZERO };
        Duration::try_from(last.duration_since(began)).unwrap_or_default()
    }
}

/// Keeps a notebook while somebody else shows the run.
pub(crate) struct RunLogReporter {
    notebook: Arc<Mutex<RunLog>>,
    shown: Box<dyn Reporter>,
}

impl RunLogReporter {
    /// Returns a reporter that keeps a notebook, and the notebook.
    pub(crate) fn wrap(shown: Box<dyn Reporter>) -> (Box<dyn Reporter>, Arc<Mutex<RunLog>>) {
        let notebook = Arc::new(Mutex::new(RunLog::default()));
        (Box::new(Self { notebook: Arc::clone(&notebook), shown }), notebook)
    }
}

/// Returns the notebook for itself.
pub(crate) fn take_run_log(notebook: &Mutex<RunLog>) -> RunLog {
    std::mem::take(&mut *lock_run_log(notebook))
}

fn lock_run_log(notebook: &Mutex<RunLog>) -> MutexGuard<'_, RunLog> {
    notebook.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Reporter for RunLogReporter {
    fn record(&mut self, record: &EventRecord, job: &Job) {
        lock_run_log(&self.notebook).apply(record);
        self.shown.record(record, job);
    }

    fn note(&mut self, note: &str) {
        self.shown.note(note);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::job_fixture::JobFixture;

    #[test]
    fn files_left_uncommitted_count_once_the_item_is_done() {
        let mut told = JobFixture::new(4);
        told.start(1, 1, 1);
        told.complete(1, 1, "c0", 3);
        told.start(2, 1, 1);
        told.complete(2, 1, "c1", 1);
        told.start(3, 1, 1);
        told.complete(3, 1, "c0", 0);
        let count = |told: &JobFixture| {
            let mut notebook = RunLog::default();
            told.records.iter().for_each(|record| notebook.apply(record));
            notebook.uncommitted
        };
        assert_eq!(count(&told), 1, "item 2 may still conflict");
        told.merge(2);
        assert_eq!(count(&told), 2);
    }

    #[test]
    fn the_ledger_of_many_failures_stays_small() {
        let mut told = JobFixture::new(200);
        for item in 1..=200 {
            told.start(item, 1, 1);
            told.fail(item, 1, if item % 2 == 0 { "skip" } else { "dead_letter" }, "exit code 1");
            let kept = serde_json::json!({
                "event_type": "worktree_preserved", "path": format!("refs/{item}"), "reason": "",
            });
            told.emit_for_item(item, Some(1), kept);
        }
        let mut notebook = RunLog::default();
        told.records.iter().for_each(|record| notebook.apply(record));
        assert_eq!((notebook.failures.len(), notebook.kept.len()), (MOST_FAILURES, MOST_KEPT));
        assert_eq!(notebook.kept_in_all.len(), 200);
        assert_eq!(notebook.failures[1].dead_lettered, None);
        assert_eq!(notebook.failures[2].dead_lettered, Some(1));
    }
}
