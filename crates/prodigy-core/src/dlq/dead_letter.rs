//! The content of a dead letter.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use super::WorktreeArtifacts;
use crate::{
    Timestamp,
    effect::Effect,
    failure::{ReasonClass, ReasonCode},
    ids::{ItemId, JobId},
    json_value,
    replay::approval::Approval,
};

/// The version of the entry's shape.
pub const SCHEMA_VERSION: u32 = 2;

/// A failed item, and all that is known about why.
///
/// The shape holds every field of the older shapes, so that programs written for
/// those read it as well.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DeadLetteredItem {
    /// The version of this shape.
    pub schema_version: u32,
    /// The revision of the entry, from 1; every change increments it.
    pub revision: u32,
    /// The job.
    #[schemars(with = "String")]
    pub job_id: JobId,
    /// The item.
    #[schemars(with = "String")]
    pub item_id: ItemId,
    /// The name of the item's work over all attempts.
    pub correlation_id: String,
    /// The path of the step that failed last: `map.2`; `map` if it was not a step.
    pub topic: String,
    /// Where the entry stands.
    pub status: EntryStatus,
    /// The replay status: pending, pending review, quarantined, replaying or closed.
    pub replay_status: ReplayStatus,
    /// The reason code of the item's failure.
    pub reason_code: ReasonCode,
    /// The class of the reason code.
    pub class: ReasonClass,
    /// The reason before it was known that something outside may have been changed.
    pub cause_code: Option<ReasonCode>,
    /// The reason of the item's failure, for people.
    pub reason: String,
    /// The number of attempts that ended.
    pub attempts: u32,
    /// The number of replays.
    pub replays: u32,
    /// The item, byte for byte as it was chosen, unless it held a secret.
    #[schemars(with = "Value")]
    pub item_data: Box<RawValue>,
    /// The SHA-256 of the item as it was chosen.
    pub input_hash: String,
    /// The SHA-256 of the workflow as it was run.
    pub workflow_hash: String,
    /// The name of the item's work towards the outside: the same for every attempt.
    pub idempotency_key: String,
    /// The SHA-256 of the policy in force when the entry was written.
    pub policy_snapshot: String,
    /// When the first attempt began; the time of the first failure stands first in
    /// `failure_history`.
    pub first_attempt: Timestamp,
    /// When the last attempt ended.
    pub last_attempt: Timestamp,
    /// The number of failed attempts.
    pub failure_count: u32,
    /// Every failed attempt, the oldest first. Only ever appended to.
    pub failure_history: Vec<FailureDetail>,
    /// The signature that dead letters of the same cause share: 16 hexadecimal digits.
    pub error_signature: String,
    /// The same for people.
    pub error_pattern: String,
    /// True if it can be replayed without changing anything first.
    pub reprocess_eligible: bool,
    /// True if it needs manual review. It follows from the reason code and from what may
    /// have been changed outside, never from words such as "critical" in a message: anybody can print
    /// those. A step that knows that its failure is critical writes the reason code to
    /// `$PRODIGY_RESULT_FILE`.
    pub manual_review_required: bool,
    /// The artifacts of the last attempt.
    pub worktree_artifacts: Option<WorktreeArtifacts>,
    /// The extent of the changes that the attempts may have made.
    pub commit_state: CommitState,
    /// The side effects of the attempts outside the worktree, as far as they were declared.
    pub effects: Vec<Effect>,
    /// The SHA-256 of the programs that the last attempt found.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool_hash: String,
    /// The SHA-256 of the variables that the workflow set for the last attempt.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub env_hash: String,
    /// The cost of its replays.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub replay_cost_usd: f64,
    /// The person who quarantined it, when and why; left out if it is not quarantined by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantine: Option<ManualAction>,
    /// The person who released it for a replay although nothing has changed, when and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released: Option<ManualAction>,
    /// The manual edits of its input, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lineage: Vec<InputEdit>,
    /// The approval that was requested for a replay, with its grants or its rejection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// The moment before which it must not be replayed.
    pub not_before: Option<Timestamp>,
    /// The owner.
    pub owner: Option<String>,
    /// The record of its closing; left out while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<EntryClosure>,
    /// The number of the last record that changed it and left nothing of the item under way.
    pub journal_seq: u64,
    /// The SHA-256 of the entry without this field.
    pub record_hash: String,
}

/// One failed attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FailureDetail {
    /// Which attempt it was, from 1.
    pub attempt_number: u32,
    /// When it ended.
    pub timestamp: Timestamp,
    /// The type of the error.
    pub error_type: ErrorType,
    /// The error message, for people.
    pub error_message: String,
    /// The context of the error, from the whole to the part.
    #[serde(default)]
    pub error_context: Vec<String>,
    /// The part of the output that shows where a program broke off.
    #[serde(default)]
    pub stack_trace: Option<String>,
    /// The agent that made the attempt.
    pub agent_id: String,
    /// The step that failed, by the name that progress shows: `shell: cargo test`, of a longer
    /// command its first line; the path of a step that has no name: `map.2.1`.
    pub step_failed: String,
    /// The duration of the attempt.
    pub duration_ms: u64,
    /// The file with all that it printed.
    #[serde(default)]
    pub json_log_location: Option<String>,
    /// The reason code of the failure.
    pub reason_code: ReasonCode,
    /// The code of the process that failed.
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// The cost of the attempt.
    #[serde(default)]
    pub cost_usd: f64,
    /// The conversation of the agent that worked on it last; `null` if no agent was asked.
    #[serde(default)]
    pub session_id: Option<String>,
    /// The last lines of output.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output_tail: String,
}

/// The kinds of error that programs reading dead letters know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ErrorType {
    /// It took too long, or was silent for too long.
    Timeout,
    /// A command or an agent failed.
    CommandFailed {
        /// Which.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        command: String,
        /// The code of its process.
        #[serde(default)]
        exit_code: Option<i32>,
    },
    /// Something was not allowed.
    PermissionError,
    /// An input or an output was invalid.
    ValidationFailed,
    /// The worktree could not be used.
    WorktreeError,
    /// The commits do not fit those of others.
    MergeConflict,
    /// A commit was wanted and none was made.
    CommitValidationFailed,
    /// Memory, disk space, money or another bounded thing ran out.
    ResourceExhausted,
    /// The network, or something behind it, could not be reached.
    NetworkError,
    /// None of these.
    Unknown,
}

/// Where an entry stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EntryStatus {
    /// It waits for somebody to do something about it.
    Open,
    /// It is being replayed.
    Replaying,
    /// A replay succeeded.
    Resolved,
    /// Somebody decided that the item is left out.
    Dropped,
}

/// The replay status of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplayStatus {
    /// It can be replayed.
    Pending,
    /// It needs manual review.
    PendingReview,
    /// It would fail again: something has to be changed first.
    Quarantined,
    /// It is being replayed.
    Replaying,
    /// It is closed.
    Closed,
}

/// The extent of the changes that the attempts of an item may have made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CommitState {
    /// Nothing.
    #[default]
    None,
    /// Only files and commits in a worktree that is thrown away.
    Local,
    /// Everything outside that they were to change is changed.
    Committed,
    /// Some of what they were to change outside is changed, and the rest is not.
    Mixed,
    /// Something outside may or may not have been changed.
    Unknown,
}

/// Something that somebody said about an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ManualAction {
    /// When.
    pub at: Timestamp,
    /// The person's name.
    pub by: String,
    /// The reason that they gave.
    pub reason: String,
}

/// A change of an item's data by hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InputEdit {
    /// When.
    pub at: Timestamp,
    /// The editor's name.
    pub by: String,
    /// The reason of the edit.
    pub reason: String,
    /// The SHA-256 of the data since then.
    pub input_hash: String,
}

impl DeadLetteredItem {
    /// Returns the hash of what somebody agrees to: everything but the agreement itself, and
    /// what follows from it.
    pub fn content_hash(&self) -> String {
        let replay_status = ReplayStatus::Pending;
        let mut content = Self { approval: None, replay_status, journal_seq: 0, ..self.clone() };
        content.update_hash();
        content.record_hash
    }

    /// Returns what names the workflow, the programs and the variables of the last attempt.
    pub fn run_fingerprint(&self) -> String {
        fingerprint(&self.workflow_hash, &self.tool_hash, &self.env_hash)
    }

    /// Returns whether the item's data was changed since the last attempt, and since somebody
    /// put the entry into quarantine.
    pub fn is_edited(&self) -> bool {
        let quarantined = self.quarantine.as_ref().map(|mark| mark.at);
        let since = quarantined.map_or(self.last_attempt, |at| at.max(self.last_attempt));
        self.lineage.last().is_some_and(|edit| edit.at >= since)
    }
}

/// The record of an entry's closing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EntryClosure {
    /// When.
    pub at: Timestamp,
    /// The reason; left out if a replay succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The name of the person who closed it; left out if a replay succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// Returns whether a sum need not be written.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_nothing(sum: &f64) -> bool {
    *sum == 0.0
}

/// The field that is not part of what is hashed.
const RECORD_HASH: &str = "record_hash";

impl DeadLetteredItem {
    /// Sets the hash of the entry after a change.
    pub fn update_hash(&mut self) {
        // Every field has a form in JSON; an entry without a hash would be taken for damaged.
        let text = serde_json::to_string(self).unwrap_or_default();
        self.record_hash = record_hash(&text).unwrap_or_default();
    }
}

/// Returns the hash of the text of an entry: the SHA-256 of its canonical form, which has no
/// blanks, has the names in order, and does not have the field of the hash itself.
///
/// It is made from the text and not from the fields that this build knows, so that an entry
/// with more fields, or one that was laid out anew, is still whole.
pub(crate) fn record_hash(text: &str) -> Option<String> {
    let canonical = json_value::canonical_json_without(RECORD_HASH, text)?;
    Some(json_value::sha256(canonical.as_bytes()))
}

/// Returns what names a workflow and what its steps find: 16 hexadecimal digits.
pub(crate) fn fingerprint(workflow: &str, tool: &str, env: &str) -> String {
    let mut name = json_value::sha256(format!("{workflow}\n{tool}\n{env}").as_bytes());
    name.truncate(16);
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json_value::sha256;

    #[test]
    fn the_layout_of_an_entry_does_not_change_its_hash_and_its_content_does() {
        let hash = |text| record_hash(text).unwrap();
        let first = hash(r#"{"a":1,"b":{"y":[1.10,"x"],"x":null},"record_hash":"z"}"#);
        let laid_out = "{\n \"b\": {\"x\": null, \"y\": [1.10, \"\\u0078\"]},\n \"a\": 1 }";
        assert_eq!(hash(laid_out), first);
        for other in [
            r#"{"a":2,"b":{"y":[1.10,"x"],"x":null}}"#,
            r#"{"a":1,"b":{"y":["x",1.10],"x":null}}"#,
            r#"{"a":1,"b":{"y":[1.10,"x"],"x":null},"c":0}"#,
        ] {
            assert_ne!(hash(other), first, "{other}");
        }
        let known = sha256(br#"{"a":1,"b":{"x":null,"y":[1.1,"x"]}}"#);
        assert_eq!(first, known);
    }

    #[test]
    fn half_a_character_can_be_hashed() {
        let hash = record_hash(r#"{"item_data":{"a":"\ud800"}}"#).unwrap();
        assert_eq!(hash, sha256(r#"{"item_data":"{\"a\":\"\\ud800\"}"}"#.as_bytes()));
    }
}
