//! The outcome of an agent's run, by the end of its process and by its stream.

use jiff::tz::TimeZone;
use prodigy_core::{
    agent::{Conclusion, RunEvidence, evaluate_run as conclude},
    failure::{
        Failure, ReasonCode,
        classify::{FailureFacts, classify},
        signature::error_line,
    },
};

use super::{AgentExit, AgentReport};
use crate::process::{CapturedOutput, ProcessOutcome, ProcessStatus, TerminationReason};

/// The most of the output that a failure carries.
const TAIL_BYTES: usize = 4096;

/// The error number of "argument list too long", which is the same on every Linux.
const E2BIG: i32 = 7;

/// Returns why the process did not succeed, if it did not.
pub(crate) fn process_failure(ended: &ProcessOutcome) -> Option<Failure> {
    let message = match (&ended.ended_by, &ended.status) {
        (Some(TerminationReason::Timeout), _) => "the agent outlived its time limit".to_owned(),
        (Some(TerminationReason::Idle), _) => "the agent printed nothing for too long".to_owned(),
        (Some(TerminationReason::Stop), _) => "the run was stopped".to_owned(),
        (Some(TerminationReason::Listener), _) => "the agent was ended for what it said".to_owned(),
        (None, ProcessStatus::Exited(0)) => return None,
        (None, ProcessStatus::Exited(code)) => {
            format!("the agent exited with code {code}{}", last_words(ended))
        }
        (None, ProcessStatus::Signaled(signal)) => {
            format!("the agent was ended by signal {signal}")
        }
        (None, ProcessStatus::NotStarted { errno: Some(E2BIG), .. }) => {
            "the prompt is too long for an argument; use `prompt: stdin`".to_owned()
        }
        (None, ProcessStatus::NotStarted { message, .. }) => message.clone(),
    };
    let printed = tail(ended);
    let kind = classify(FailureFacts {
        end: ended.process_end(),
        oom_killed: ended.oom_killed,
        is_agent: true,
        printed: &printed,
    });
    Some(with_output(Failure::new(kind, message), ended))
}

/// Adds the exit code and the end of the output to a failure.
pub(crate) fn with_output(failure: Failure, ended: &ProcessOutcome) -> Failure {
    let exit_code = match ended.status {
        ProcessStatus::Exited(_) | ProcessStatus::Signaled(_) => Some(ended.status.code()),
        ProcessStatus::NotStarted { .. } => None,
    };
    Failure { exit_code, output_tail: tail(ended), ..failure }
}

/// Returns what was printed as text, with a mark where something had to be left out.
pub(crate) fn output_text(printed: &CapturedOutput) -> String {
    let missing = omitted_bytes(printed);
    if missing > 0 {
        let head = String::from_utf8_lossy(&printed.head);
        let tail = String::from_utf8_lossy(&printed.tail);
        return format!("{head}\n[{missing} bytes left out]\n{tail}");
    }
    // Head and tail meet, perhaps within a character: they are one text.
    let whole: Vec<u8> = printed.head.iter().chain(&printed.tail).copied().collect();
    String::from_utf8_lossy(&whole).into_owned()
}

/// Returns how many bytes are in neither the head nor the tail.
pub(crate) fn omitted_bytes(printed: &CapturedOutput) -> u64 {
    printed.total.saturating_sub((printed.head.len() + printed.tail.len()) as u64)
}

/// Returns the end of standard error, or of standard output if that is all there is.
fn tail(ended: &ProcessOutcome) -> String {
    output_tail(if ended.stderr.total > 0 { &ended.stderr } else { &ended.stdout })
}

/// Returns the end of what was printed, in whole lines.
pub(crate) fn output_tail(printed: &CapturedOutput) -> String {
    let bytes: Vec<u8> = printed.head.iter().chain(&printed.tail).copied().collect();
    let from = bytes.len().saturating_sub(TAIL_BYTES);
    let text = String::from_utf8_lossy(bytes.get(from..).unwrap_or_default()).into_owned();
    // A cut may leave part of a character and part of a line at the front.
    let text = if from == 0 { text.as_str() } else { text.split_once('\n').map_or("", |t| t.1) };
    text.trim_end().to_owned()
}

fn last_words(ended: &ProcessOutcome) -> String {
    error_line(&tail(ended)).map(|line| format!(": {line}")).unwrap_or_default()
}

/// Judges how such an agent ended.
pub(crate) fn evaluate_stream(traces: &AgentExit<'_>) -> AgentReport {
    let Some(heard) = traces.heard else {
        // Nobody listened, so nobody knows.
        let failure = Failure::new(ReasonCode::InternalError, "nobody listened to the agent");
        return AgentReport { failure: Some(failure), ..AgentReport::default() };
    };
    let ended = traces.ended;
    let report = conclude(RunEvidence {
        end: ended.process_end(),
        oom_killed: ended.oom_killed,
        heard,
        stderr: &output_text(&ended.stderr),
        wants_structured: traces.wants_structured,
        now: traces.now,
        zone: &TimeZone::system(),
    });
    let (limit, failure) = match report.conclusion {
        Conclusion::Answered => (None, None),
        Conclusion::Limited(limit) => (Some(limit), None),
        Conclusion::Failed { kind, message } => (None, Some(Failure::new(kind, message))),
    };
    AgentReport {
        output: report.answer,
        is_printed: false,
        structured: report.structured,
        usage: report.usage,
        cost_usd: report.cost_usd,
        model: report.model,
        session: report.session,
        denied: report.denied,
        limit,
        failure: failure.map(|failure| with_words(failure, traces)),
    }
}

/// Adds the exit code and what the program complained about to a failure; its events say
/// nothing to people.
fn with_words(failure: Failure, traces: &AgentExit<'_>) -> Failure {
    let failure = with_output(failure, traces.ended);
    let complained = traces.ended.stderr.total > 0;
    let last_words = || traces.heard.map(|heard| heard.unparsed_tail().trim_end().to_owned());
    let output_tail =
        if complained { failure.output_tail } else { last_words().unwrap_or_default() };
    Failure { output_tail, ..failure }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use super::*;

    pub(crate) fn printed(text: &str) -> CapturedOutput {
        let head = text.as_bytes().to_vec();
        CapturedOutput { total: head.len() as u64, head, ..CapturedOutput::default() }
    }

    pub(crate) fn ended(status: ProcessStatus, stdout: &str, stderr: &str) -> ProcessOutcome {
        ProcessOutcome {
            status,
            ended_by: None,
            stdout: printed(stdout),
            stderr: printed(stderr),
            duration: Duration::from_millis(5),
            leftovers: 0,
            survivors: 0,
            oom_killed: false,
        }
    }

    fn shown(ended: &ProcessOutcome) -> String {
        let Some(failure) = process_failure(ended) else { return "-".to_owned() };
        format!("{}: {} ({:?})", failure.kind, failure.message, failure.exit_code)
    }

    #[test]
    fn each_end_has_its_kind() {
        let ends = [
            ended(ProcessStatus::Exited(0), "fine", ""),
            ended(ProcessStatus::Exited(3), "", "loading\nno key\n\n"),
            ended(ProcessStatus::Exited(3), "", ""),
            ended(ProcessStatus::Signaled(9), "half", ""),
            ended(ProcessStatus::NotStarted { errno: Some(2), message: "no `x`".into() }, "", ""),
            ended(ProcessStatus::NotStarted { errno: Some(7), message: "too long".into() }, "", ""),
            ProcessOutcome {
                ended_by: Some(TerminationReason::Timeout),
                ..ended(ProcessStatus::Signaled(15), "", "")
            },
            ProcessOutcome {
                ended_by: Some(TerminationReason::Idle),
                ..ended(ProcessStatus::Exited(0), "", "")
            },
            ProcessOutcome {
                ended_by: Some(TerminationReason::Stop),
                ..ended(ProcessStatus::Signaled(15), "", "")
            },
        ];
        insta::assert_snapshot!(ends.iter().map(shown).collect::<Vec<_>>().join("\n"), @"
        -
        agent_error: the agent exited with code 3: no key (Some(3))
        agent_error: the agent exited with code 3 (Some(3))
        agent_crashed: the agent was ended by signal 9 (Some(137))
        spawn_failed: no `x` (None)
        payload_too_large: the prompt is too long for an argument; use `prompt: stdin` (None)
        timeout: the agent outlived its time limit (Some(143))
        stalled: the agent printed nothing for too long (Some(0))
        cancelled: the run was stopped (Some(143))
        ");
    }

    #[test]
    fn a_long_output_keeps_whole_lines_of_its_end() {
        let lines: Vec<_> = (0..2000).map(|n| format!("line {n}")).collect();
        let failure =
            process_failure(&ended(ProcessStatus::Exited(1), "", &lines.join("\n"))).unwrap();
        assert!(failure.output_tail.len() <= TAIL_BYTES);
        assert!(failure.output_tail.starts_with("line 15"), "{}", &failure.output_tail[..20]);
        assert!(failure.output_tail.ends_with("line 1999"));
    }

    #[test]
    fn a_hole_in_the_output_is_said() {
        let hole = CapturedOutput {
            head: b"ab".into(),
            tail: b"yz".into(),
            total: 26,
            ..CapturedOutput::default()
        };
        assert_eq!(output_text(&hole), "ab\n[22 bytes left out]\nyz");
        let split = CapturedOutput {
            head: vec![b'a', 0xc3],
            tail: vec![0xa4, b'b'],
            total: 4,
            ..CapturedOutput::default()
        };
        assert_eq!(output_text(&split), "aäb");
    }
}
