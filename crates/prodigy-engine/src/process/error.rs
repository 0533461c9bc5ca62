//! Errors of starting, feeding and ending programs.

use std::{io, time::Duration};

/// The reason why a program could not be run to its end.
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
    /// The supervisor did not come up.
    #[error("the supervisor `{program}` does not answer")]
    NoSupervisor {
        /// The binary that was started.
        program: String,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// The supervisor died or fell silent, so nobody knows how the launch would have ended.
    ///
    /// Whatever of it was still running has been ended. The supervisor is of no more use.
    #[error("the supervisor of the step is gone; {ended} processes of the step were ended")]
    Lost {
        /// The number of its processes that were ended.
        ended: usize,
    },
    /// The launch was not started because its log cannot be written.
    #[error("cannot write the log {message}")]
    Log {
        /// The log, and why.
        message: String,
    },
    /// The launch is larger than four gigabytes.
    #[error("the input of the step is too large")]
    TooLarge,
}
