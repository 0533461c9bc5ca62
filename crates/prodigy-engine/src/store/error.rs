//! Errors of the state files.

use std::{io, path::PathBuf, sync::Arc};

use prodigy_core::{Timestamp, ids::JobId};

/// A failure to read or write state.
///
/// It can be cloned because a journal that failed once answers every later call
/// with the same error.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// The operation that failed, as a verb.
        action: &'static str,
        /// With which file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: Arc<io::Error>,
    },
    /// The home belongs to somebody else, who could change what prodigy runs.
    #[error("the home `{}` belongs to the user with number {owner}, not to you", path.display())]
    ForeignHome {
        /// The home.
        path: PathBuf,
        /// Its owner.
        owner: u32,
    },
    /// Other users could change what prodigy runs.
    #[error("the home `{}` can be written by other users (mode {mode:03o})", path.display())]
    OpenHome {
        /// The home.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The home is read-only.
    #[error("the home `{}` cannot be written", path.display())]
    ReadOnlyHome {
        /// The home.
        path: PathBuf,
        /// The error of the operating system.
        source: Arc<io::Error>,
    },
    /// A link, pipe or device stands where a file should be.
    #[error("`{}` is not a regular file", path.display())]
    NotRegular {
        /// The path.
        path: PathBuf,
    },
    /// Something else stands where a directory should be.
    #[error("`{}` is not a directory", path.display())]
    NotDirectory {
        /// The path.
        path: PathBuf,
    },
    /// A new job was to take the name of an old one.
    #[error("there is already a job `{job}`")]
    Exists {
        /// The name.
        job: JobId,
    },
    /// Nothing was ever recorded under this name.
    #[error("there is no job `{job}`")]
    NoJob {
        /// The name.
        job: JobId,
    },
    /// The job was killed before its first record.
    #[error("job `{job}` never began: its process was killed before the first record")]
    NeverBegan {
        /// The job.
        job: JobId,
    },
    /// The job was removed; its id is not used again.
    #[error("job `{job}` was removed by {by} at {}", at.strftime("%Y-%m-%dT%H:%M:%SZ"))]
    Removed {
        /// The job.
        job: JobId,
        /// The person who removed it.
        by: String,
        /// The moment of the removal.
        at: Timestamp,
    },
    /// Another process works on the job.
    #[error("job `{job}` is held by {holder}")]
    Locked {
        /// The job.
        job: JobId,
        /// The holder of the lock: process, host and start time.
        holder: String,
    },
    /// A state file does not hold what was written to it.
    #[error("`{}` is damaged at line {line}: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The defect of the line.
        reason: String,
    },
    /// A state file is not the one that was written.
    #[error(
        "`{}` is not what was written: its SHA-256 is {found} and should be {wanted}",
        path.display()
    )]
    Altered {
        /// The file.
        path: PathBuf,
        /// The SHA-256 that was recorded.
        wanted: String,
        /// The SHA-256 of the file.
        found: String,
    },
    /// A newer prodigy wrote something that this one cannot read.
    #[error("`{}` line {line} was written by a newer prodigy: {reason}", path.display())]
    Future {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The unknown format or content.
        reason: String,
    },
    /// One record is longer than any reader would accept.
    #[error("a record of {bytes} bytes is too long for the journal, which takes {limit}")]
    TooLong {
        /// The length of the record.
        bytes: usize,
        /// The most there may be.
        limit: usize,
    },
    /// A value has no form in JSON.
    #[error("cannot write `{}` as JSON: {reason}", path.display())]
    Encode {
        /// The file it was meant for.
        path: PathBuf,
        /// The reason the value cannot be encoded.
        reason: String,
    },
    /// The job was worked on by another machine, or in another home.
    #[error("job `{job}` was last worked on by host `{host}` in the home `{home}`, not here")]
    Elsewhere {
        /// The job.
        job: JobId,
        /// The other host.
        host: String,
        /// The other home.
        home: String,
    },
    /// Something knows of records that the journal does not have.
    #[error("the journal of job `{job}` lost its end: its last record is {last}, and {ahead}")]
    LostEnd {
        /// The job.
        job: JobId,
        /// The last record that the journal has.
        last: u64,
        /// The things that know more, and how much.
        ahead: String,
    },
    /// Not one record before the damage could be kept.
    #[error("nothing of job `{job}` can be kept: `{}` is damaged at line {line}", path.display())]
    NothingToKeep {
        /// The job.
        job: JobId,
        /// The damaged file.
        path: PathBuf,
        /// The damaged line.
        line: u64,
    },
}

impl Error {
    /// Wraps an error of the operating system.
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
        source: impl Into<io::Error>,
    ) -> Self {
        Self::Io { action, path: path.into(), source: Arc::new(source.into()) }
    }

    /// Returns whether the cause is that something is not there.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Returns whether the cause is a full disk or a used-up quota.
    pub fn is_disk_full(&self) -> bool {
        let Self::Io { source, .. } = self else { return false };
        matches!(
            source.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        )
    }
}
