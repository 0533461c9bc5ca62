//! Errors of the dead letter queue.

use std::path::PathBuf;

use prodigy_core::dlq::DeadLetterError;

use crate::store;

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
