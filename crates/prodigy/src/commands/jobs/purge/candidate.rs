//! Jobs that may be purged.

use std::{fs, path::PathBuf, time::Duration};

use prodigy_core::{
    Timestamp,
    event::{EntryRemoval, Event},
    ids::JobId,
    job::{JobStatus, JobSummary},
};
use prodigy_engine::{
    git::Repo,
    store::{self, JobLock, JournalReader, Layout},
};

use crate::{
    commands::{jobs::JobRemoval, lookup::job_error},
    error::CliError,
    exit::Exit,
};

/// A job that is done.
pub(crate) struct PurgeCandidate<'a> {
    pub(crate) job: &'a JobId,
    /// The last event, those aside that only say that entries were deleted.
    ended_at: Timestamp,
    /// The last record.
    seq: u64,
}

/// The size of files on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiskUsage {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

impl<'a> PurgeCandidate<'a> {
    /// Reads the journal of a job; `None` if the job is not done, or its journal is damaged.
    pub(crate) fn read(layout: &Layout, job: &'a JobId) -> Result<Option<Self>, store::Error> {
        if JobLock::holder(layout, job)?.is_some() {
            return Ok(None);
        }
        let mut summary = JobSummary::default();
        let mut ended_at = None;
        let mut seq = 0;
        for record in JournalReader::open(layout, job)? {
            let Ok(record) = record else { return Ok(None) };
            summary.apply(&record);
            seq = record.seq;
            let is_cleared =
                matches!(record.event, Event::DlqItemRemoved { how: EntryRemoval::Cleared, .. });
            if !is_cleared {
                ended_at = Some(record.timestamp);
            }
        }
        let status = summary.status(false);
        let is_done = matches!(status, JobStatus::Completed | JobStatus::CompletedWithFailures);
        let ended_at = ended_at.filter(|_| is_done);
        Ok(ended_at.map(|ended_at| Self { job, ended_at, seq }))
    }

    /// Returns whether its last event is older than this.
    pub(crate) fn is_older(&self, age: Duration, now: Timestamp) -> bool {
        is_past(self.ended_at, age, now)
    }

    /// Returns the work that would be lost with the job, for people.
    pub(crate) fn lost_work(&self, layout: &Layout, repo: &Repo) -> Result<Vec<String>, CliError> {
        self.removal(layout, repo).lost_work()
    }

    /// Removes the worktrees, branches and references of the job.
    pub(crate) fn remove_from_git(&self, layout: &Layout, repo: &Repo) -> Result<(), CliError> {
        self.removal(layout, repo).remove_from_git()
    }

    /// Takes the lock of the job, if it is still as it was read.
    pub(crate) fn lock(&self, layout: &Layout) -> Result<JobLock, CliError> {
        let job = self.job;
        let failed = |error| job_error(job, error);
        let lock = JobLock::take(layout, job).map_err(failed)?;
        if store::read_last_seq(layout, job).map_err(failed)? != self.seq {
            let message = format!("job `{job}` was worked on meanwhile");
            return Err(CliError::new(Exit::TryLater, message));
        }
        Ok(lock)
    }

    /// Moves on to the last record, past those that deleted entries.
    pub(crate) fn observe(&mut self, layout: &Layout) -> Result<(), store::Error> {
        self.seq = store::read_last_seq(layout, self.job)?;
        Ok(())
    }

    fn removal<'r>(&'r self, layout: &'r Layout, repo: &Repo) -> JobRemoval<'r> {
        JobRemoval { layout, repo: repo.clone(), job: self.job }
    }
}

/// Returns whether a moment is longer ago than this.
pub(crate) fn is_past(at: Timestamp, age: Duration, now: Timestamp) -> bool {
    now.checked_sub(age).is_ok_and(|least| at <= least)
}

/// Returns how much some directories hold.
pub(crate) fn size_of(directories: &[PathBuf]) -> DiskUsage {
    let mut size = DiskUsage::default();
    let mut left: Vec<PathBuf> = directories.to_vec();
    while let Some(path) = left.pop() {
        let Ok(data) = path.symlink_metadata() else { continue };
        if data.is_dir() {
            let entries = fs::read_dir(&path).into_iter().flatten();
            left.extend(entries.filter_map(|entry| entry.ok().map(|entry| entry.path())));
        } else {
            size.files += 1;
            size.bytes = size.bytes.saturating_add(data.len());
        }
    }
    size
}
