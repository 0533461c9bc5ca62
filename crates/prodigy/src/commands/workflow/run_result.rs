//! The end of a run of a job.

use prodigy_core::job::{Job, RunOutcome};
use prodigy_engine::run::ReplaySummary;

/// The end of a run.
pub(crate) struct RunResult {
    pub(crate) ending: RunOutcome,
    pub(crate) state: Job,
    pub(crate) replayed: ReplaySummary,
    /// False if the job was over before.
    pub(crate) is_new: bool,
}

impl RunResult {
    pub(crate) fn of((ending, state, replayed): (RunOutcome, Job, ReplaySummary)) -> Self {
        Self { ending, state, replayed, is_new: true }
    }

    /// Returns the end of a job that was over before: it is the same again.
    pub(crate) fn already_completed(state: Job) -> Self {
        let replayed = ReplaySummary::default();
        Self { ending: RunOutcome::Completed, state, replayed, is_new: false }
    }
}
