//! A job whose replays are over and that is not finished.

use prodigy_core::{
    ids::JobId,
    job::{Job, JobOutcome},
};
use prodigy_engine::store::{JournalReader, Layout};

use crate::{
    commands::context::store_error,
    error::{CliError, error_chain},
    exit::Exit,
};

/// Returns whether every item of a job has come to its end and what follows them is still to be
/// done: a replay was killed or stopped between its last item and the merge.
pub(crate) fn is_unfinished(layout: &Layout, job: &JobId) -> Result<bool, CliError> {
    let mut fold = Job::default();
    for record in JournalReader::open(layout, job).map_err(store_error)? {
        let record = record.map_err(store_error)?;
        fold.apply(&record).map_err(|error| CliError::new(Exit::Failure, error_chain(&error)))?;
    }
    let is_over = matches!(fold.end, Some(JobOutcome::Completed(_)));
    Ok(!is_over && fold.map.is_some_and(|map| map.is_finished()))
}
