//! The content shown to an approver.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::DIGEST;
use crate::{
    Timestamp,
    dlq::DeadLetteredItem,
    effect::Effect,
    ids::{ItemId, JobId},
    json_value,
    replay::{ReplayDecision, ReplayGoal},
};

/// The content shown to an approver, on which a replay that they approve relies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalScope {
    /// The job of the entry.
    pub job: JobId,
    /// The item of the entry.
    pub item: ItemId,
    /// The revision of the entry.
    pub revision: u32,
    /// The hash of the entry's content, without what people said to a replay of it.
    pub record_hash: String,
    /// The hash of the item's data.
    pub input_hash: String,
    /// The hash of the workflow that would run.
    pub workflow_hash: String,
    /// The commit that it would run on; that of the request for as long as only items of the job
    /// were merged since.
    pub commit: String,
    /// The side effects of the attempts, made or possible: the key of each and its state.
    pub effects: Vec<(String, String)>,
    /// The receipts of these effects, from the steps and their checks.
    pub evidence: Option<String>,
    /// The action to approve: `replay`, `forced_replay`, `adopt` or `nothing`.
    pub action: String,
    /// The rule that asks for an approval.
    pub rule: String,
    /// The policy that the rule is from.
    pub policy_snapshot: String,
    /// When the approval ends.
    pub expires_at: Timestamp,
}

impl ApprovalScope {
    /// Returns what somebody is shown who is to agree to what a ruling wants done with an
    /// entry, by a workflow, on a commit, until a moment.
    pub fn of(
        entry: &DeadLetteredItem,
        ruling: &ReplayDecision<'_>,
        workflow_hash: &str,
        commit: &str,
        expires_at: Timestamp,
    ) -> Self {
        let state = |effect: &Effect| (effect.key.clone(), effect.state.as_str().to_owned());
        let receipts = entry
            .effects
            .iter()
            .filter_map(|effect| Some(format!("{}: {}", effect.key, effect.receipt.as_ref()?)));
        let evidence = receipts.collect::<Vec<_>>().join("\n");
        Self {
            job: entry.job_id.clone(),
            item: entry.item_id.clone(),
            revision: entry.revision,
            record_hash: entry.content_hash(),
            input_hash: entry.input_hash.clone(),
            workflow_hash: workflow_hash.to_owned(),
            commit: commit.to_owned(),
            effects: entry.effects.iter().map(state).collect(),
            evidence: Some(evidence).filter(|evidence| !evidence.is_empty()),
            action: action(ruling).to_owned(),
            rule: ruling.rule.name.clone(),
            policy_snapshot: ruling.snapshot.to_owned(),
            expires_at,
        }
    }

    /// Returns what an approver passes back: `sha256:` and the SHA-256 of everything that is
    /// shown.
    pub fn digest(&self) -> String {
        // The first field keeps this apart from all else that is hashed.
        let shown = json!({ "prodigy_approval": 2, "shown": self });
        format!("{DIGEST}{}", json_value::sha256(json_value::canonical_json(&shown).as_bytes()))
    }
}

/// Returns the word for what would be done.
fn action(ruling: &ReplayDecision<'_>) -> &'static str {
    match ruling.goal {
        Some(ReplayGoal::Adopt) => "adopt",
        // Whoever agrees to a replay has not agreed to lift a limit for it.
        Some(ReplayGoal::Replay) if ruling.lifts_limits() => "forced_replay",
        Some(ReplayGoal::Replay) => "replay",
        None => "nothing",
    }
}
