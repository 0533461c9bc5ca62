//! Output of a process, as variables and messages.

use std::{
    error::Error,
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    iter,
};

use prodigy_core::{
    capture::CaptureStream,
    event::LogRange,
    failure::{
        Failure, ReasonCode,
        classify::{FailureFacts, classify, reason_from_io_error, reason_from_output},
    },
};

use super::StepContext;
use crate::{
    process::{self, CapturedOutput, ProcessOutcome, ProcessStatus, TerminationReason},
    root_dir,
    store::{LogFile, open_to_read},
};

/// The most that a captured variable may hold.
pub(crate) const CAPTURE_LIMIT: u64 = 1024 * 1024;

/// The most of the output that a failure keeps.
const TAIL_LINES: usize = 20;

/// The most bytes of it: a line may be as long as the whole output.
const TAIL_BYTES: usize = 4096;

/// The output of an action, before it is evaluated.
#[derive(Clone, Debug, Default)]
pub(crate) struct ActionOutput {
    /// Standard output, bounded.
    pub(crate) stdout: CapturedOutput,
    /// Standard error, bounded.
    pub(crate) stderr: CapturedOutput,
    /// The log files it is in.
    pub(crate) slot: u32,
    /// The code of the process.
    pub(crate) exit_code: i32,
    /// The text that replaces standard output, if any.
    pub(crate) instead: Option<String>,
    /// Set if an agent made it.
    pub(crate) agent: bool,
    /// Set if it is JSON that satisfies the schema the step asks for.
    pub(crate) is_data: bool,
    /// Set if standard output is the transcript of an agent, which has a log file of its own.
    pub(crate) transcript: bool,
    /// Set if nothing was run for it, because the side effect had been made before.
    pub(crate) adopted: bool,
}

/// A failure with the output that came before it, for handlers and logs.
#[derive(Clone, Debug)]
pub(crate) struct ActionFailure {
    /// The failure.
    pub(crate) failure: Failure,
    /// The output before the failure.
    pub(crate) output: ActionOutput,
    /// Set if a process was started, so that it may have changed something.
    pub(crate) has_begun: bool,
}

impl ActionFailure {
    /// Makes one that came before any output.
    pub(crate) fn without_output(failure: Failure) -> Box<Self> {
        Box::new(Self { failure, output: ActionOutput::default(), has_begun: false })
    }

    /// Makes one of a process, which may not have been started at all.
    pub(crate) fn from_process(
        failure: Failure,
        output: ActionOutput,
        status: &ProcessStatus,
    ) -> Box<Self> {
        let has_begun = !matches!(status, ProcessStatus::NotStarted { .. });
        Box::new(Self { failure, output, has_begun })
    }

    /// Makes one; boxed, since most tries succeed.
    pub(crate) fn with_output(failure: Failure, output: ActionOutput) -> Box<Self> {
        Box::new(Self { failure, output, has_begun: true })
    }
}

impl ActionOutput {
    /// Makes an output of text that no process printed.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self { instead: Some(text.into()), ..Self::default() }
    }

    /// Makes an output of what a process printed that was not listened to.
    pub(crate) fn from_process(slot: u32, ended: &ProcessOutcome) -> Self {
        Self {
            stdout: ended.stdout.clone(),
            stderr: ended.stderr.clone(),
            slot,
            exit_code: ended.status.code(),
            instead: None,
            agent: false,
            is_data: false,
            transcript: false,
            adopted: false,
        }
    }

    /// Returns the text for `${shell.output}`: standard output without its last newline.
    pub(crate) fn stdout_text(&self) -> String {
        match &self.instead {
            Some(text) => text.trim_end_matches(['\n', '\r']).to_owned(),
            None => text(&self.stdout),
        }
    }

    /// Returns standard output and standard error together, for handlers.
    pub(crate) fn combined_text(&self) -> String {
        let (out, err) = (self.stdout_text(), text(&self.stderr));
        match (out.is_empty(), err.is_empty()) {
            (_, true) => out,
            (true, false) => err,
            (false, false) => format!("{out}\n{err}"),
        }
    }

    /// Returns where the output stands in the log files.
    pub(crate) fn log(&self) -> Option<LogRange> {
        (self.stdout.log_len > 0 || self.stderr.log_len > 0).then_some(LogRange {
            slot: self.slot,
            transcript: self.transcript,
            stdout_at: self.stdout.log_at,
            stdout_len: self.stdout.log_len,
            stderr_at: self.stderr.log_at,
            stderr_len: self.stderr.log_len,
        })
    }

    /// Returns the whole of a stream, for a captured variable.
    pub(crate) fn read_all(
        &self,
        workplace: &StepContext,
        stream: CaptureStream,
    ) -> Result<String, String> {
        let stdout = || match &self.instead {
            Some(text) => Ok(text.clone()),
            None => self.read(workplace, &self.stdout, self.stdout_file()),
        };
        match stream {
            CaptureStream::Stdout => stdout(),
            CaptureStream::Stderr => self.read(workplace, &self.stderr, LogFile::Errors),
            CaptureStream::Both => {
                Ok(stdout()? + &self.read(workplace, &self.stderr, LogFile::Errors)?)
            }
        }
    }

    /// Returns the file that holds the standard output.
    fn stdout_file(&self) -> LogFile {
        LogFile::output(self.transcript)
    }

    /// Reads what was printed, from memory if it is all there, else from the log.
    fn read(
        &self,
        workplace: &StepContext,
        printed: &CapturedOutput,
        file: LogFile,
    ) -> Result<String, String> {
        if printed.total == printed.head.len() as u64 {
            return Ok(String::from_utf8_lossy(&printed.head).into_owned());
        }
        if printed.total > CAPTURE_LIMIT || printed.log_len < printed.total {
            return Err(format!(
                "the output has {} bytes, and a variable holds at most {CAPTURE_LIMIT}; use `output_file`",
                printed.total
            ));
        }
        let path = workplace.log_file(self.slot, file);
        let read = || -> std::io::Result<Vec<u8>> {
            let mut file = open_to_read(&path).map_err(std::io::Error::other)?;
            file.seek(SeekFrom::Start(printed.log_at))?;
            let mut bytes = Vec::new();
            file.take(printed.log_len).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        match read() {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) => Err(format!("cannot read `{}`: {error}", path.display())),
        }
    }

    /// Copies standard output to a file: from memory if it is all there, else from the log.
    pub(crate) fn copy_to(&self, workplace: &StepContext, file: &mut File) -> std::io::Result<()> {
        if let Some(text) = &self.instead {
            return file.write_all(text.as_bytes());
        }
        if self.stdout.total == self.stdout.head.len() as u64 {
            return file.write_all(&self.stdout.head);
        }
        if self.stdout.log_len < self.stdout.total {
            let CapturedOutput { total, log_len, .. } = self.stdout;
            let message = format!(
                "the output has {total} bytes, and only {log_len} of them were kept; raise `log_cap`"
            );
            return Err(std::io::Error::other(message));
        }
        let log = workplace.log_file(self.slot, self.stdout_file());
        let mut log = open_to_read(&log).map_err(std::io::Error::other)?;
        log.seek(SeekFrom::Start(self.stdout.log_at))?;
        std::io::copy(&mut log.take(self.stdout.log_len), file)?;
        Ok(())
    }

    /// Returns the last lines of output, standard error first choice.
    fn tail(&self) -> String {
        let stderr = text(&self.stderr);
        let source = if stderr.trim().is_empty() { self.stdout_text() } else { stderr };
        let lines: Vec<&str> = source.lines().collect();
        let mut tail = lines
            .iter()
            .skip(lines.len().saturating_sub(TAIL_LINES))
            .copied()
            .collect::<Vec<_>>()
            .join("\n");
        let mut from = tail.len().saturating_sub(TAIL_BYTES);
        while !tail.is_char_boundary(from) {
            from += 1;
        }
        if from > 0 {
            tail.replace_range(..from, "…");
        }
        tail
    }

    /// Makes a failure of this output.
    pub(crate) fn failure(&self, kind: ReasonCode, message: impl Into<String>) -> Failure {
        Failure {
            kind,
            message: message.into(),
            exit_code: Some(self.exit_code),
            output_tail: self.tail(),
            cause: None,
        }
    }
}

/// Reads the standard output of a step that is over, if it is all there.
///
/// A transcript is what an agent did and not what it answered.
pub(crate) fn read_logged_output(workplace: &StepContext, range: &LogRange) -> Option<String> {
    if range.stdout_len > CAPTURE_LIMIT || range.transcript {
        return None;
    }
    let mut file = open_to_read(&workplace.log_file(range.slot, LogFile::Output)).ok()?;
    file.seek(SeekFrom::Start(range.stdout_at)).ok()?;
    let mut bytes = Vec::new();
    file.take(range.stdout_len).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns what was printed as text; the gap between head and tail says what is missing.
fn text(printed: &CapturedOutput) -> String {
    let kept = (printed.head.len() + printed.tail.len()) as u64;
    let mut text = match printed.total.saturating_sub(kept) {
        // Joined as bytes: a character may begin in the head and end in the tail.
        0 => {
            String::from_utf8_lossy(&[printed.head.as_slice(), &printed.tail].concat()).into_owned()
        }
        missing => {
            let head = String::from_utf8_lossy(&printed.head);
            let tail = String::from_utf8_lossy(&printed.tail);
            format!("{head}\n… {missing} bytes left out …\n{tail}")
        }
    };
    text.truncate(text.trim_end_matches(['\n', '\r']).len());
    text
}

/// Judges how a process ended: `None` if it ended well.
pub(crate) fn process_failure(
    ended: &ProcessOutcome,
    output: &ActionOutput,
    limits: &ProcessLimits,
) -> Option<Failure> {
    let shown = |limit: Option<std::time::Duration>| {
        limit.map(prodigy_core::duration::format).unwrap_or_default()
    };
    let message = match (ended.ended_by, &ended.status) {
        (Some(TerminationReason::Timeout), _) => {
            format!("still running after {}", shown(limits.timeout))
        }
        (Some(TerminationReason::Idle), _) => format!("printed nothing for {}", shown(limits.idle)),
        (Some(TerminationReason::Stop), _) => "the run was stopped".to_owned(),
        (Some(TerminationReason::Listener), _) => "it was ended for what it printed".to_owned(),
        (None, ProcessStatus::Exited(0)) => return None,
        (None, ProcessStatus::Exited(code)) => format!("exit code {code}"),
        (None, ProcessStatus::Signaled(signal)) => format!("ended by signal {signal}"),
        (None, ProcessStatus::NotStarted { message, .. }) => message.clone(),
    };
    let printed = output.tail();
    let kind = classify(FailureFacts {
        end: ended.process_end(),
        oom_killed: ended.oom_killed,
        is_agent: output.agent,
        printed: &printed,
    });
    Some(output.failure(kind, message))
}

/// The limits a process ran under, for messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessLimits {
    /// The longest it may take.
    pub(crate) timeout: Option<std::time::Duration>,
    /// The longest it may print nothing.
    pub(crate) idle: Option<std::time::Duration>,
}

/// Makes a failure of something that could not be done with a worktree.
///
/// The reason code follows from what the operating system said, then from the words.
pub fn infrastructure_failure(error: &(dyn Error + 'static)) -> Failure {
    let causes = || iter::successors(Some(error), |&error| error.source());
    let message = causes().map(ToString::to_string).collect::<Vec<_>>().join(": ");
    let found =
        causes().find_map(|cause| reason_from_io_error(cause.downcast_ref::<io::Error>()?.kind()));
    match found {
        Some(kind) => Failure::new(kind, message),
        None => worktree_failure(message),
    }
}

/// Makes a failure of something that could not be done with a worktree, of its words alone.
pub fn worktree_failure(message: impl Into<String>) -> Failure {
    let message = message.into();
    Failure::new(reason_from_output(&message).unwrap_or(ReasonCode::WorktreeError), message)
}

/// Makes a failure of a file that could not be read or written.
pub(crate) fn file_failure(error: &io::Error, message: &str) -> Failure {
    Failure::new(reason_from_io_error(error.kind()).unwrap_or(ReasonCode::WorktreeError), message)
}

/// Makes a failure of a path that could not be opened in the worktree; the words are those for
/// a file that cannot be used.
pub(crate) fn path_failure(
    error: &root_dir::Error,
    words: impl FnOnce(&io::Error) -> String,
) -> Failure {
    match error.io() {
        Some(error) => file_failure(error, &words(error)),
        None => Failure::new(ReasonCode::WorktreeError, error.to_string()),
    }
}

/// Makes a failure of a launch that was not seen to its end.
pub(crate) fn launch_failure(error: &process::Error) -> Box<ActionFailure> {
    match error {
        process::Error::TooLarge => ActionFailure::without_output(Failure::new(
            ReasonCode::PayloadTooLarge,
            error.to_string(),
        )),
        // The step was not started.
        process::Error::Log { message } => {
            let kind = reason_from_output(message).unwrap_or(ReasonCode::StoreUnavailable);
            ActionFailure::without_output(Failure::new(kind, error.to_string()))
        }
        // There was no supervisor that could have started it.
        process::Error::Start { .. } | process::Error::NoSupervisor { .. } => {
            ActionFailure::without_output(Failure::new(ReasonCode::WorkerLost, error.to_string()))
        }
        process::Error::TimedOut { .. }
        | process::Error::TooMuchOutput { .. }
        | process::Error::Follow { .. }
        | process::Error::Lost { .. } => {
            let failure = Failure::new(ReasonCode::WorkerLost, error.to_string());
            ActionFailure::with_output(failure, ActionOutput::default())
        }
    }
}
