//! Advice on dead letters, by the reason of the failure.

use prodigy_core::failure::ReasonCode;

/// Returns what a person could look at or change about a cause.
pub(crate) fn advice_for_reason(kind: ReasonCode) -> &'static str {
    use ReasonCode as K;
    match kind {
        K::Timeout => "give it more time with `timeout`, or smaller items; then replay",
        K::Stalled => "see what it waited for, or raise the idle limit; then replay",
        K::DependencyUnavailable | K::NetworkError | K::StoreUnavailable => {
            "check that what it needs can be reached; then replay"
        }
        K::RateLimited | K::ProviderOverloaded => "wait a while, then replay with fewer at once",
        K::NoWorkers | K::WorkerLost | K::Interrupted | K::MaxSchedulingRetries => {
            "nothing is wrong with the item: replay"
        }
        K::SpawnFailed => "check that the program is installed and on `PATH`; then replay",
        K::OomKilled => "run fewer at once, or give it more memory; then replay",
        K::DiskFull => "make room, e.g. with `prodigy worktree clean`; then replay",
        K::BudgetExceeded => {
            "raise `item_usd`, or `max_budget_usd` of the step; then replay with `--use-current-workflow`"
        }
        K::QuotaExhausted => "raise the quota of the account, or wait until it is renewed",
        K::TurnLimit => "allow more turns, or make the task smaller",
        K::ContextOverflow | K::PayloadTooLarge => "make the item smaller: it does not fit",
        K::OutputTooLarge => "ask for less, or for a file in the worktree instead of a long answer",
        K::SchemaInvalid | K::ParseError | K::OutputUnparseable => {
            "look at what was produced and at the format that is asked for"
        }
        K::TemplateError => {
            "the item lacks what a template uses: correct the items or the workflow"
        }
        K::ToolContractMismatch => "check the version of the tool and how it is called",
        K::InputMissing => "put back what the item names, or correct the item",
        K::PoisonRepeat => "prodigy died over this item again and again: find out what it does",
        K::CommandFailed => "read its output; fix the command or its input, then replay",
        K::ValidationFailed => "see what the validation missed: the prompt may ask for too little",
        K::NoCommit => "see whether there was anything to do; the step has to commit",
        K::AgentCrashed => "replay; if it crashes again, run the agent by hand in the worktree",
        K::AgentError | K::AgentRefused => "read what the agent says; change the prompt or drop it",
        K::MergeConflict => "replay: it starts from what the others merged",
        K::WorktreeError => "check the disk and the repository, then replay",
        K::DirtyTarget => "commit or stash the changes that are in the way, then replay",
        K::HookFailed => "see what the git hook objects to",
        K::PushRejected => "fetch and look what was pushed before it is tried again",
        K::Denied
        | K::ApprovalRequired
        | K::ApprovalRejected
        | K::ApprovalExpired
        | K::PolicySnapshotMismatch => "it needs approval",
        K::PermissionDenied => "give it the permission that it lacks, or take the need away",
        K::AuthFailed => "renew the credential: nothing succeeds without it",
        K::SecretDetected => "take the secret out of the item or the output, and renew it",
        K::UnknownCommitState
        | K::PartialExternalWrite
        | K::EffectCheckFailed
        | K::CompensationFailed
        | K::IdempotencyConflict => "find out by hand what was changed outside",
        K::ReplayDenied | K::ReplayBudgetExhausted => "look why the replays before it failed",
        K::Cancelled => "it was stopped on purpose: drop it, or replay it on purpose",
        K::InternalError | K::CorruptRecord => "check with `prodigy doctor` and `prodigy verify`",
        K::Reconstructed | K::Unclassified => "read its output: nothing else is known",
    }
}
