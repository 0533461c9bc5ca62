//! One record of the audit trail.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Timestamp, event::IdentityKind, ids::JobId};

/// The action on a dead letter, done or attempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuditAction {
    /// The item is tried again.
    Replay,
    /// The entry is marked as done without running again.
    Adopt,
    /// The entry is closed without a result.
    Drop,
    /// Closed entries are removed.
    Clear,
    /// The entry is kept from being replayed.
    Quarantine,
    /// The entry may be replayed again.
    Release,
    /// The data of the item is changed.
    Edit,
    /// The world is asked what an attempt did to it.
    Check,
    /// The side effects of an attempt are undone.
    Compensate,
    /// Somebody is asked to approve.
    RequestApproval,
    /// Somebody approves.
    Approve,
    /// Somebody rejects.
    Reject,
    /// The whole job is removed.
    Remove,
    /// The end of a job's journal is lost, and the job goes on without it.
    AcceptLostEnd,
    /// A new trail begins, because the one before it is lost or cannot be relied on.
    RestartTrail,
    /// A part of an old job is deleted.
    Purge,
    /// A person takes a policy, or a file of signers, that a job committed for their own.
    ConfirmPolicy,
}

/// The outcome of the action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuditOutcome {
    /// It is about to be done: nothing has happened yet.
    Intended,
    /// It was done.
    Done,
    /// It was tried and failed.
    Failed,
    /// The policy forbids it.
    Denied,
    /// The request was not one that could be granted, for instance an expired approval.
    Refused,
}

/// The content of a record, before it has its place in the chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NewAuditRecord {
    /// The actor's name.
    pub actor: String,
    /// The proof of the actor's identity: asserted or signed.
    pub identity: IdentityKind,
    /// The action.
    pub action: AuditAction,
    /// The job of the entry.
    #[schemars(with = "String")]
    pub job: JobId,
    /// The item of the entry; empty if the record is about a group of entries.
    pub entry: String,
    /// The number of entries in the group.
    pub entries: Option<u64>,
    /// The revision of the entry that was decided about; 0 for a group.
    pub revision: u32,
    /// The verdict of the policy, as a word.
    pub decision: Option<String>,
    /// The rule that decided.
    pub rule: Option<String>,
    /// The policy that the rule is from.
    pub policy_snapshot: Option<String>,
    /// The digest of the content that was shown to the approver.
    pub digest: Option<String>,
    /// The reason, in the words of the actor.
    pub reason: Option<String>,
    /// The last record that the job's journal had; it was on disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal_seq: Option<u64>,
    /// The outcome of the action.
    pub outcome: AuditOutcome,
    /// Where the record comes from; older records do not say it.
    #[serde(flatten)]
    pub origin: RecordOrigin,
}

/// The process that a record comes from, as the operating system tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordOrigin {
    /// The name of the user that the process runs as, or its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os_user: Option<String>,
    /// The name of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// True if the process was started by a running step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub automation: Option<bool>,
}

/// One record of the audit trail, in its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditRecord {
    /// Its number, from 1, without gaps.
    pub seq: u64,
    /// When it was recorded.
    pub ts: Timestamp,
    /// The content of the record.
    #[serde(flatten)]
    pub said: NewAuditRecord,
    /// The hash of the record before it.
    pub prev_hash: String,
    /// The SHA-256 of the canonical form of everything else in it.
    pub hash: String,
}

impl NewAuditRecord {
    /// Returns a record of an intention; the other fields can be set as they are known.
    pub fn new(
        actor: impl Into<String>,
        identity: IdentityKind,
        action: AuditAction,
        job: JobId,
    ) -> Self {
        Self {
            actor: actor.into(),
            identity,
            action,
            job,
            entry: String::new(),
            entries: None,
            revision: 0,
            decision: None,
            rule: None,
            policy_snapshot: None,
            digest: None,
            reason: None,
            journal_seq: None,
            outcome: AuditOutcome::Intended,
            origin: RecordOrigin::default(),
        }
    }

    /// Returns the same with what became of it.
    #[must_use]
    pub fn with_outcome(mut self, outcome: AuditOutcome) -> Self {
        self.outcome = outcome;
        self
    }
}

impl AuditAction {
    /// Every action.
    pub const ALL: &[Self] = &[
        Self::Replay,
        Self::Adopt,
        Self::Drop,
        Self::Clear,
        Self::Quarantine,
        Self::Release,
        Self::Edit,
        Self::Check,
        Self::Compensate,
        Self::RequestApproval,
        Self::Approve,
        Self::Reject,
        Self::Remove,
        Self::AcceptLostEnd,
        Self::RestartTrail,
        Self::Purge,
        Self::ConfirmPolicy,
    ];

    /// Returns its name, as records and people write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Replay => "replay",
            Self::Adopt => "adopt",
            Self::Drop => "drop",
            Self::Clear => "clear",
            Self::Quarantine => "quarantine",
            Self::Release => "release",
            Self::Edit => "edit",
            Self::Check => "check",
            Self::Compensate => "compensate",
            Self::RequestApproval => "request_approval",
            Self::Approve => "approve",
            Self::Reject => "reject",
            Self::Remove => "remove",
            Self::AcceptLostEnd => "accept_lost_end",
            Self::RestartTrail => "restart_trail",
            Self::Purge => "purge",
            Self::ConfirmPolicy => "confirm_policy",
        }
    }
}

impl AuditOutcome {
    /// Returns its name, as records and people write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Intended => "intended",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Denied => "denied",
            Self::Refused => "refused",
        }
    }
}

impl fmt::Display for AuditAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for AuditOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
