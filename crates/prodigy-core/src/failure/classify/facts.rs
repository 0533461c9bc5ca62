//! Classification of a failure by its certain facts.

use std::io::ErrorKind;

use super::output::reason_from_output;
use crate::failure::ReasonCode;

/// The number of a command's last lines that are searched for the reason of its failure.
const COMMAND_LINES: usize = 20;
/// The same for an agent; fewer, because agents talk, also about the errors of others.
const AGENT_LINES: usize = 5;
/// The number that a shell adds to the signal that ended a program.
const BY_SIGNAL: i32 = 128;
/// The signal that nothing survives; the kernel sends it when there is no memory left.
const SIGKILL: i32 = 9;
/// The signal for writing more to a file than is allowed.
const SIGXFSZ: i32 = 25;

/// The end of a step's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    /// Its time was up and prodigy ended it.
    TimedOut,
    /// It printed nothing for too long and prodigy ended it.
    Idle,
    /// The run was stopped, and prodigy ended it with the rest.
    Stopped,
    /// It ended by itself, with this code.
    Exited(i32),
    /// Somebody else ended it with this signal.
    Signaled(i32),
    /// It could not be started, and this is what the operating system said.
    NotStarted(Option<ErrorKind>),
}

/// The facts about a failed step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureFacts<'a> {
    /// The end of its process.
    pub end: ProcessEnd,
    /// Set if the kernel killed a process for lack of memory meanwhile.
    pub oom_killed: bool,
    /// Set for an agent, not for a command.
    pub is_agent: bool,
    /// The end of what it printed.
    pub printed: &'a str,
}

/// The exit codes that mean the same for every program: those of shells, of `timeout`, and
/// those of `sysexits.h` that say more than "failed".
const EXIT_CODES: &[(i32, ReasonCode)] = &[
    (66, ReasonCode::InputMissing),
    (69, ReasonCode::DependencyUnavailable),
    (75, ReasonCode::DependencyUnavailable),
    (77, ReasonCode::PermissionDenied),
    (124, ReasonCode::Timeout),
    (126, ReasonCode::PermissionDenied),
    (127, ReasonCode::SpawnFailed),
];

/// The reason codes of errors of the operating system.
const IO_ERRORS: &[(ErrorKind, ReasonCode)] = &[
    (ErrorKind::StorageFull, ReasonCode::DiskFull),
    (ErrorKind::QuotaExceeded, ReasonCode::DiskFull),
    (ErrorKind::FileTooLarge, ReasonCode::DiskFull),
    (ErrorKind::OutOfMemory, ReasonCode::OomKilled),
    (ErrorKind::PermissionDenied, ReasonCode::PermissionDenied),
    (ErrorKind::ReadOnlyFilesystem, ReasonCode::PermissionDenied),
    (ErrorKind::ArgumentListTooLong, ReasonCode::PayloadTooLarge),
    (ErrorKind::ConnectionRefused, ReasonCode::NetworkError),
    (ErrorKind::ConnectionReset, ReasonCode::NetworkError),
    (ErrorKind::HostUnreachable, ReasonCode::NetworkError),
    (ErrorKind::NetworkUnreachable, ReasonCode::NetworkError),
];

/// Returns the reason code of a failure of the operating system, if it says enough.
///
/// Too many open files and too many processes say only that something could not be begun.
pub fn reason_from_io_error(error: ErrorKind) -> Option<ReasonCode> {
    IO_ERRORS.iter().find(|(known, _)| *known == error).map(|(_, kind)| *kind)
}

/// Returns the reason code of a step that failed.
///
/// A step that named its code itself is not asked about here: it knows best, unless
/// prodigy ended it.
pub fn classify(facts: FailureFacts<'_>) -> ReasonCode {
    let said = |otherwise| {
        let most = if facts.is_agent { AGENT_LINES } else { COMMAND_LINES };
        reason_from_output(last_lines(facts.printed, most)).unwrap_or(otherwise)
    };
    match facts.end {
        ProcessEnd::TimedOut => ReasonCode::Timeout,
        ProcessEnd::Idle => ReasonCode::Stalled,
        ProcessEnd::Stopped => ReasonCode::Cancelled,
        ProcessEnd::NotStarted(error) => {
            error.and_then(reason_from_io_error).unwrap_or(ReasonCode::SpawnFailed)
        }
        // A shell whose last program was ended by a signal exits with a code that says so.
        ProcessEnd::Exited(code) => match reason_from_signal(code - BY_SIGNAL, facts) {
            Some(kind) => kind,
            None => reason_from_exit_code(code).unwrap_or_else(|| {
                said(if facts.is_agent {
                    ReasonCode::AgentError
                } else {
                    ReasonCode::CommandFailed
                })
            }),
        },
        ProcessEnd::Signaled(signal) => match reason_from_signal(signal, facts) {
            Some(kind) => kind,
            None if facts.is_agent => ReasonCode::AgentCrashed,
            None => said(ReasonCode::CommandFailed),
        },
    }
}

fn reason_from_signal(signal: i32, facts: FailureFacts<'_>) -> Option<ReasonCode> {
    match signal {
        SIGKILL if facts.oom_killed => Some(ReasonCode::OomKilled),
        SIGXFSZ => Some(ReasonCode::DiskFull),
        _ => None,
    }
}

fn reason_from_exit_code(code: i32) -> Option<ReasonCode> {
    EXIT_CODES.iter().find(|(known, _)| *known == code).map(|(_, kind)| *kind)
}

/// Returns the last lines of what an agent printed: they say why it failed.
pub(crate) fn last_agent_lines(printed: &str) -> &str {
    last_lines(printed, AGENT_LINES)
}

/// Returns the end of a text: so many lines that hold something.
fn last_lines(text: &str, most: usize) -> &str {
    let mut seen = 0;
    let mut from = text.len();
    for line in text.split_inclusive('\n').rev() {
        seen += usize::from(!line.trim().is_empty());
        if seen > most {
            break;
        }
        from -= line.len();
    }
    text.get(from..).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(end: ProcessEnd) -> FailureFacts<'static> {
        FailureFacts { end, oom_killed: false, is_agent: false, printed: "" }
    }

    #[test]
    fn facts_give_the_code() {
        let ends = [
            ProcessEnd::TimedOut,
            ProcessEnd::Idle,
            ProcessEnd::Stopped,
            ProcessEnd::Exited(1),
            ProcessEnd::Exited(66),
            ProcessEnd::Exited(69),
            ProcessEnd::Exited(75),
            ProcessEnd::Exited(77),
            ProcessEnd::Exited(124),
            ProcessEnd::Exited(126),
            ProcessEnd::Exited(127),
            ProcessEnd::Exited(137),
            ProcessEnd::Exited(153),
            ProcessEnd::Signaled(9),
            ProcessEnd::Signaled(11),
            ProcessEnd::Signaled(25),
            ProcessEnd::NotStarted(None),
            ProcessEnd::NotStarted(Some(ErrorKind::NotFound)),
            ProcessEnd::NotStarted(Some(ErrorKind::PermissionDenied)),
            ProcessEnd::NotStarted(Some(ErrorKind::OutOfMemory)),
            ProcessEnd::NotStarted(Some(ErrorKind::ArgumentListTooLong)),
        ];
        let line = |end: ProcessEnd| {
            let plain = classify(facts(end));
            let oom = classify(FailureFacts { oom_killed: true, ..facts(end) });
            let agent = classify(FailureFacts { is_agent: true, ..facts(end) });
            format!("{end:?}: {plain}, agent {agent}, without memory {oom}")
        };
        insta::assert_snapshot!(ends.map(line).join("\n"), @"
        TimedOut: timeout, agent timeout, without memory timeout
        Idle: stalled, agent stalled, without memory stalled
        Stopped: cancelled, agent cancelled, without memory cancelled
        Exited(1): command_failed, agent agent_error, without memory command_failed
        Exited(66): input_missing, agent input_missing, without memory input_missing
        Exited(69): dependency_unavailable, agent dependency_unavailable, without memory dependency_unavailable
        Exited(75): dependency_unavailable, agent dependency_unavailable, without memory dependency_unavailable
        Exited(77): permission_denied, agent permission_denied, without memory permission_denied
        Exited(124): timeout, agent timeout, without memory timeout
        Exited(126): permission_denied, agent permission_denied, without memory permission_denied
        Exited(127): spawn_failed, agent spawn_failed, without memory spawn_failed
        Exited(137): command_failed, agent agent_error, without memory oom_killed
        Exited(153): disk_full, agent disk_full, without memory disk_full
        Signaled(9): command_failed, agent agent_crashed, without memory oom_killed
        Signaled(11): command_failed, agent agent_crashed, without memory command_failed
        Signaled(25): disk_full, agent disk_full, without memory disk_full
        NotStarted(None): spawn_failed, agent spawn_failed, without memory spawn_failed
        NotStarted(Some(NotFound)): spawn_failed, agent spawn_failed, without memory spawn_failed
        NotStarted(Some(PermissionDenied)): permission_denied, agent permission_denied, without memory permission_denied
        NotStarted(Some(OutOfMemory)): oom_killed, agent oom_killed, without memory oom_killed
        NotStarted(Some(ArgumentListTooLong)): payload_too_large, agent payload_too_large, without memory payload_too_large
        ");
    }

    #[test]
    fn a_fact_counts_more_than_text() {
        let printed = "write error: No space left on device";
        let code = |end| classify(FailureFacts { printed, ..facts(end) }).code();
        assert_eq!(code(ProcessEnd::Exited(1)), "disk_full");
        assert_eq!(code(ProcessEnd::Exited(127)), "spawn_failed");
        assert_eq!(code(ProcessEnd::TimedOut), "timeout");
        assert_eq!(code(ProcessEnd::NotStarted(None)), "spawn_failed");
    }

    #[test]
    fn only_the_last_lines_count_and_fewer_of_an_agent() {
        let after = |lines: usize| format!("No space left on device\n{}", "more\n\n".repeat(lines));
        let code = |lines, is_agent| {
            let end = ProcessEnd::Exited(1);
            let printed = after(lines);
            classify(FailureFacts { end, oom_killed: false, is_agent, printed: &printed }).code()
        };
        assert_eq!([code(19, false), code(20, false)], ["disk_full", "command_failed"]);
        assert_eq!([code(4, true), code(5, true)], ["disk_full", "agent_error"]);
    }
}
