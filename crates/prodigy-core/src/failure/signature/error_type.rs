//! The names of error types in dead letters and metrics.

use crate::failure::ReasonCode as Kind;

/// Returns the documented error type that a kind of failure belongs to.
///
/// The types are older and fewer than the reason codes, and programs that read
/// dead letters know them, so every code has to be one of them.
pub fn error_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Timeout | Kind::Stalled => "Timeout",
        Kind::MergeConflict => "MergeConflict",
        Kind::WorktreeError | Kind::DirtyTarget => "WorktreeError",
        Kind::NoCommit => "CommitValidationFailed",
        // An agent is a command, too, and so is a hook.
        Kind::CommandFailed
        | Kind::SpawnFailed
        | Kind::HookFailed
        | Kind::OutputUnparseable
        | Kind::OutputTooLarge
        | Kind::AgentCrashed
        | Kind::AgentError
        | Kind::AgentRefused => "CommandFailed",
        // Somebody on the network did not answer, or refused.
        Kind::NetworkError
        | Kind::DependencyUnavailable
        | Kind::RateLimited
        | Kind::ProviderOverloaded
        | Kind::PushRejected => "NetworkError",
        Kind::OomKilled
        | Kind::DiskFull
        | Kind::BudgetExceeded
        | Kind::QuotaExhausted
        | Kind::TurnLimit
        | Kind::ContextOverflow => "ResourceExhausted",
        // What went in or came out was not what it must be.
        Kind::ValidationFailed
        | Kind::SchemaInvalid
        | Kind::ParseError
        | Kind::TemplateError
        | Kind::ToolContractMismatch
        | Kind::PayloadTooLarge
        | Kind::InputMissing => "ValidationFailed",
        Kind::PermissionDenied
        | Kind::AuthFailed
        | Kind::SecretDetected
        | Kind::Denied
        | Kind::ApprovalRequired
        | Kind::ApprovalRejected
        | Kind::ApprovalExpired
        | Kind::PolicySnapshotMismatch => "PermissionError",
        // Nothing about the item or its steps is known to be wrong.
        Kind::NoWorkers
        | Kind::WorkerLost
        | Kind::Interrupted
        | Kind::MaxSchedulingRetries
        | Kind::StoreUnavailable
        | Kind::PoisonRepeat
        | Kind::UnknownCommitState
        | Kind::PartialExternalWrite
        | Kind::EffectCheckFailed
        | Kind::CompensationFailed
        | Kind::IdempotencyConflict
        | Kind::ReplayDenied
        | Kind::ReplayBudgetExhausted
        | Kind::Cancelled
        | Kind::InternalError
        | Kind::CorruptRecord
        | Kind::Reconstructed
        | Kind::Unclassified => "Unknown",
    }
}
