//! What can go wrong with starting, feeding and ending programs.

use std::{io, time::Duration};

/// Why a program could not be run to its end.
///
/// A program that runs and fails is no error: that is its status.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program could not be started.
    #[error("cannot start `{program}`")]
    Start {
        /// The program.
        program: String,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// The program took too long and was ended.
    #[error("`{program}` took longer than {} s and was ended", limit.as_secs_f64())]
    TimedOut {
        /// The program.
        program: String,
        /// The time it had.
        limit: Duration,
    },
    /// The program printed more than we are willing to hold, and was ended.
    #[error("`{program}` printed more than {limit} bytes and was ended")]
    TooMuchOutput {
        /// The program.
        program: String,
        /// The most that is held.
        limit: usize,
    },
    /// The operating system refused something that only fails when it is in trouble.
    #[error("cannot follow `{program}`")]
    Follow {
        /// The program.
        program: String,
        /// The reason.
        #[source]
        source: io::Error,
    },
}
