//! The payloads of events of governed replay.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Timestamp, dlq::DeadLetteredItem, replay::RuleMatch};

/// The environment of the steps: if it changes, a failed item may succeed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnvironmentFingerprint {
    /// The SHA-256 of the programs: prodigy's version and the agents.
    pub tool_hash: String,
    /// The SHA-256 of the variables that the workflow sets.
    pub env_hash: String,
    /// The identity of the last step of the items, if it makes an effect and nothing is left to
    /// do once that is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_effect: Option<String>,
    /// The policy of the repository; left out if it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub policy_snapshot: String,
    /// Set if the items have no worktrees of their own: all run in the job's worktree.
    #[serde(default, skip_serializing_if = "is_false")]
    pub shares_worktree: bool,
    /// The rules of that policy that say who looks after dead letters; the first that matches
    /// decides. Left out if none does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<OwnerRule>,
}

impl EnvironmentFingerprint {
    /// Returns who looks after an entry by the policy that was in force when its item failed.
    pub(crate) fn owner_of(&self, entry: &DeadLetteredItem) -> Option<String> {
        let step = entry.failure_history.last().map_or("", |last| last.step_failed.as_str());
        let (steps, signature) = ([step, entry.topic.as_str()], &entry.error_signature);
        let is_for = |rule: &&OwnerRule| {
            rule.matches.matches_entry(entry.reason_code, steps, entry.attempts, signature)
        };
        self.owners.iter().find(is_for)?.owner.clone()
    }
}

/// A rule of a policy as far as it says who looks after dead letters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnerRule {
    /// The dead letters that it is for.
    #[serde(rename = "match")]
    pub matches: RuleMatch,
    /// The owner; none if the rule names nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// A change of a DLQ entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EntryChange {
    /// It is not replayed until something that it depends on has changed.
    Quarantined {
        /// The owner.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<String>,
    },
    /// It may be replayed although nothing has changed.
    Released,
    /// The item has other data from here on.
    Edited {
        /// The SHA-256 of the data, which is the name of its file as well.
        input_hash: String,
    },
}

/// The policy rule and the approval that allowed a replay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayAuthorization {
    /// The rule of the policy.
    pub rule: String,
    /// The policy.
    pub policy_snapshot: String,
    /// The digest of the approval, if one was needed; this replay consumes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    /// The wait before the next replay if this one fails.
    #[serde(default, skip_serializing_if = "is_no_wait")]
    pub wait_ms: u64,
}

/// An approval that is needed before a dead letter is replayed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalRequest {
    /// The digest to approve: it changes with everything that matters to the replay.
    pub digest: String,
    /// The name of the person who requested the replay.
    pub by: String,
    /// The rule that wants it.
    pub rule: String,
    /// The policy.
    pub policy_snapshot: String,
    /// The SHA-256 of the workflow that would run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub workflow_hash: String,
    /// The commit that the replay would run on.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub commit: String,
    /// Set if the requester forces the replay despite reasons against it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub forced: bool,
    /// The group of the approvers; left out if anyone may approve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The number of approvals needed.
    pub needed: u32,
    /// When it is too late.
    pub expires_at: Timestamp,
}

/// The proof of a person's identity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IdentityKind {
    /// The git configuration or the operating system says so; nobody has proved it.
    #[default]
    Asserted,
    /// A signature that was checked says so.
    Signed,
}

impl IdentityKind {
    /// Returns its name, as records and people write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Asserted => "asserted",
            Self::Signed => "signed",
        }
    }
}

impl std::fmt::Display for IdentityKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns whether a wait need not be written.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_no_wait(number: &u64) -> bool {
    *number == 0
}

/// Returns whether a flag need not be written.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !*flag
}
