//! A snapshot of the fold: a shortcut for readers and for resume, never the truth.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Timestamp,
    event::{JobMode, PhaseName},
    ids::JobId,
    job::{Job, JobOutcome},
};

/// The version of the file that this build writes.
const VERSION: u32 = 3;

/// The version whose figures counted the steps of a job with items; its fold is the same.
const COUNTED_STEPS: u32 = 2;

/// The content of `checkpoint.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Checkpoint {
    /// The version of this shape.
    version: u32,
    /// The job.
    #[schemars(with = "String")]
    job_id: JobId,
    /// The workflow's file, as given.
    workflow_file: String,
    /// The phase that is under way, or the one that ended last; `null` before the first.
    phase: Option<PhaseName>,
    /// The number of finished items; of a sequential workflow, of finished steps.
    items_processed: u32,
    /// The number of items; of a sequential workflow, of steps in all rounds.
    items_total: u32,
    /// The ids of the items that are not at their end; of a sequential workflow, the numbers of
    /// the steps.
    items_remaining: Vec<String>,
    /// The number of processed items that succeeded.
    successful_items: u32,
    /// The number of processed items that failed: dead letters and skipped items.
    failed_items: u32,
    /// When the job began.
    started_at: Option<Timestamp>,
    /// When this was written.
    last_checkpoint_at: Timestamp,
    /// The part of the journal that it covers.
    journal: JournalPosition,
    /// The job's state after the records up to there. Only prodigy reads it; its shape may change.
    #[schemars(with = "Value")]
    job: Job,
}

/// The part of the journal that a checkpoint covers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
struct JournalPosition {
    /// The journal's file that was written last.
    #[serde(default)]
    segment: Option<String>,
    /// The number of the last record.
    seq: u64,
}

/// The numbers of a checkpoint.
struct ItemFigures {
    processed: u32,
    total: u32,
    remaining: Vec<String>,
    successful: u32,
    failed: u32,
}

impl ItemFigures {
    fn of(job: &Job) -> Self {
        let is_map = job.started.as_ref().is_some_and(|it| it.mode == JobMode::Mapreduce);
        if is_map { Self::of_items(job) } else { Self::of_steps(job) }
    }

    fn of_items(job: &Job) -> Self {
        // Nothing is known of the items before they are chosen.
        let Some(map) = &job.map else {
            return Self { processed: 0, total: 0, remaining: vec![], successful: 0, failed: 0 };
        };
        let left = map.items.iter().filter(|item| !item.stage.is_final());
        Self {
            processed: map.counts.finished(),
            total: map.total,
            remaining: left.map(|item| item.id.to_string()).collect(),
            successful: map.counts.successful,
            failed: map.counts.failed(),
        }
    }

    fn of_steps(job: &Job) -> Self {
        let total = job.total_steps();
        Self {
            processed: job.done,
            total,
            remaining: (job.done + 1..=total).map(|number| number.to_string()).collect(),
            successful: job.done.saturating_sub(job.failed_steps),
            failed: job.failed_steps
                + u32::from(matches!(job.end, Some(JobOutcome::Failed { .. }))),
        }
    }
}

impl Checkpoint {
    /// Makes a checkpoint of a job; `segment` is the journal's file that was written last.
    pub fn new(id: &JobId, job: &Job, segment: Option<String>, now: Timestamp) -> Self {
        let started = job.started.as_ref();
        let ItemFigures { processed, total, remaining, successful, failed } = ItemFigures::of(job);
        Self {
            version: VERSION,
            job_id: id.clone(),
            workflow_file: started.map(|s| s.workflow_file.clone()).unwrap_or_default(),
            phase: job.phase.or(job.phases_done.last().copied()),
            items_processed: processed,
            items_total: total,
            items_remaining: remaining,
            successful_items: successful,
            failed_items: failed,
            started_at: job.started_at,
            last_checkpoint_at: now,
            journal: JournalPosition { segment, seq: job.seq },
            job: job.clone(),
        }
    }

    /// Returns the number of the last record that the checkpoint covers.
    pub fn covers(&self) -> u64 {
        self.journal.seq
    }

    /// Returns whether this build can read the checkpoint.
    pub fn is_readable(&self) -> bool {
        [VERSION, COUNTED_STEPS].contains(&self.version)
    }

    /// Returns the first thing that it says otherwise than a job, for people; the time of writing
    /// and the journal's file aside.
    pub fn find_mismatch(&self, id: &JobId, job: &Job) -> Option<String> {
        let right = Self::new(id, job, self.journal.segment.clone(), self.last_checkpoint_at);
        if self.job != right.job || self.version == COUNTED_STEPS {
            return (self.job != right.job).then(|| "its fold is another".to_owned());
        }
        let left = |it: &Self| u32::try_from(it.items_remaining.len()).unwrap_or(u32::MAX);
        let figures = [
            ("items_processed", self.items_processed, right.items_processed),
            ("items_total", self.items_total, right.items_total),
            ("items_remaining", left(self), left(&right)),
            ("successful_items", self.successful_items, right.successful_items),
            ("failed_items", self.failed_items, right.failed_items),
        ];
        let wrong = figures.iter().find(|(_, stored, right)| stored != right);
        let wrong = wrong.map(|(name, stored, right)| format!("`{name}` is {stored}, not {right}"));
        wrong.or_else(|| (*self != right).then(|| "it is of another job or phase".to_owned()))
    }

    /// Returns the job.
    pub fn into_job(self) -> Job {
        self.job
    }
}
