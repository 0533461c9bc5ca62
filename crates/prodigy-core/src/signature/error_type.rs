//! The names of error types in dead letters and metrics.

use crate::failure::FailureKind;

/// Returns the documented error type that a kind of failure belongs to.
///
/// The types are older and fewer than the reason codes, and programs that read
/// dead letters know them, so every code has to be one of them.
pub fn error_type(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Timeout | FailureKind::Stalled => "Timeout",
        // An agent is a command, too.
        FailureKind::CommandFailed
        | FailureKind::SpawnFailed
        | FailureKind::AgentError
        | FailureKind::AgentCrashed => "CommandFailed",
        FailureKind::PermissionDenied => "PermissionError",
        // What went in or came out was not what it must be.
        FailureKind::ValidationFailed
        | FailureKind::SchemaInvalid
        | FailureKind::ParseError
        | FailureKind::TemplateError
        | FailureKind::InputMissing => "ValidationFailed",
        FailureKind::WorktreeError | FailureKind::DirtyTarget => "WorktreeError",
        FailureKind::MergeConflict => "MergeConflict",
        FailureKind::NoCommit => "CommitValidationFailed",
        FailureKind::DiskFull => "ResourceExhausted",
        FailureKind::NetworkError => "NetworkError",
        FailureKind::WorkerLost | FailureKind::PoisonRepeat | FailureKind::Cancelled => "Unknown",
    }
}
