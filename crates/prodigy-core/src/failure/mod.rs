//! Failures: the reasons why attempts do not succeed.
//!
//! A failure of a step or an agent is data: it is recorded, shown, and decided
//! upon. An error, in contrast, is prodigy not being able to do its work.

pub mod classify;
pub mod signature;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::nearest::did_you_mean;

/// One failed try of a step, as the journal records it.
///
/// The kind is set where the failure happens: at the process exit, the git
/// command, the timer. Nothing reads `message` to learn the kind; the message is
/// for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// The reason code.
    pub kind: ReasonCode,
    /// The failure message, for people: one line, no full stop.
    pub message: String,
    /// The code the process ended with; a signal is reported as 128 plus its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The last lines of output, masked and bounded.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output_tail: String,
    /// The reason code before it was known that something outside may have been changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<ReasonCode>,
}

/// Defines the reason codes once: for the type, the names, the classes and the default actions.
macro_rules! reason_codes {
    ($($(#[doc = $doc:literal])+ $kind:ident = $code:literal ($class:ident, $action:ident);)*) => {
        /// The cause of a failure, as far as prodigy can tell it for certain.
        ///
        /// The names are the reason codes that users see. The set is closed: whatever
        /// decides over a failure can rely on knowing all of them.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
            JsonSchema,
        )]
        #[serde(rename_all = "snake_case")]
        pub enum ReasonCode {
            $($(#[doc = $doc])+ $kind,)*
        }

        impl ReasonCode {
            /// Every kind, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// Every reason code, in the same order.
            pub const CODES: &[&str] = &[$($code),*];

            /// Returns the reason code that users see and write in `retry_on`.
            pub fn code(self) -> &'static str {
                match self {
                    $(Self::$kind => $code,)*
                }
            }

            /// Returns what it means, for people.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$kind => concat!($($doc),+).trim_ascii_start(),)*
                }
            }

            /// Returns what kind of reason it is.
            pub fn class(self) -> ReasonClass {
                match self {
                    $(Self::$kind => ReasonClass::$class,)*
                }
            }

            /// Returns what becomes of a dead letter of this kind if no policy says otherwise.
            pub fn action(self) -> DefaultAction {
                match self {
                    $(Self::$kind => DefaultAction::$action,)*
                }
            }
        }
    };
}

reason_codes! {
    /// The step outlived its time limit and was ended.
    Timeout = "timeout" (Transient, Always);
    /// The step printed nothing for longer than its idle limit and was ended.
    Stalled = "stalled" (Transient, Always);
    /// Something that the step needs was not there just now.
    DependencyUnavailable = "dependency_unavailable" (Transient, Always);
    /// The network or a service on it could not be reached.
    NetworkError = "network_error" (Transient, Always);
    /// A service asked for fewer requests.
    RateLimited = "rate_limited" (Transient, Always);
    /// The agent's model had no room for the request.
    ProviderOverloaded = "provider_overloaded" (Transient, Always);
    /// Nobody was there to make the attempt.
    NoWorkers = "no_workers" (Transient, Always);
    /// Whoever made the attempt was lost: the supervisor of its processes is gone.
    WorkerLost = "worker_lost" (Transient, Always);
    /// The attempt was cut off: the run was stopped, or its process ended before it.
    Interrupted = "interrupted" (Transient, Always);
    /// A program could not be started.
    SpawnFailed = "spawn_failed" (Transient, Once);
    /// The attempt could not be handed out for too long.
    MaxSchedulingRetries = "max_scheduling_retries" (Transient, Always);
    /// A file or a server that keeps state could not be reached.
    StoreUnavailable = "store_unavailable" (Transient, Always);
    /// A process needed more memory than there was.
    OomKilled = "oom_killed" (Resource, Once);
    /// The disk is full.
    DiskFull = "disk_full" (Resource, Review);
    /// The money that was set aside is spent.
    BudgetExceeded = "budget_exceeded" (Resource, Approval);
    /// A limit of an account was reached that time alone does not lift.
    QuotaExhausted = "quota_exhausted" (Resource, Review);
    /// An agent used all its turns.
    TurnLimit = "turn_limit" (Resource, Approval);
    /// The task does not fit into what the agent can hold at once.
    ContextOverflow = "context_overflow" (Resource, Quarantine);
    /// A result does not satisfy its schema.
    SchemaInvalid = "schema_invalid" (Poison, Quarantine);
    /// Output or a file was not in the format asked for.
    ParseError = "parse_error" (Poison, Quarantine);
    /// A variable had no value, or a value could not be used where it stands.
    TemplateError = "template_error" (Poison, Quarantine);
    /// A tool and whoever called it do not agree on what is passed.
    ToolContractMismatch = "tool_contract_mismatch" (Poison, Quarantine);
    /// The item is too large for what has to take it.
    PayloadTooLarge = "payload_too_large" (Poison, Quarantine);
    /// Something that the item names is not there or cannot be read.
    InputMissing = "input_missing" (Poison, Quarantine);
    /// The item was under way when prodigy died, three times.
    PoisonRepeat = "poison_repeat" (Poison, Quarantine);
    /// A command ended with a nonzero exit code or by a signal.
    CommandFailed = "command_failed" (Agent, Once);
    /// The judge of a `validate` block was not satisfied.
    ValidationFailed = "validation_failed" (Agent, Once);
    /// `commit_required` was set and HEAD did not move.
    NoCommit = "no_commit" (Agent, Once);
    /// An agent's answer could not be read.
    OutputUnparseable = "output_unparseable" (Agent, Once);
    /// An answer or a result is larger than prodigy takes.
    OutputTooLarge = "output_too_large" (Agent, Once);
    /// An agent ended without a usable answer.
    AgentCrashed = "agent_crashed" (Agent, Always);
    /// An agent reported an error of its own.
    AgentError = "agent_error" (Agent, Review);
    /// An agent declined to do the work.
    AgentRefused = "agent_refused" (Agent, Review);
    /// A branch could not be merged.
    MergeConflict = "merge_conflict" (Integration, Once);
    /// A worktree could not be used, or a path would lie outside it.
    WorktreeError = "worktree_error" (Integration, Always);
    /// The target of a merge has changes of its own in the way.
    DirtyTarget = "dirty_target" (Integration, Review);
    /// A git hook refused what was done.
    HookFailed = "hook_failed" (Integration, Quarantine);
    /// A remote repository refused a push.
    PushRejected = "push_rejected" (Integration, Check);
    /// A policy forbids it.
    Denied = "denied" (Policy, Approval);
    /// It needs approval.
    ApprovalRequired = "approval_required" (Policy, Approval);
    /// Somebody was asked and refused.
    ApprovalRejected = "approval_rejected" (Policy, Never);
    /// Somebody agreed, too long ago.
    ApprovalExpired = "approval_expired" (Policy, Approval);
    /// The rules changed since somebody agreed.
    PolicySnapshotMismatch = "policy_snapshot_mismatch" (Policy, Approval);
    /// Something was not allowed by the system or by the agent's settings.
    PermissionDenied = "permission_denied" (Policy, Quarantine);
    /// A credential was missing or refused.
    AuthFailed = "auth_failed" (Policy, Quarantine);
    /// A secret stands where none may be.
    SecretDetected = "secret_detected" (Policy, Quarantine);
    /// Nobody knows whether something outside was changed.
    UnknownCommitState = "unknown_commit_state" (Commit, Check);
    /// Something outside was changed in part.
    PartialExternalWrite = "partial_external_write" (Commit, Review);
    /// It could not be found out whether something outside was changed.
    EffectCheckFailed = "effect_check_failed" (Commit, Review);
    /// A change outside could not be undone.
    CompensationFailed = "compensation_failed" (Commit, Review);
    /// The same work was done before, with another input.
    IdempotencyConflict = "idempotency_conflict" (Commit, Review);
    /// A replay was asked for and not allowed.
    ReplayDenied = "replay_denied" (Control, Review);
    /// The item was replayed as often as is allowed.
    ReplayBudgetExhausted = "replay_budget_exhausted" (Control, Review);
    /// The user or a signal stopped it.
    Cancelled = "cancelled" (Control, Never);
    /// Prodigy could not do its own work.
    InternalError = "internal_error" (Internal, Review);
    /// A stored record cannot be read any more.
    CorruptRecord = "corrupt_record" (Internal, Review);
    /// The reason was lost and had to be guessed.
    Reconstructed = "reconstructed" (Internal, Review);
    /// Nothing is known of the reason.
    Unclassified = "unclassified" (Internal, Review);
}

/// The class of a reason code.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ReasonClass {
    /// It may go well the next time.
    Transient,
    /// Something ran out.
    Resource,
    /// The item itself cannot be worked on as it is.
    Poison,
    /// The work was done badly or not at all.
    Agent,
    /// The work could not be brought together with that of others.
    Integration,
    /// It was not allowed.
    Policy,
    /// It is not clear what was changed outside.
    Commit,
    /// Somebody decided so.
    Control,
    /// Prodigy itself failed.
    Internal,
}

/// The action for a dead letter if no policy says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum DefaultAction {
    /// It may be replayed by itself.
    #[serde(rename = "auto_replay")]
    Always,
    /// It may be replayed by itself, once.
    #[serde(rename = "auto_replay_once")]
    Once,
    /// It may be replayed once it is known what was changed outside.
    #[serde(rename = "check_then_replay")]
    Check,
    /// It needs approval.
    #[serde(rename = "require_approval")]
    Approval,
    /// It needs manual review.
    #[serde(rename = "manual_review")]
    Review,
    /// It would fail again until something is changed.
    #[serde(rename = "quarantine")]
    Quarantine,
    /// It is never replayed.
    #[serde(rename = "never")]
    Never,
}

impl fmt::Display for ReasonCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl ReasonCode {
    /// Returns the kind that a step named, or a sentence about a code that there is not.
    pub fn parse(code: &str) -> Result<Self, String> {
        if let Some(kind) = Self::ALL.iter().find(|kind| kind.code() == code) {
            return Ok(*kind);
        }
        let code: String = code.chars().filter(|c| !c.is_control()).take(60).collect();
        let known = Self::ALL.iter().map(|kind| kind.code());
        let hint = did_you_mean(&code, known).unwrap_or_default();
        Err(format!("there is no reason code `{code}`; {hint}")
            .trim_end_matches([' ', ';'])
            .to_owned())
    }
}

impl Failure {
    /// Creates a failure without exit code or output.
    pub fn new(kind: ReasonCode, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            exit_code: None,
            output_tail: String::new(),
            cause: None,
        }
    }

    /// Returns the same failure with a further sentence in its message.
    #[must_use]
    pub fn with_sentence(mut self, sentence: &str) -> Self {
        self.message = format!("{}; {sentence}", self.message);
        self
    }

    /// Returns the same failure, given that something outside may have been changed.
    ///
    /// The cause of a cut-off says nothing about how far the step had come. A reason code that a
    /// command reports itself stays as it is.
    #[must_use]
    pub fn with_unknown_commit(mut self) -> Self {
        if self.kind.is_interruption() {
            self.cause = Some(self.kind);
            self.kind = ReasonCode::UnknownCommitState;
        }
        self
    }
}

impl ReasonCode {
    /// Returns whether it says nothing about the work itself, so that the same may go well the
    /// next time: something around it failed, or somebody stopped it.
    pub fn is_environmental(self) -> bool {
        self.class() == ReasonClass::Transient || self == Self::Cancelled
    }

    /// Those that prodigy itself never gives: a step that knows better names them.
    pub const ONLY_NAMED_BY_STEPS: [Self; 14] = [
        Self::NoWorkers,
        Self::MaxSchedulingRetries,
        Self::ToolContractMismatch,
        Self::DirtyTarget,
        Self::Denied,
        Self::ApprovalRequired,
        Self::ApprovalRejected,
        Self::ApprovalExpired,
        Self::PolicySnapshotMismatch,
        Self::SecretDetected,
        Self::ReplayDenied,
        Self::ReplayBudgetExhausted,
        Self::CorruptRecord,
        Self::Reconstructed,
    ];

    /// Those of a provider that has no room at the moment.
    pub const NO_ROOM: [Self; 2] = [Self::RateLimited, Self::ProviderOverloaded];

    /// Returns whether the attempt was cut off at a moment that nobody knows.
    pub fn is_interruption(self) -> bool {
        let kinds =
            [Self::Timeout, Self::Stalled, Self::WorkerLost, Self::Interrupted, Self::AgentCrashed];
        kinds.contains(&self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::signature::error_type;

    /// Returns how a default action is written in documents about dead letters.
    fn short(action: DefaultAction) -> String {
        serde_json::to_value(action).unwrap().as_str().unwrap().to_owned()
    }

    #[test]
    fn every_code_has_a_class_an_action_and_an_error_type() {
        let row = |kind: &ReasonCode| {
            let (class, action) = (kind.class(), short(kind.action()));
            let class = serde_json::to_value(class).unwrap();
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.code());
            let class = class.as_str().unwrap();
            format!("{:<24} {class:<12} {action:<18} {}", kind.code(), error_type(*kind))
        };
        let table: Vec<String> = ReasonCode::ALL.iter().map(row).collect();
        insta::assert_snapshot!(table.join("\n"), @"
        timeout                  transient    auto_replay        Timeout
        stalled                  transient    auto_replay        Timeout
        dependency_unavailable   transient    auto_replay        NetworkError
        network_error            transient    auto_replay        NetworkError
        rate_limited             transient    auto_replay        NetworkError
        provider_overloaded      transient    auto_replay        NetworkError
        no_workers               transient    auto_replay        Unknown
        worker_lost              transient    auto_replay        Unknown
        interrupted              transient    auto_replay        Unknown
        spawn_failed             transient    auto_replay_once   CommandFailed
        max_scheduling_retries   transient    auto_replay        Unknown
        store_unavailable        transient    auto_replay        Unknown
        oom_killed               resource     auto_replay_once   ResourceExhausted
        disk_full                resource     manual_review      ResourceExhausted
        budget_exceeded          resource     require_approval   ResourceExhausted
        quota_exhausted          resource     manual_review      ResourceExhausted
        turn_limit               resource     require_approval   ResourceExhausted
        context_overflow         resource     quarantine         ResourceExhausted
        schema_invalid           poison       quarantine         ValidationFailed
        parse_error              poison       quarantine         ValidationFailed
        template_error           poison       quarantine         ValidationFailed
        tool_contract_mismatch   poison       quarantine         ValidationFailed
        payload_too_large        poison       quarantine         ValidationFailed
        input_missing            poison       quarantine         ValidationFailed
        poison_repeat            poison       quarantine         Unknown
        command_failed           agent        auto_replay_once   CommandFailed
        validation_failed        agent        auto_replay_once   ValidationFailed
        no_commit                agent        auto_replay_once   CommitValidationFailed
        output_unparseable       agent        auto_replay_once   CommandFailed
        output_too_large         agent        auto_replay_once   CommandFailed
        agent_crashed            agent        auto_replay        CommandFailed
        agent_error              agent        manual_review      CommandFailed
        agent_refused            agent        manual_review      CommandFailed
        merge_conflict           integration  auto_replay_once   MergeConflict
        worktree_error           integration  auto_replay        WorktreeError
        dirty_target             integration  manual_review      WorktreeError
        hook_failed              integration  quarantine         CommandFailed
        push_rejected            integration  check_then_replay  NetworkError
        denied                   policy       require_approval   PermissionError
        approval_required        policy       require_approval   PermissionError
        approval_rejected        policy       never              PermissionError
        approval_expired         policy       require_approval   PermissionError
        policy_snapshot_mismatch policy       require_approval   PermissionError
        permission_denied        policy       quarantine         PermissionError
        auth_failed              policy       quarantine         PermissionError
        secret_detected          policy       quarantine         PermissionError
        unknown_commit_state     commit       check_then_replay  Unknown
        partial_external_write   commit       manual_review      Unknown
        effect_check_failed      commit       manual_review      Unknown
        compensation_failed      commit       manual_review      Unknown
        idempotency_conflict     commit       manual_review      Unknown
        replay_denied            control      manual_review      Unknown
        replay_budget_exhausted  control      manual_review      Unknown
        cancelled                control      never              Unknown
        internal_error           internal     manual_review      Unknown
        corrupt_record           internal     manual_review      Unknown
        reconstructed            internal     manual_review      Unknown
        unclassified             internal     manual_review      Unknown
        ");
    }

    #[test]
    fn an_unknown_code_is_answered_with_the_nearest() {
        assert_eq!(ReasonCode::parse("disk_full"), Ok(ReasonCode::DiskFull));
        let answers = ["netwrk_error", "Timeout", "rate-limited", "", "x\u{1b}y"]
            .map(|code| ReasonCode::parse(code).unwrap_err());
        insta::assert_snapshot!(answers.join("\n"), @"
        there is no reason code `netwrk_error`; did you mean `network_error`?
        there is no reason code `Timeout`; did you mean `timeout`?
        there is no reason code `rate-limited`; did you mean `rate_limited`?
        there is no reason code ``
        there is no reason code `xy`
        ");
    }
}
