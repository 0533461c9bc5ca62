//! The audit trail of a repository: one file that is only ever appended to.
//!
//! The head of the chain is anchored in a reference of the repository, so that records which
//! are gone from the end of the file are missed. A record counts once it is anchored: who
//! cannot append does not act.

mod reader;
mod review;
#[cfg(test)]
mod tests;
mod trail;

use std::{borrow::Cow, path::PathBuf, time::Duration};

use crate::{git, store};

pub use reader::{AuditReader, read_trail, verify_trail};
pub use review::{TrailReview, review};
pub use trail::{ArchivedTrail, AuditTrail, anchor_ref};

/// The longest a record may be.
///
/// Readers hold one line in memory, so this bounds what a damaged file can cost.
const MAX_LINE: usize = 1024 * 1024;

/// A failure to read or write the audit trail.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read or written.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The anchor could not be read or written.
    #[error("the head of the audit trail cannot be anchored in git")]
    Anchor(#[source] git::Error),
    /// The content of the reference is not a head.
    #[error("the reference `{reference}` does not hold the head of the audit trail: {reason}")]
    NoHead {
        /// The reference.
        reference: String,
        /// The defect of its content.
        reason: String,
    },
    /// The end of the file is not what was anchored.
    #[error("the audit trail `{}` is not what was recorded: {reason}", path.display())]
    Unfit {
        /// The file.
        path: PathBuf,
        /// The mismatch with the anchor.
        reason: String,
    },
    /// A line of the file cannot be understood.
    #[error("line {line} of the audit trail `{}` cannot be read: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The defect of the line.
        reason: String,
    },
    /// Another process appends to the audit trail and does not come to an end.
    #[error("another process has held `{}` for {} s", path.display(), waited.as_secs())]
    Busy {
        /// The lock.
        path: PathBuf,
        /// The time spent waiting for the lock.
        waited: Duration,
    },
    /// One record is longer than any reader would accept.
    #[error("a record of {bytes} bytes is too long for the audit trail, which takes {limit}")]
    TooLong {
        /// The length of the record.
        bytes: usize,
        /// The most there may be.
        limit: usize,
    },
}

impl Error {
    /// Returns what the person could do next, if there is something.
    pub fn hint(&self) -> Option<Cow<'static, str>> {
        match self {
            Self::NoHead { .. } | Self::Unfit { .. } | Self::Unreadable { .. } => {
                Some("`prodigy audit verify` looks closer".into())
            }
            Self::Anchor(source) => source.hint(),
            Self::TooLong { .. } => Some("give a shorter reason".into()),
            Self::Store(_) | Self::Busy { .. } => None,
        }
    }

    /// Returns whether the cause is a full disk or a used-up quota.
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_disk_full())
    }
}
