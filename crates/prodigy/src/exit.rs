//! Exit codes. They are an interface: scripts test for them.

use std::process::ExitCode;

/// How `prodigy` ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Everything asked for was done.
    Success = 0,
    /// The job failed, or something unforeseen went wrong.
    Failure = 1,
    /// The request made no sense.
    Usage = 2,
    /// The work is done and waits to be merged.
    MergeOutstanding = 7,
    /// A workflow or configuration file is invalid.
    Invalid = 9,
    /// Another process holds the job; try again later.
    Busy = 75,
    /// Ctrl-C.
    Interrupted = 130,
    /// SIGTERM or SIGHUP.
    Terminated = 143,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
