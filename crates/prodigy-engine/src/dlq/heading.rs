//! The few facts that a list of dead letters shows.

use prodigy_core::{
    Timestamp,
    dlq::{CommitState, DeadLetteredItem, EntryStatus},
    effect::{Effect, EffectState},
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
    /// What else decides over it.
    #[serde(default)]
    pub standing: Standing,
}

/// What decides over a dead letter, besides why the item died.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// The path of the step that failed last.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub topic: String,
    /// What that step is called.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub step: String,
    /// What the attempts may have changed.
    #[serde(default)]
    pub commit_state: CommitState,
    /// What is known of the effect that is least known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<EffectState>,
    /// Whether somebody can look at that effect.
    #[serde(default, skip_serializing_if = "is_false")]
    pub can_check: bool,
    /// What names the workflow, the programs and the variables of the last attempt.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ran_with: String,
    /// Whether somebody put it into quarantine.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_quarantined: bool,
    /// Whether somebody let it be replayed although nothing has changed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_released: bool,
    /// Whether the item's data was changed since the last attempt.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_edited: bool,
    /// Whether somebody was asked to agree to a replay that was not made yet.
    #[serde(default, skip_serializing_if = "is_false")]
    pub has_approval: bool,
    /// What its replays cost.
    #[serde(default)]
    pub replay_cost_usd: f64,
    /// Who looks after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// Returns whether a flag need not be written.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !*flag
}

impl From<&DeadLetteredItem> for Heading {
    fn from(entry: &DeadLetteredItem) -> Self {
        Self {
            item_id: entry.item_id.clone(),
            status: entry.status,
            reason_code: entry.reason_code,
            class: entry.class,
            error_signature: entry.error_signature.clone(),
            error_pattern: cut(&entry.error_pattern),
            attempts: entry.attempts,
            replays: entry.replays,
            last_attempt: entry.last_attempt,
            reprocess_eligible: entry.reprocess_eligible,
            manual_review_required: entry.manual_review_required,
            standing: Standing::from(entry),
        }
    }
}

impl From<&DeadLetteredItem> for Standing {
    fn from(entry: &DeadLetteredItem) -> Self {
        let worst = least_known(&entry.effects);
        Self {
            topic: entry.topic.clone(),
            step: entry
                .failure_history
                .last()
                .map(|last| cut(&last.step_failed))
                .unwrap_or_default(),
            commit_state: entry.commit_state,
            effect: worst.map(|effect| effect.state),
            can_check: worst.is_some_and(|effect| effect.can_check),
            ran_with: entry.ran_with(),
            is_quarantined: entry.quarantine.is_some(),
            is_released: entry.released.is_some(),
            is_edited: entry.is_edited(),
            has_approval: entry.approval.as_ref().is_some_and(|approval| !approval.consumed),
            replay_cost_usd: entry.replay_cost_usd,
            owner: entry.owner.clone(),
        }
    }
}

/// Returns text that is short enough for a list.
fn cut(text: &str) -> String {
    text.chars().take(PATTERN).collect()
}

/// Returns the effect of which the least is known.
fn least_known(effects: &[Effect]) -> Option<&Effect> {
    let rank = |state: EffectState| match state {
        EffectState::Partial => 5,
        EffectState::Indeterminate => 4,
        EffectState::Prepared => 3,
        EffectState::Committed => 2,
        EffectState::Absent => 1,
        EffectState::Compensated => 0,
    };
    // What a handler made is not the item's work.
    let is_its = |effect: &&Effect| !effect.is_made() || !effect.is_of_handler();
    let declared = effects.iter().filter(|effect| !effect.idempotent).filter(is_its);
    declared.max_by_key(|effect| rank(effect.state))
}
