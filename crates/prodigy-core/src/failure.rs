//! Why an attempt did not succeed.
//!
//! A failure of a step or an agent is data: it is recorded, shown, and decided
//! upon. An error, in contrast, is prodigy not being able to do its work.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One failed try of a step, as the journal records it.
///
/// The kind is set where the failure happens: at the process exit, the git
/// command, the timer. Nothing reads `message` to learn the kind; the message is
/// for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// What went wrong, for code.
    pub kind: FailureKind,
    /// What went wrong, for people: one line, no full stop.
    pub message: String,
    /// The code the process ended with; a signal is reported as 128 plus its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The last lines of output, masked and bounded.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output_tail: String,
}

/// The cause of a failure, as far as prodigy can tell it for certain.
///
/// The names are the reason codes that users see.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The step outlived its time limit and was ended.
    Timeout,
    /// The step printed nothing for longer than its idle limit and was ended.
    Stalled,
    /// A command ended with a nonzero exit code or by a signal.
    CommandFailed,
    /// A program could not be started.
    SpawnFailed,
    /// The captured output was not in the format asked for.
    ParseError,
    /// A variable had no value, or a value could not be used where it stands.
    TemplateError,
    /// `commit_required` was set and HEAD did not move.
    NoCommit,
    /// The judge of a `validate` block was not satisfied.
    ValidationFailed,
    /// An agent reported an error of its own.
    AgentError,
    /// An agent ended without a usable answer.
    AgentCrashed,
    /// An agent was not allowed to do what it wanted and left nothing behind.
    PermissionDenied,
    /// A file could not be written or would lie outside the worktree.
    WorktreeError,
    /// The disk is full.
    DiskFull,
    /// A branch could not be merged.
    MergeConflict,
    /// The target of a merge has changes of its own in the way; merge steps may report it.
    DirtyTarget,
    /// The input that the items come from is not there or cannot be read.
    InputMissing,
    /// The result of an item does not satisfy its schema.
    SchemaInvalid,
    /// The item was under way when prodigy died, three times.
    PoisonRepeat,
    /// The network or a service on it could not be reached; steps may report it.
    NetworkError,
    /// The supervisor of the processes was lost.
    WorkerLost,
    /// The user or a signal stopped the run.
    Cancelled,
}

impl FailureKind {
    /// Every kind, in the order of the documentation.
    pub const ALL: &[Self] = &[
        Self::Timeout,
        Self::Stalled,
        Self::CommandFailed,
        Self::SpawnFailed,
        Self::ParseError,
        Self::TemplateError,
        Self::NoCommit,
        Self::ValidationFailed,
        Self::AgentError,
        Self::AgentCrashed,
        Self::PermissionDenied,
        Self::WorktreeError,
        Self::DiskFull,
        Self::MergeConflict,
        Self::DirtyTarget,
        Self::InputMissing,
        Self::SchemaInvalid,
        Self::PoisonRepeat,
        Self::NetworkError,
        Self::WorkerLost,
        Self::Cancelled,
    ];

    /// Returns the reason code that users see and write in `retry_on`.
    pub fn code(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Stalled => "stalled",
            Self::CommandFailed => "command_failed",
            Self::SpawnFailed => "spawn_failed",
            Self::ParseError => "parse_error",
            Self::TemplateError => "template_error",
            Self::NoCommit => "no_commit",
            Self::ValidationFailed => "validation_failed",
            Self::AgentError => "agent_error",
            Self::AgentCrashed => "agent_crashed",
            Self::PermissionDenied => "permission_denied",
            Self::WorktreeError => "worktree_error",
            Self::DiskFull => "disk_full",
            Self::MergeConflict => "merge_conflict",
            Self::DirtyTarget => "dirty_target",
            Self::InputMissing => "input_missing",
            Self::SchemaInvalid => "schema_invalid",
            Self::PoisonRepeat => "poison_repeat",
            Self::NetworkError => "network_error",
            Self::WorkerLost => "worker_lost",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl Failure {
    /// Creates a failure without exit code or output.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), exit_code: None, output_tail: String::new() }
    }
}
