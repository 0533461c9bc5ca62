//! The few facts that a list of dead letters shows.

use prodigy_core::{
    Timestamp,
    dlq::{DeadLetteredItem, EntryStatus},
    failure::{Class, FailureKind},
    ids::ItemId,
};
use serde::{Deserialize, Serialize};

/// The longest pattern that a list holds, in characters.
const PATTERN: usize = 200;

/// A dead letter in a list: enough to choose it by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Heading {
    /// The item.
    pub item_id: ItemId,
    /// Where the entry stands.
    pub status: EntryStatus,
    /// Why the item died, for code.
    pub reason_code: FailureKind,
    /// What kind of reason that is.
    pub class: Class,
    /// What dead letters of one cause have in common.
    pub error_signature: String,
    /// The same for people, cut if it is very long.
    pub error_pattern: String,
    /// How many attempts came to an end.
    pub attempts: u32,
    /// How often it was replayed.
    pub replays: u32,
    /// When the last attempt ended.
    pub last_attempt: Timestamp,
    /// Whether it can be replayed without anything being changed first.
    pub reprocess_eligible: bool,
    /// Whether a person has to look at it first.
    pub manual_review_required: bool,
}

impl From<&DeadLetteredItem> for Heading {
    fn from(entry: &DeadLetteredItem) -> Self {
        Self {
            item_id: entry.item_id.clone(),
            status: entry.status,
            reason_code: entry.reason_code,
            class: entry.class,
            error_signature: entry.error_signature.clone(),
            error_pattern: entry.error_pattern.chars().take(PATTERN).collect(),
            attempts: entry.attempts,
            replays: entry.replays,
            last_attempt: entry.last_attempt,
            reprocess_eligible: entry.reprocess_eligible,
            manual_review_required: entry.manual_review_required,
        }
    }
}
