//! From the end of an attempt to a dead letter.
//!
//! Everything here is a function of what it is given: no clock, no files, and nothing that
//! could fail.

use serde_json::value::RawValue;

use super::{
    CommitState, DeadLetteredItem, EntryStatus, ErrorType, FailureDetail, ReplayStatus,
    SCHEMA_VERSION, WorktreeArtifacts,
};
use crate::{
    Timestamp,
    failure::{
        DefaultAction, Failure, ReasonCode,
        signature::{ErrorSignature, error_type},
    },
    ids::{ItemId, JobId},
    json_value::sha256,
    replay::ReplayPolicy,
};

/// One attempt of an item that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentResult {
    /// The job.
    pub job_id: JobId,
    /// The item.
    pub item_id: ItemId,
    /// The agent that made the attempt; empty if none did.
    pub agent_id: String,
    /// The name of the item's work over all attempts.
    pub correlation_id: String,
    /// The SHA-256 of the workflow as it was run.
    pub workflow_hash: String,
    /// The outcome of the attempt.
    pub status: AgentStatus,
    /// The path of the step that failed, if it was a step: `2`.
    pub step: Option<String>,
    /// The display name of that step: `shell: cargo test`.
    pub step_name: Option<String>,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// The duration of the attempt.
    pub duration_ms: u64,
    /// The cost of the attempt.
    pub cost_usd: f64,
    /// The agent's own name for its work.
    pub session_id: Option<String>,
    /// The file with all that it printed.
    pub json_log_location: Option<String>,
    /// The artifacts of the attempt.
    pub worktree: Option<WorktreeArtifacts>,
    /// The number of the record that says so.
    pub journal_seq: u64,
}

/// The outcome of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentStatus {
    /// It did its work.
    Success,
    /// It failed.
    Failed(Failure),
    /// It took too long, or was silent for too long.
    Timeout(Failure),
}

impl AgentStatus {
    /// Returns how an attempt ended that failed.
    pub fn of(failure: Failure) -> Self {
        match error_type(failure.kind) {
            "Timeout" => Self::Timeout(failure),
            // The other names all stand for something that went wrong.
            _ => Self::Failed(failure),
        }
    }

    /// Returns why it failed, if it did.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Success => None,
            Self::Failed(failure) | Self::Timeout(failure) => Some(failure),
        }
    }
}

/// Makes the dead letter of an item whose last attempt failed; `None` if it did not.
pub fn agent_result_to_dlq_item(
    result: &AgentResult,
    work_item: &RawValue,
    attempt_number: u32,
) -> Option<DeadLetteredItem> {
    let mut entry = unsealed(result, work_item, attempt_number)?;
    entry.update_hash();
    Some(entry)
}

/// Makes the dead letter of an item whose last attempt failed, without its hash.
pub(crate) fn unsealed(
    result: &AgentResult,
    work_item: &RawValue,
    attempt_number: u32,
) -> Option<DeadLetteredItem> {
    let failure = result.status.failure()?;
    let signature = create_error_signature(failure, &result.item_id);
    Some(DeadLetteredItem {
        schema_version: SCHEMA_VERSION,
        revision: 1,
        job_id: result.job_id.clone(),
        item_id: result.item_id.clone(),
        correlation_id: result.correlation_id.clone(),
        topic: topic(result.step.as_deref()),
        status: EntryStatus::Open,
        replay_status: replay_status(failure.kind),
        reason_code: failure.kind,
        class: failure.kind.class(),
        cause_code: None,
        reason: failure.message.clone(),
        attempts: attempt_number,
        replays: 0,
        item_data: work_item.to_owned(),
        input_hash: sha256(work_item.get().as_bytes()),
        workflow_hash: result.workflow_hash.clone(),
        idempotency_key: format!("{}:{}", result.job_id, result.item_id),
        policy_snapshot: ReplayPolicy::builtin().snapshot().to_owned(),
        first_attempt: result.started_at,
        last_attempt: result.ended_at,
        failure_count: 1,
        failure_history: create_failure_detail(result, attempt_number).into_iter().collect(),
        error_signature: signature.hash,
        error_pattern: signature.pattern,
        reprocess_eligible: is_reprocessable(failure.kind),
        manual_review_required: requires_manual_review(failure.kind),
        worktree_artifacts: extract_worktree_artifacts(result),
        commit_state: commit_state(!result.agent_id.is_empty()),
        effects: Vec::new(),
        tool_hash: String::new(),
        env_hash: String::new(),
        replay_cost_usd: 0.0,
        quarantine: None,
        released: None,
        lineage: Vec::new(),
        approval: None,
        not_before: None,
        owner: None,
        closed: None,
        journal_seq: result.journal_seq,
        record_hash: String::new(),
    })
}

/// Says how an attempt failed; `None` if it did not.
pub fn create_failure_detail(result: &AgentResult, attempt_number: u32) -> Option<FailureDetail> {
    let failure = result.status.failure()?;
    let step_failed = result.step_name.clone().unwrap_or_else(|| topic(result.step.as_deref()));
    Some(FailureDetail {
        attempt_number,
        timestamp: result.ended_at,
        error_type: classify_error(failure, result.step_name.as_deref()),
        error_message: failure.message.clone(),
        error_context: context(result, attempt_number),
        stack_trace: stack_trace(&failure.output_tail),
        agent_id: result.agent_id.clone(),
        step_failed,
        duration_ms: result.duration_ms,
        json_log_location: result.json_log_location.clone(),
        reason_code: failure.kind,
        exit_code: failure.exit_code,
        cost_usd: result.cost_usd,
        session_id: result.session_id.clone(),
        output_tail: failure.output_tail.clone(),
    })
}

/// Returns what dead letters of the same cause have in common.
pub fn create_error_signature(failure: &Failure, item: &ItemId) -> ErrorSignature {
    ErrorSignature::of(failure, item)
}

/// Returns the kind of error that programs reading dead letters know a failure as.
///
/// It follows from the reason code, which is set where the failure happens; the message is
/// for people and is not read.
pub fn classify_error(failure: &Failure, command: Option<&str>) -> ErrorType {
    match error_type(failure.kind) {
        "Timeout" => ErrorType::Timeout,
        "CommandFailed" => ErrorType::CommandFailed {
            command: command.unwrap_or_default().to_owned(),
            exit_code: failure.exit_code,
        },
        "PermissionError" => ErrorType::PermissionError,
        "ValidationFailed" => ErrorType::ValidationFailed,
        "WorktreeError" => ErrorType::WorktreeError,
        "MergeConflict" => ErrorType::MergeConflict,
        "CommitValidationFailed" => ErrorType::CommitValidationFailed,
        "ResourceExhausted" => ErrorType::ResourceExhausted,
        "NetworkError" => ErrorType::NetworkError,
        _ => ErrorType::Unknown,
    }
}

/// Returns what an attempt left behind, with the last that it printed.
pub fn extract_worktree_artifacts(result: &AgentResult) -> Option<WorktreeArtifacts> {
    let mut artifacts = result.worktree.clone()?;
    let printed = result.status.failure().map(|failure| failure.output_tail.as_str());
    if let Some(printed) = printed.filter(|printed| !printed.is_empty()) {
        artifacts.error_logs.get_or_insert_with(|| printed.to_owned());
    }
    Some(artifacts)
}

/// Returns whether a dead letter of this kind can be replayed without anything being changed.
pub fn is_reprocessable(kind: ReasonCode) -> bool {
    replay_status(kind) == ReplayStatus::Pending
}

/// Returns whether a person has to look at a dead letter of this kind first.
pub fn requires_manual_review(kind: ReasonCode) -> bool {
    replay_status(kind) == ReplayStatus::PendingReview
}

/// Returns what becomes of an open dead letter of this kind.
pub(crate) fn replay_status(kind: ReasonCode) -> ReplayStatus {
    match kind.action() {
        DefaultAction::Always | DefaultAction::Once => ReplayStatus::Pending,
        // Whether something outside was changed is for a person to find out.
        DefaultAction::Check
        | DefaultAction::Approval
        | DefaultAction::Review
        | DefaultAction::Never => ReplayStatus::PendingReview,
        DefaultAction::Quarantine => ReplayStatus::Quarantined,
    }
}

/// Returns what the attempts of an item may have changed.
pub(crate) fn commit_state(began: bool) -> CommitState {
    if began { CommitState::Local } else { CommitState::None }
}

/// Returns the path of a step of an item, seen from the job.
fn topic(step: Option<&str>) -> String {
    step.map_or_else(|| "map".to_owned(), |step| format!("map.{step}"))
}

/// Says what was being done, from the whole to the part.
fn context(result: &AgentResult, attempt_number: u32) -> Vec<String> {
    let mut context = vec![format!("processing {}", result.item_id)];
    if !result.agent_id.is_empty() {
        context.push(format!("attempt {attempt_number} by {}", result.agent_id));
    }
    match (&result.step, &result.step_name) {
        (Some(step), Some(name)) => context.push(format!("step {step}: {name}")),
        (Some(step), None) => context.push(format!("step {step}")),
        (None, Some(name)) => context.push(name.clone()),
        (None, None) => {}
    }
    context
}

/// The most of a trace that is kept, in bytes.
const LIMIT: usize = 4096;
/// The start of the line with which Java begins the trace of a cause.
const CAUSE: &str = "Caused by: ";

/// Returns the part of a program's last output that shows where it broke off.
///
/// The forms known are those of Rust, Python, Java, JavaScript and Go. If there are several,
/// the last one counts: it is the one that ended the program.
pub(crate) fn stack_trace(output: &str) -> Option<String> {
    let lines: Vec<&str> = output.lines().collect();
    let panic = lines.iter().rposition(|line| begins(line));
    let goroutine = || lines.iter().position(|line| is_goroutine(line));
    let start = panic.or_else(goroutine).or_else(|| first_frame(&lines))?;
    let rest = lines.get(start..).unwrap_or_default();
    let length = 1 + rest.iter().skip(1).take_while(|line| continues_trace(line, rest)).count();
    let trace = rest.get(..length).unwrap_or_default().join("\n");
    let trace = trace.trim_end();
    let end = (0..=LIMIT.min(trace.len())).rev().find(|end| trace.is_char_boundary(*end));
    trace.get(..end.unwrap_or_default()).filter(|trace| !trace.is_empty()).map(str::to_owned)
}

/// Returns whether a line is the first of a trace.
fn begins(line: &str) -> bool {
    let is_rust = line.starts_with("thread '") && line.contains("panicked at");
    let is_go = line.starts_with("panic: ") || line.starts_with("fatal error: ");
    is_rust || is_go || line.starts_with("Traceback (most recent call last)")
}

/// Returns whether a line is the heading of what Go prints for one of its routines.
fn is_goroutine(line: &str) -> bool {
    line.starts_with("goroutine ") && line.ends_with(':')
}

/// Returns the line before the first frame, which says what went wrong.
fn first_frame(lines: &[&str]) -> Option<usize> {
    let last = lines.iter().rposition(|line| is_frame(line))?;
    let before = lines.get(..last)?;
    let is_other = |line: &&str| !is_frame(line) && !line.starts_with(CAUSE);
    let first = before.iter().rposition(is_other).map_or(0, |at| at + 1);
    Some(first.saturating_sub(1))
}

/// Returns whether a line is a frame as Java and JavaScript print it.
fn is_frame(line: &str) -> bool {
    line.starts_with(char::is_whitespace) && line.trim_start().starts_with("at ")
}

/// Returns whether a line goes on with the trace that begins with `trace`.
fn continues_trace(line: &str, trace: &[&str]) -> bool {
    let first = trace.first().copied().unwrap_or_default();
    if first.starts_with("Traceback") {
        // The frames are indented; the error itself is not, and ends the trace.
        let at = trace.iter().position(|other| std::ptr::eq(*other, line)).unwrap_or_default();
        let before = trace.get(1..at).unwrap_or_default();
        return before.iter().all(|line| line.starts_with(' '));
    }
    if is_frame(trace.get(1).copied().unwrap_or_default()) {
        return is_frame(line) || line.starts_with(CAUSE);
    }
    // Rust and Go print what they have to say to the end.
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trace_of_a_program_is_found_in_its_output() {
        let outputs = [
            "running 1 test\nthread 'main' panicked at src/main.rs:42:5:\nindex out of bounds\nnote: run with `RUST_BACKTRACE=1`",
            "collected 3 items\nTraceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    f()\n  File \"a.py\", line 1, in f\nValueError: no\nmake: *** [test] Error 1",
            "> test\n/x/a.js:3\nTypeError: x is not a function\n    at f (/x/a.js:3:9)\n    at main (/x/a.js:7:1)\n\nNode.js v20",
            "Exception in thread \"main\" java.lang.Error: no\n\tat a.B.c(B.java:1)\nCaused by: java.io.IOException\n\tat a.B.d(B.java:2)\nBUILD FAILED",
            "panic: no\n\ngoroutine 1 [running]:\nmain.main()\n\t/x/a.go:4 +0x1d\nexit status 2",
            "error: it did not work\nlook at the documentation",
            "",
        ];
        let traces = outputs.map(|output| stack_trace(output).unwrap_or("none".to_owned()));
        insta::assert_snapshot!(traces.join("\n---\n"), @r#"
        thread 'main' panicked at src/main.rs:42:5:
        index out of bounds
        note: run with `RUST_BACKTRACE=1`
        ---
        Traceback (most recent call last):
          File "a.py", line 3, in <module>
            f()
          File "a.py", line 1, in f
        ValueError: no
        ---
        TypeError: x is not a function
            at f (/x/a.js:3:9)
            at main (/x/a.js:7:1)
        ---
        Exception in thread "main" java.lang.Error: no
        	at a.B.c(B.java:1)
        Caused by: java.io.IOException
        	at a.B.d(B.java:2)
        ---
        panic: no

        goroutine 1 [running]:
        main.main()
        	/x/a.go:4 +0x1d
        exit status 2
        ---
        none
        ---
        none
        "#);
    }

    #[test]
    fn a_trace_is_bounded_and_ends_with_a_whole_character() {
        let output = format!("thread 'main' panicked at {}", "é".repeat(LIMIT));
        let trace = stack_trace(&output).unwrap();
        assert!(trace.len() <= LIMIT && trace.ends_with('é'), "{}", trace.len());
    }
}
