//! A snapshot of the fold: a shortcut for readers and for resume, never the truth.

use serde::{Deserialize, Serialize};

use crate::{
    Timestamp,
    event::PhaseName,
    ids::JobId,
    job::{End, Job},
};

/// The version of the file that this build writes.
const VERSION: u32 = 2;

/// The content of `checkpoint.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    version: u32,
    job_id: JobId,
    workflow_file: String,
    phase: Option<PhaseName>,
    items_processed: u32,
    items_total: u32,
    items_remaining: Vec<String>,
    successful_items: u32,
    failed_items: u32,
    started_at: Option<Timestamp>,
    last_checkpoint_at: Timestamp,
    journal: Position,
    job: Job,
}

/// How much of the journal a checkpoint covers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Position {
    seq: u64,
}

impl Checkpoint {
    /// Makes a checkpoint of a job. For a sequential workflow the items are its steps.
    pub fn new(id: &JobId, job: &Job, now: Timestamp) -> Self {
        let started = job.started.as_ref();
        let total = job.steps_in_all();
        let failed = job.failed_steps + u32::from(matches!(job.end, Some(End::Failed { .. })));
        Self {
            version: VERSION,
            job_id: id.clone(),
            workflow_file: started.map(|s| s.workflow_file.clone()).unwrap_or_default(),
            phase: job.phase,
            items_processed: job.done,
            items_total: total,
            items_remaining: (job.done + 1..=total).map(|number| number.to_string()).collect(),
            successful_items: job.done.saturating_sub(job.failed_steps),
            failed_items: failed,
            started_at: job.started_at,
            last_checkpoint_at: now,
            journal: Position { seq: job.seq },
            job: job.clone(),
        }
    }

    /// Returns the number of the last record that the checkpoint covers.
    pub fn covers(&self) -> u64 {
        self.journal.seq
    }

    /// Returns whether this build can read the checkpoint.
    pub fn is_readable(&self) -> bool {
        self.version == VERSION
    }

    /// Returns whether this is what a job comes to, the time of writing aside.
    pub fn agrees_with(&self, id: &JobId, job: &Job) -> bool {
        *self == Self::new(id, job, self.last_checkpoint_at)
    }

    /// Returns the job.
    pub fn into_job(self) -> Job {
        self.job
    }
}
