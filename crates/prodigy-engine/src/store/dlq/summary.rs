//! The few facts that a list of dead letters shows.

use prodigy_core::{
    Timestamp,
    dlq::{CommitState, DeadLetteredItem, EntryStatus},
    effect::{Effect, EffectState},
    failure::{ReasonClass, ReasonCode},
    ids::ItemId,
};
use serde::{Deserialize, Serialize};

/// The longest pattern that a list holds, in characters.
const PATTERN: usize = 200;

/// A dead letter in a list: enough to choose it by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeadLetterSummary {
    /// The item.
    pub item_id: ItemId,
    /// Where the entry stands.
    pub status: EntryStatus,
    /// The reason code of the failure.
    pub reason_code: ReasonCode,
    /// The class of the failure.
    pub class: ReasonClass,
    /// The signature that dead letters of one cause share.
    pub error_signature: String,
    /// The same for people, cut if it is very long.
    pub error_pattern: String,
    /// The number of finished attempts.
    pub attempts: u32,
    /// The number of replays.
    pub replays: u32,
    /// When the last attempt ended.
    pub last_attempt: Timestamp,
    /// True if it can be replayed without any change.
    pub reprocess_eligible: bool,
    /// True if it needs manual review first.
    pub manual_review_required: bool,
    /// The other facts that a replay decision uses.
    #[serde(default)]
    pub standing: EvaluationFacts,
}

/// The facts that a replay decision uses besides the reason of the failure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EvaluationFacts {
    /// The path of the step that failed last.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub topic: String,
    /// The name of that step.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub step: String,
    /// The changes that the attempts may have made.
    #[serde(default)]
    pub commit_state: CommitState,
    /// The state of the most uncertain effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<EffectState>,
    /// True if that effect can be checked.
    #[serde(default, skip_serializing_if = "is_false")]
    pub can_check: bool,
    /// The fingerprint of the workflow, the programs and the variables of the last attempt.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ran_with: String,
    /// True if it was quarantined by hand.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_quarantined: bool,
    /// True if it was released: it can be replayed although nothing has changed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_released: bool,
    /// True if the item's data was edited since the last attempt.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_edited: bool,
    /// True if an approval was requested and not consumed yet.
    #[serde(default, skip_serializing_if = "is_false")]
    pub has_approval: bool,
    /// The total cost of its replays.
    #[serde(default)]
    pub replay_cost_usd: f64,
    /// The owner of the entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// Returns whether a flag need not be written.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !*flag
}

impl From<&DeadLetteredItem> for DeadLetterSummary {
    fn from(entry: &DeadLetteredItem) -> Self {
        Self {
            item_id: entry.item_id.clone(),
            status: entry.status,
            reason_code: entry.reason_code,
            class: entry.class,
            error_signature: entry.error_signature.clone(),
            error_pattern: shorten(&entry.error_pattern),
            attempts: entry.attempts,
            replays: entry.replays,
            last_attempt: entry.last_attempt,
            reprocess_eligible: entry.reprocess_eligible,
            manual_review_required: entry.manual_review_required,
            standing: EvaluationFacts::from(entry),
        }
    }
}

impl From<&DeadLetteredItem> for EvaluationFacts {
    fn from(entry: &DeadLetteredItem) -> Self {
        let worst = least_certain_effect(&entry.effects);
        Self {
            topic: entry.topic.clone(),
            step: entry
                .failure_history
                .last()
                .map(|last| shorten(&last.step_failed))
                .unwrap_or_default(),
            commit_state: entry.commit_state,
            effect: worst.map(|effect| effect.state),
            can_check: worst.is_some_and(|effect| effect.can_check),
            ran_with: entry.run_fingerprint(),
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
fn shorten(text: &str) -> String {
    text.chars().take(PATTERN).collect()
}

/// Returns the effect of which the least is known.
fn least_certain_effect(effects: &[Effect]) -> Option<&Effect> {
    let rank = |state: EffectState| match state {
        EffectState::Partial => 5,
        EffectState::Indeterminate => 4,
        EffectState::Prepared => 3,
        EffectState::Committed => 2,
        EffectState::Absent => 1,
        EffectState::Compensated => 0,
    };
    // What a handler made is not the item's work.
    let is_its = |effect: &&Effect| !effect.is_made() || !effect.is_from_handler();
    let declared = effects.iter().filter(|effect| !effect.idempotent).filter(is_its);
    declared.max_by_key(|effect| rank(effect.state))
}
