//! Jobs that were removed: a tombstone keeps their ids taken.
//!
//! The tombstone is written before anything is deleted. From then on the job is gone for every
//! command; a removal that was cut off is finished by the next one.

use std::{fs, io, path::PathBuf};

use prodigy_core::{Timestamp, ids::JobId};
use serde::{Deserialize, Serialize};

use super::{Error, Layout, files, read_bounded, write_atomic};

/// The largest tombstone that is read back.
const LIMIT: u64 = 64 * 1024;

/// The record of a job's removal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tombstone {
    /// The job.
    pub job_id: JobId,
    /// The moment of the removal.
    pub removed_at: Timestamp,
    /// The person who removed it.
    pub by: String,
    /// Set if work was discarded with `--force`.
    pub forced: bool,
}

impl Tombstone {
    /// Reads the tombstone of a job, if it was removed.
    pub fn read(layout: &Layout, job: &JobId) -> Result<Option<Self>, Error> {
        let path = layout.tombstone(job);
        let Some(text) = read_bounded(&path, LIMIT)? else { return Ok(None) };
        serde_json::from_slice(&text).map(Some).map_err(|error| Error::Damaged {
            path,
            line: u64::try_from(error.line()).unwrap_or(1),
            reason: error.to_string(),
        })
    }

    /// Writes the tombstone: from here on the job is removed.
    pub fn write(&self, layout: &Layout) -> Result<(), Error> {
        let path = layout.tombstone(&self.job_id);
        files::create_dir(files::parent(&path))?;
        let text = serde_json::to_vec_pretty(self)
            .map_err(|error| Error::Encode { path: path.clone(), reason: error.to_string() })?;
        write_atomic(&path, &text)
    }
}

/// Refuses a job that was removed.
pub fn refuse_removed(layout: &Layout, job: &JobId) -> Result<(), Error> {
    match Tombstone::read(layout, job)? {
        Some(Tombstone { removed_at, by, .. }) => {
            Err(Error::Removed { job: job.clone(), by, at: removed_at })
        }
        None => Ok(()),
    }
}

/// Returns whether files of a job are below the home, the tombstone left out.
pub fn has_files(layout: &Layout, job: &JobId) -> bool {
    directories(layout, job).iter().any(|path| path.symlink_metadata().is_ok())
}

/// Deletes the files of a job below the home, its worktrees included; the tombstone stays.
///
/// The caller holds the lock of the job.
pub fn remove_files(layout: &Layout, job: &JobId) -> Result<(), Error> {
    remove_all(&directories(layout, job))
}

/// Deletes the files of a job below the home, those aside that hold the output of its steps.
///
/// The caller holds the lock of the job.
pub fn remove_files_but_logs(layout: &Layout, job: &JobId) -> Result<(), Error> {
    remove_all(&files_but_logs(layout, job))
}

/// Deletes the output of a job's steps.
pub fn remove_logs(layout: &Layout, job: &JobId) -> Result<(), Error> {
    remove_all(&[layout.job_logs_dir(job)])
}

/// Returns the directories of a job, that with the output of its steps aside.
pub fn files_but_logs(layout: &Layout, job: &JobId) -> Vec<PathBuf> {
    let logs = layout.job_logs_dir(job);
    directories(layout, job).into_iter().filter(|path| *path != logs).collect()
}

fn remove_all(directories: &[PathBuf]) -> Result<(), Error> {
    for path in directories {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("remove", path, error));
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// Returns the directories of a job, the one with its lock last.
fn directories(layout: &Layout, job: &JobId) -> [PathBuf; 5] {
    [
        layout.worktrees_dir(job),
        layout.dlq_dir(job),
        layout.job_logs_dir(job),
        layout.events_dir(job),
        layout.state_dir(job),
    ]
}
