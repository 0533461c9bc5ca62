//! Starting programs and, above all, ending them.
//!
//! Steps run under a supervisor: a hidden subcommand of the same binary, one per
//! slot, that lives as long as the slot and runs one step after the other. It is
//! a session leader and a subreaper, so that every descendant of a step stays
//! below it whatever the step does, and it watches its socket to us: when we are
//! gone, even by `kill -9`, it ends what it runs and then itself.

mod coprocess;
mod ignored_signals;
mod lock_owners;
mod origin;
mod orphans;
mod process_group;
mod process_info;
mod short_command;
mod spawn;
mod stop_token;
mod stream_io;
mod supervisor;

use std::{ffi::OsString, fmt, io, path::PathBuf, time::Duration};

use prodigy_core::failure::classify::ProcessEnd;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

pub use coprocess::Coprocess;
pub use ignored_signals::IgnoredSignals;
pub use lock_owners::{LockIdentity, is_lock_in_use};
pub use origin::{AUTOMATION, ProcessOrigin};
pub use orphans::kill_job_processes;
pub use short_command::{ShortCommand, ShortCommandOutput, run_helper};
pub use spawn::find_executable;
pub use stop_token::StopToken;
pub use stream_io::LineSplitter;
pub use supervisor::{
    SupervisorError,
    client::{OutputListener, SupervisorClient},
    log_writer::truncated_bytes,
    run_supervisor,
};

/// The variable by which the processes of a supervisor are known when it is gone.
const MARKER: &str = "PRODIGY_SUPERVISOR";

/// The variable by which the processes of a job are known: it holds the directory of
/// the job's state. Its id would not do, for jobs of other repositories may have the same.
pub const JOB_MARKER: &str = "PRODIGY_JOB_STATE";

/// The program that makes sandboxes. It is not asked to end: it goes with what is in it.
pub const SANDBOX: &str = "bwrap";

/// A program to run.
#[derive(Clone, PartialEq)]
pub struct Launch {
    /// The program and its arguments; the program is looked up in the launch's own `PATH`.
    pub argv: Vec<OsString>,
    /// The whole environment; only `PRODIGY_SUPERVISOR` is added to it.
    pub env: Vec<(OsString, OsString)>,
    /// Where it runs.
    pub cwd: PathBuf,
    /// The directory that it must not be led out of when it is started; `None` for anywhere.
    pub root: Option<PathBuf>,
    /// The standard input; end of file follows it.
    pub stdin: Vec<u8>,
    /// The files that its output is appended to: standard output, standard error.
    pub log: Option<(PathBuf, PathBuf)>,
    /// The most that one launch may add to each log file.
    pub log_cap: u64,
    /// The longest it may take.
    pub timeout: Option<Duration>,
    /// The longest it may print nothing.
    pub idle_timeout: Option<Duration>,
    /// The time between being asked to end and being made to.
    pub grace: Duration,
    /// Values that are masked before anything is stored or handed back.
    pub secrets: Vec<String>,
    /// Set to hand standard output to a listener while it is printed.
    pub stream: bool,
}

/// The result of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessOutcome {
    /// Its status.
    pub status: ProcessStatus,
    /// The reason why we ended it, if we did.
    pub ended_by: Option<TerminationReason>,
    /// The standard output.
    pub stdout: CapturedOutput,
    /// The standard error.
    pub stderr: CapturedOutput,
    /// The time it took, without the processes it left behind.
    pub duration: Duration,
    /// The number of processes it left behind when it ended by itself; they were then ended.
    pub leftovers: u32,
    /// The number of processes that could not be ended, not even by killing them: they hang in
    /// the kernel or belong to another user. Their directory must not be used again.
    pub survivors: u32,
    /// Set if it was killed while the kernel ended processes for lack of memory.
    pub oom_killed: bool,
}

/// The status a program ended with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProcessStatus {
    /// It exited.
    Exited(i32),
    /// A signal ended it.
    Signaled(i32),
    /// It could not be started.
    NotStarted {
        /// The operating system's number for the reason.
        errno: Option<i32>,
        /// The reason, naming the program.
        message: String,
    },
}

/// The reason why we ended a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TerminationReason {
    /// Its time was up.
    Timeout,
    /// It printed nothing for too long.
    Idle,
    /// The run was stopped.
    Stop,
    /// Whoever listened to its output had heard enough.
    Listener,
}

/// The output of a program, bounded and masked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapturedOutput {
    /// The first 64 KiB.
    pub head: Vec<u8>,
    /// The last 64 KiB of what did not fit into the head.
    pub tail: Vec<u8>,
    /// The size of all output, in bytes.
    pub total: u64,
    /// Where it starts in the log file.
    pub log_at: u64,
    /// The number of its bytes in the log file.
    pub log_len: u64,
}

impl fmt::Debug for Launch {
    /// Shows what is run and where, but neither input nor environment: they hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launch")
            .field("argv", &self.argv)
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}

impl ProcessOutcome {
    /// Returns the same as if the program had ended by itself and well: it was done, and its
    /// process only lingered.
    #[must_use]
    pub fn into_clean_exit(self) -> Self {
        Self { status: ProcessStatus::Exited(0), ended_by: None, ..self }
    }

    /// Returns how it ended, for the reason code.
    pub fn process_end(&self) -> ProcessEnd {
        match (self.ended_by, &self.status) {
            (Some(TerminationReason::Timeout), _) => ProcessEnd::TimedOut,
            (Some(TerminationReason::Idle), _) => ProcessEnd::Idle,
            (Some(TerminationReason::Stop), _) => ProcessEnd::Stopped,
            // Why enough was heard only the listener knows.
            (Some(TerminationReason::Listener) | None, ProcessStatus::Exited(code)) => {
                ProcessEnd::Exited(*code)
            }
            (Some(TerminationReason::Listener) | None, ProcessStatus::Signaled(signal)) => {
                ProcessEnd::Signaled(*signal)
            }
            (Some(TerminationReason::Listener) | None, ProcessStatus::NotStarted { errno, .. }) => {
                let kind = errno.map(|errno| io::Error::from_raw_os_error(errno).kind());
                ProcessEnd::NotStarted(kind)
            }
        }
    }
}

impl ProcessStatus {
    /// Returns the exit code as a shell would report it: a signal is 128 plus its number,
    /// a program that is not there is 127, one that cannot be executed is 126.
    pub fn code(&self) -> i32 {
        const CANNOT_EXECUTE: [i32; 2] =
            [Errno::ACCESS.raw_os_error(), Errno::NOEXEC.raw_os_error()];
        match self {
            Self::Exited(code) => *code,
            Self::Signaled(signal) => 128 + signal,
            Self::NotStarted { errno: Some(errno), .. } if CANNOT_EXECUTE.contains(errno) => 126,
            Self::NotStarted { .. } => 127,
        }
    }
}

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
