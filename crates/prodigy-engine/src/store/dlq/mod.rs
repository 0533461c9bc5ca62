//! The dead letters of a job, on the disk.
//!
//! The journal says which items were given up and why; here is a view of it that people and
//! programs can read without reading the journal: one file for each item, a log of their changes
//! that is only ever appended to, and an index with counts and ids. What is missing here is made
//! again from the journal.

mod cache;
mod dead_letter_store;
mod fsck;
pub(crate) mod index;
mod index_document;
mod old_layout;
mod projector;
mod projector_thread;
pub(crate) mod rebuild;
mod summary;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod writer;

use std::path::PathBuf;

use prodigy_core::dlq::DeadLetterError;

use crate::store;

pub use dead_letter_store::{DeadLetterStore, entry_file, known_seq};
pub use fsck::{FsckReport, fsck};
pub use projector::DeadLetterProjector;
pub use summary::{DeadLetterSummary, EvaluationFacts};

/// A failure to read or change dead letters.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// Files below the home cannot be used, there is no such job, or somebody works on it.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// A file does not hold a dead letter.
    #[error("`{}` cannot be used: {source}", path.display())]
    Entry {
        /// The file.
        path: PathBuf,
        /// The defect of the file.
        source: DeadLetterError,
    },
}
