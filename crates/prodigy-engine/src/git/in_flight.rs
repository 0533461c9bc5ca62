//! The programs under way that may take git's locks, as files in a directory of the job.
//!
//! A file is there as long as its program runs, and stays only if prodigy itself was killed: then
//! it tells whoever resumes the job since when lock files in the repository may be the job's.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

use super::{Error, Repo};
use crate::clock;

/// The directory of the records, shared by all that use a repository for the job.
#[derive(Clone, Debug)]
pub(crate) struct InFlightDir {
    directory: PathBuf,
    next: Arc<AtomicU64>,
}

/// The record of one program; it goes when the program is over.
#[derive(Debug)]
pub struct InFlightRecord {
    path: PathBuf,
}

impl InFlightDir {
    /// Records that a program is about to start.
    pub(crate) fn record_start(&self) -> Option<InFlightRecord> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (process, moment) = (std::process::id(), clock::now().as_nanosecond());
        let path = self.directory.join(format!("{process}-{number}-{moment}"));
        // Without the record a lock that is left is named instead of removed.
        fs::File::create_new(&path).ok().map(|_| InFlightRecord { path })
    }
}

impl Drop for InFlightRecord {
    fn drop(&mut self) {
        // If it stays, a lock may be taken for ours that another git left later; its maker is
        // looked for all the same.
        fs::remove_file(&self.path).ok();
    }
}

impl Repo {
    /// Records in a directory which programs that may take locks are under way.
    #[must_use]
    pub fn with_in_flight_dir(mut self, directory: PathBuf) -> Self {
        self.git.set_in_flight_dir(InFlightDir { directory, next: Arc::default() });
        self
    }

    /// Records that a step, which may use git, is about to start.
    pub fn record_step_start(&self) -> Option<InFlightRecord> {
        self.git.record_start()
    }
}

/// Returns the records that runs which died left in a directory, with their times.
pub(crate) fn stale_records(directory: &Path) -> Result<Vec<(PathBuf, SystemTime)>, Error> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::file("read", directory)(error)),
    };
    let mut records = Vec::new();
    for entry in entries {
        let path = entry.map_err(Error::file("read", directory))?.path();
        let began = path.symlink_metadata().and_then(|found| found.modified());
        let began = began.map_err(Error::file("read", &path))?;
        records.push((path, began));
    }
    Ok(records)
}
