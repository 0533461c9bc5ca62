//! The end of a run of a job.

use prodigy_core::job::{Ending, Job};
use prodigy_engine::run::Replayed;

/// The end of a run.
pub(super) struct RunEnd {
    pub(super) ending: Ending,
    pub(super) state: Job,
    pub(super) replayed: Replayed,
    /// False if the job was over before.
    pub(super) is_new: bool,
}

impl RunEnd {
    pub(super) fn of((ending, state, replayed): (Ending, Job, Replayed)) -> Self {
        Self { ending, state, replayed, is_new: true }
    }

    /// Returns the end of a job that was over before: it is the same again.
    pub(super) fn before(state: Job) -> Self {
        let replayed = Replayed::default();
        Self { ending: Ending::Completed, state, replayed, is_new: false }
    }
}
