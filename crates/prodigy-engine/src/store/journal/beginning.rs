//! Jobs that were killed before their first record was on disk.
//!
//! Nothing runs before that record, so such a job did nothing: its id is free, and what is there
//! of it can be removed.

use prodigy_core::ids::JobId;

use super::{
    reader::{JournalReader, ReadOutcome},
    segment::{self, JournalSegment},
};
use crate::store::{Error, Layout, files};

/// Returns whether something of a job is on record, or was done.
///
/// A journal without a whole record beside work that only a job which began can have left is
/// damaged, and its job is not taken for a new one.
pub fn has_begun(layout: &Layout, job: &JobId) -> Result<bool, Error> {
    Ok(has_records(layout, job)? || has_traces(layout, job))
}

/// Returns whether the journal holds something besides a first record that was cut off.
fn has_records(layout: &Layout, job: &JobId) -> Result<bool, Error> {
    let segments = segment::list_segments(&layout.events_dir(job))?;
    if segments.len() != 1 {
        return Ok(!segments.is_empty());
    }
    match JournalReader::open(layout, job)?.read_next() {
        Ok(ReadOutcome::End | ReadOutcome::Torn(_)) => Ok(false),
        Ok(ReadOutcome::Record(_) | ReadOutcome::Passed) | Err(_) => Ok(true),
    }
}

/// Returns whether there is something that is made only after the first record.
fn has_traces(layout: &Layout, job: &JobId) -> bool {
    let made_later = [
        layout.checkpoint(job),
        layout.items_file(job),
        layout.job_logs_dir(job),
        layout.worktrees_dir(job),
        layout.dlq_dir(job),
    ];
    made_later.iter().any(|path| path.symlink_metadata().is_ok())
}

/// Moves the files of a journal without a whole record out of the way.
///
/// The caller holds the lock of the job.
pub(crate) fn move_journal_aside(segments: &[JournalSegment]) -> Result<(), Error> {
    for JournalSegment { path, .. } in segments {
        files::rename(path, &files::unused_name(path, ".torn")?)?;
        files::sync_dir(files::parent(path))?;
    }
    Ok(())
}
