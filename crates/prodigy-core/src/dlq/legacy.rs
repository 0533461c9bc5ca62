//! Reading dead letters of every shape there ever was.

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{
    AgentResult, AgentStatus, DeadLetteredItem, ErrorType, FailureDetail, ReplayStatus,
    SCHEMA_VERSION, WorktreeArtifacts, dead_letter::record_hash, failure_detail,
};
use crate::{
    Timestamp,
    failure::{Failure, ReasonCode},
    ids::{ItemId, JobId},
};

/// The reason why the text of a dead letter cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeadLetterError {
    /// It is not a dead letter.
    #[error("it is not a dead letter: {0}")]
    Shape(String),
    /// It was changed after it was written, or only a part of it is left.
    #[error("it was changed since it was written")]
    Altered,
    /// A newer prodigy wrote it.
    #[error("it was written by a newer prodigy: its version is {0}")]
    Newer(u32),
}

/// The version field, which tells the shapes apart.
#[derive(Deserialize)]
struct EntryVersion {
    #[serde(default)]
    schema_version: u32,
}

/// The facts that the file of an entry gives besides its text; older shapes rely on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryFile {
    /// The job whose file it is.
    pub job: JobId,
    /// The item that the file is named after.
    pub item: Option<ItemId>,
    /// When it was written.
    pub written_at: Option<Timestamp>,
}

/// Everything that the shapes before [`SCHEMA_VERSION`] 2 have.
#[derive(Deserialize)]
struct LegacyEntry {
    item_id: Option<ItemId>,
    item_data: Option<Box<RawValue>>,
    correlation_id: Option<String>,
    // Of the first shape of ours.
    job_id: Option<JobId>,
    reason_code: Option<ReasonCode>,
    reason: Option<String>,
    attempts: Option<u32>,
    failure: Option<Failure>,
    // Of the shape with a history.
    first_attempt: Option<Timestamp>,
    last_attempt: Option<Timestamp>,
    failure_count: Option<u32>,
    #[serde(default)]
    failure_history: Vec<LegacyFailure>,
    reprocess_eligible: Option<bool>,
    manual_review_required: Option<bool>,
    worktree_artifacts: Option<WorktreeArtifacts>,
    // Of the flat shape.
    failure_reason: Option<String>,
    error_details: Option<String>,
    failed_at: Option<Timestamp>,
    attempt_count: Option<u32>,
    // Of the shape for triage, which knows of no items.
    topic: Option<String>,
    idempotency_key: Option<String>,
    policy_snapshot: Option<String>,
    replay_status: Option<ReplayStatus>,
}

/// A failed attempt as it was written without a reason code.
#[derive(Deserialize)]
struct LegacyFailure {
    attempt_number: u32,
    timestamp: Timestamp,
    #[serde(default)]
    error_type: Value,
    #[serde(default)]
    error_message: String,
    #[serde(default)]
    error_context: Option<Vec<String>>,
    stack_trace: Option<String>,
    #[serde(default)]
    agent_id: String,
    #[serde(default)]
    step_failed: String,
    #[serde(default)]
    duration_ms: u64,
    json_log_location: Option<String>,
}

impl DeadLetteredItem {
    /// Reads a dead letter of a job, whatever the program that wrote it.
    ///
    /// The older shapes say less: what they leave out follows from what they say.
    pub fn read(text: &str, file: &EntryFile) -> Result<Self, DeadLetterError> {
        let shape = |error: serde_json::Error| DeadLetterError::Shape(error.to_string());
        let EntryVersion { schema_version } = serde_json::from_str(text).map_err(shape)?;
        match schema_version {
            0 | 1 => serde_json::from_str::<LegacyEntry>(text).map_err(shape)?.modern(file),
            SCHEMA_VERSION => {
                let entry: Self = serde_json::from_str(text).map_err(shape)?;
                let is_whole = record_hash(text).as_deref() == Some(&entry.record_hash);
                if is_whole { Ok(entry) } else { Err(DeadLetterError::Altered) }
            }
            newer => Err(DeadLetterError::Newer(newer)),
        }
    }
}

impl LegacyEntry {
    fn modern(self, file: &EntryFile) -> Result<DeadLetteredItem, DeadLetterError> {
        let wrong = |why: &str| DeadLetterError::Shape(why.to_owned());
        // Without a name of its own it is the one that its file is named after.
        let named = self.topic.as_ref().and(file.item.clone());
        let item_id = self.item_id.or(named).ok_or_else(|| wrong("it names no item"))?;
        let item_data = match self.item_data {
            Some(data) => data,
            None if self.topic.is_some() => RawValue::NULL.to_owned(),
            None => return Err(wrong("it has no `item_data`")),
        };
        let history: Vec<FailureDetail> =
            self.failure_history.into_iter().map(LegacyFailure::modern).collect();
        let last = history.last();
        let failure = match (self.failure, last, self.failure_reason) {
            (Some(failure), _, _) => failure,
            (None, Some(last), _) => Failure {
                kind: last.reason_code,
                message: last.error_message.clone(),
                exit_code: last.exit_code,
                output_tail: self.error_details.unwrap_or_default(),
                cause: None,
            },
            (None, None, Some(message)) => {
                let kind = self.reason_code.unwrap_or(ReasonCode::Unclassified);
                let output_tail = self.error_details.unwrap_or_default();
                Failure { output_tail, ..Failure::new(kind, message) }
            }
            (None, None, None) => {
                let message =
                    self.reason.ok_or_else(|| wrong("it does not say why the item failed"))?;
                Failure::new(self.reason_code.unwrap_or(ReasonCode::Unclassified), message)
            }
        };
        let ended = self.last_attempt.or(self.failed_at).or(last.map(|last| last.timestamp));
        let written = file.written_at.filter(|_| self.topic.is_some());
        let ended_at =
            ended.or(written).ok_or_else(|| wrong("it does not say when the item failed"))?;
        let counts = [self.attempts, self.attempt_count, self.failure_count];
        let attempts = counts.into_iter().flatten().next();
        let attempts = attempts.unwrap_or_else(|| last.map_or(1, |last| last.attempt_number));
        let agent_id = last.map(|last| last.agent_id.clone()).unwrap_or_default();
        let result = AgentResult {
            job_id: self.job_id.unwrap_or_else(|| file.job.clone()),
            item_id,
            agent_id,
            correlation_id: self.correlation_id.unwrap_or_default(),
            workflow_hash: String::new(),
            status: AgentStatus::of(failure),
            step: None,
            step_name: last.map(|last| last.step_failed.clone()),
            started_at: self.first_attempt.unwrap_or(ended_at),
            ended_at,
            duration_ms: last.map_or(0, |last| last.duration_ms),
            cost_usd: 0.0,
            session_id: None,
            json_log_location: last.and_then(|last| last.json_log_location.clone()),
            worktree: self.worktree_artifacts,
            journal_seq: 0,
        };
        let entry = failure_detail::agent_result_to_dlq_item(&result, &item_data, attempts);
        let mut entry = entry.ok_or_else(|| wrong("it does not say why the item failed"))?;
        entry.topic = self.topic.unwrap_or(entry.topic);
        entry.idempotency_key = self.idempotency_key.unwrap_or(entry.idempotency_key);
        entry.policy_snapshot = self.policy_snapshot.unwrap_or(entry.policy_snapshot);
        if let Some(next) = self.replay_status {
            entry.replay_status = next;
            entry.reprocess_eligible = next == ReplayStatus::Pending;
            entry.manual_review_required = next == ReplayStatus::PendingReview;
        }
        entry.failure_count = self.failure_count.unwrap_or(attempts);
        if !history.is_empty() {
            entry.failure_history = history;
        }
        entry.reprocess_eligible = self.reprocess_eligible.unwrap_or(entry.reprocess_eligible);
        entry.manual_review_required =
            self.manual_review_required.unwrap_or(entry.manual_review_required);
        entry.update_hash();
        Ok(entry)
    }
}

impl LegacyFailure {
    fn modern(self) -> FailureDetail {
        let error_type = serde_json::from_value(self.error_type).unwrap_or(ErrorType::Unknown);
        let exit_code = match &error_type {
            ErrorType::CommandFailed { exit_code, .. } => *exit_code,
            ErrorType::Timeout
            | ErrorType::PermissionError
            | ErrorType::ValidationFailed
            | ErrorType::WorktreeError
            | ErrorType::MergeConflict
            | ErrorType::CommitValidationFailed
            | ErrorType::ResourceExhausted
            | ErrorType::NetworkError
            | ErrorType::Unknown => None,
        };
        FailureDetail {
            attempt_number: self.attempt_number,
            timestamp: self.timestamp,
            reason_code: kind(&error_type),
            error_type,
            error_message: self.error_message,
            error_context: self.error_context.unwrap_or_default(),
            stack_trace: self.stack_trace,
            agent_id: self.agent_id,
            step_failed: self.step_failed,
            duration_ms: self.duration_ms,
            json_log_location: self.json_log_location,
            exit_code,
            cost_usd: 0.0,
            session_id: None,
            output_tail: String::new(),
        }
    }
}

/// Returns the reason code that comes nearest to a kind of error.
fn kind(error_type: &ErrorType) -> ReasonCode {
    match error_type {
        ErrorType::Timeout => ReasonCode::Timeout,
        ErrorType::CommandFailed { .. } => ReasonCode::CommandFailed,
        ErrorType::PermissionError => ReasonCode::PermissionDenied,
        ErrorType::ValidationFailed => ReasonCode::ValidationFailed,
        ErrorType::WorktreeError => ReasonCode::WorktreeError,
        ErrorType::MergeConflict => ReasonCode::MergeConflict,
        ErrorType::CommitValidationFailed => ReasonCode::NoCommit,
        ErrorType::ResourceExhausted => ReasonCode::QuotaExhausted,
        ErrorType::NetworkError => ReasonCode::NetworkError,
        ErrorType::Unknown => ReasonCode::Unclassified,
    }
}
