//! The fold of one item's records: its entry in the dead letter queue.
//!
//! A letter applies the records of an item in their order. It can be rebuilt from a stored entry
//! and the records after it; the result is the same as from all records.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    AgentResult, AgentStatus, CommitState, DeadLetteredItem, EntryClosure, EntryStatus,
    FailureDetail, InputEdit, ManualAction, ReplayStatus, RunFingerprint, WorktreeArtifacts,
    failure_detail,
};
use crate::{
    Timestamp,
    effect::EffectLedger,
    event::{EnvironmentFingerprint, Event},
    failure::Failure,
    ids::{ItemId, JobId},
    replay::approval::Approval,
};

/// The fold of one item's records: the state of its DLQ entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeadLetterState {
    pub(crate) job_id: JobId,
    pub(crate) item_id: ItemId,
    pub(crate) correlation_id: String,
    pub(crate) run: RunFingerprint,
    /// The last record that changed the entry and left nothing of the item under way.
    pub(crate) seq: u64,
    pub(crate) first_attempt: Option<Timestamp>,
    pub(crate) history: Vec<FailureDetail>,
    /// The step that the last failed attempt failed at.
    pub(crate) step: Option<String>,
    pub(crate) worktree: Option<WorktreeArtifacts>,
    /// The artifacts of an attempt that has not ended.
    pub(crate) left: Option<WorktreeArtifacts>,
    pub(crate) under_way: Option<OpenAttempt>,
    pub(crate) merging: Option<MergingAttempt>,
    pub(crate) death: Option<EntryState>,
    /// The side effects of its steps.
    #[serde(default)]
    pub(crate) ledger: EffectLedger,
    #[serde(default)]
    pub(crate) commit_state: CommitState,
    /// The cost of its replays.
    #[serde(default)]
    pub(crate) replay_cost_usd: f64,
    /// The wait before the next replay if the current one fails.
    #[serde(default)]
    pub(crate) wait_ms: u64,
    /// The manual edits of its input.
    #[serde(default)]
    pub(crate) lineage: Vec<InputEdit>,
    /// The approval that was requested for a replay, with its grants or its rejection.
    #[serde(default)]
    pub(crate) approval: Option<Approval>,
    /// True if the item ended without ever being in the queue.
    pub(crate) is_over: bool,
}

/// The facts that are known from the start of an attempt. They are part of the entry once the
/// attempt has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct AttemptStart {
    pub(crate) attempt: u32,
    pub(crate) agent_id: String,
    pub(crate) at: Timestamp,
    pub(crate) correlation_id: String,
    pub(crate) run: RunFingerprint,
}

/// An attempt that has not ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct OpenAttempt {
    pub(crate) begun: AttemptStart,
    /// When it was last heard of.
    pub(crate) seen: Timestamp,
    pub(crate) cost_usd: f64,
    /// The conversation of the agent that worked on it last.
    #[serde(default)]
    pub(crate) session_id: Option<String>,
}

/// An attempt that succeeded and whose commits are not merged yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct MergingAttempt {
    pub(crate) begun: AttemptStart,
    pub(crate) duration_ms: u64,
    pub(crate) cost_usd: f64,
    /// The conversation of the agent that worked on it last.
    #[serde(default)]
    pub(crate) session_id: Option<String>,
    /// The paths in conflict, once there was a conflict.
    pub(crate) conflict: Option<Vec<String>>,
}

/// The item's last failure for good, and the state of its entry since.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EntryState {
    pub(crate) revision: u32,
    pub(crate) failure: Failure,
    pub(crate) attempts: u32,
    pub(crate) replays: u32,
    pub(crate) last_attempt: Timestamp,
    pub(crate) status: EntryStatus,
    pub(crate) closed: Option<EntryClosure>,
    /// True if the entry was deleted.
    pub(crate) is_cleared: bool,
    /// The quarantine by a person; `released` is set when a person ends it.
    pub(crate) quarantine: Option<ManualAction>,
    pub(crate) released: Option<ManualAction>,
    pub(crate) owner: Option<String>,
    /// The moment before which it must not be replayed.
    pub(crate) not_before: Option<Timestamp>,
}

impl DeadLetterState {
    /// Begins with an item of which nothing is known.
    pub fn new(job_id: JobId, item_id: ItemId) -> Self {
        Self {
            job_id,
            item_id,
            correlation_id: String::new(),
            run: RunFingerprint::default(),
            seq: 0,
            first_attempt: None,
            history: Vec::new(),
            step: None,
            worktree: None,
            left: None,
            under_way: None,
            merging: None,
            death: None,
            ledger: EffectLedger::default(),
            commit_state: CommitState::None,
            replay_cost_usd: 0.0,
            wait_ms: 0,
            lineage: Vec::new(),
            approval: None,
            is_over: false,
        }
    }

    /// Goes on from an entry that was stored.
    pub fn from_entry(entry: DeadLetteredItem) -> Self {
        let began = entry.commit_state != CommitState::None;
        let failure =
            Failure { cause: entry.cause_code, ..Failure::new(entry.reason_code, entry.reason) };
        let found = EnvironmentFingerprint {
            owners: Vec::new(),
            tool_hash: entry.tool_hash,
            env_hash: entry.env_hash,
            // It is known again as soon as something of the item runs.
            last_effect: None,
            policy_snapshot: entry.policy_snapshot,
            shares_worktree: false,
        };
        let death = EntryState {
            revision: entry.revision,
            failure,
            attempts: entry.attempts,
            replays: entry.replays,
            last_attempt: entry.last_attempt,
            status: entry.status,
            closed: entry.closed,
            is_cleared: false,
            quarantine: entry.quarantine,
            released: entry.released,
            owner: entry.owner,
            not_before: entry.not_before,
        };
        Self {
            correlation_id: entry.correlation_id,
            run: RunFingerprint { workflow_hash: entry.workflow_hash, found },
            seq: entry.journal_seq,
            first_attempt: Some(entry.first_attempt).filter(|_| began),
            history: entry.failure_history,
            step: entry.topic.strip_prefix("map.").map(str::to_owned),
            worktree: entry.worktree_artifacts,
            death: Some(death),
            ledger: EffectLedger::from_effects(entry.effects),
            commit_state: entry.commit_state,
            replay_cost_usd: entry.replay_cost_usd,
            lineage: entry.lineage,
            approval: entry.approval,
            ..Self::new(entry.job_id, entry.item_id)
        }
    }

    /// Returns whether an event about an item can matter to its letter.
    pub fn is_relevant(event: &Event) -> bool {
        match event {
            Event::AgentStarted { .. }
            | Event::AgentCompleted(_)
            | Event::AgentFailed(_)
            | Event::AgentRetrying { .. }
            | Event::AgentUsage { .. }
            | crate::agent_news!()
            | Event::AgentReleased { .. }
            | crate::spending_news!()
            | Event::ItemSkipped { .. }
            | Event::ItemDeadLettered { .. }
            | Event::ReplayStarted { .. }
            | Event::DlqItemRemoved { .. }
            | Event::DlqItemUpdated { .. }
            | crate::effect_news!()
            | crate::approval_news!()
            | Event::WorktreeMerged { .. }
            | Event::WorktreePreserved { .. }
            | Event::MergeConflict { .. } => true,
            Event::JobStarted(_)
            | Event::JobResumed { .. }
            | Event::JobPaused { .. }
            | Event::JobCompleted { .. }
            | Event::JobFailed { .. }
            | Event::PhaseStarted { .. }
            | Event::PhaseCompleted { .. }
            | Event::ItemsSelected { .. }
            | Event::ItemQueued {}
            | crate::circuit_news!()
            | Event::StepStarted { .. }
            | Event::StepCompleted(_)
            | Event::StepFailed { .. }
            | Event::StepSkipped { .. }
            | Event::WorktreeCreated { .. }
            | Event::WorktreeCleaned { .. }
            | Event::WorkKept(_)
            | crate::resolution_news!()
            | Event::GitTampering { .. }
            | Event::CheckoutUpdateStarted(_)
            | crate::checkout_news!()
            | Event::JournalEndLost { .. }
            | Event::CheckpointCreated { .. } => false,
        }
    }

    /// Returns the entry of the item, with its data; `None` if it has none, or it was deleted.
    pub fn entry(&self, item_data: &RawValue) -> Option<DeadLetteredItem> {
        let mut entry = self.unsealed(item_data).filter(|_| !self.is_cleared())?;
        entry.update_hash();
        Some(entry)
    }

    /// Returns what the entry says without the item's data, even if it was deleted.
    pub fn without_item_data(&self) -> Option<DeadLetteredItem> {
        self.unsealed(RawValue::NULL)
    }

    fn unsealed(&self, item_data: &RawValue) -> Option<DeadLetteredItem> {
        let death = self.death.as_ref()?;
        let result = AgentResult {
            status: AgentStatus::of(death.failure.clone()),
            step: self.step.clone(),
            ended_at: death.last_attempt,
            worktree: self.worktree.clone(),
            ..self.result(self.first_attempt.unwrap_or(death.last_attempt))
        };
        let mut entry = failure_detail::unsealed(&result, item_data, death.attempts)?;
        entry.revision = death.revision;
        entry.status = death.status;
        entry.replays = death.replays;
        entry.failure_count = u32::try_from(self.history.len()).unwrap_or(u32::MAX);
        entry.failure_history.clone_from(&self.history);
        entry.cause_code = death.failure.cause;
        if !self.run.found.policy_snapshot.is_empty() {
            entry.policy_snapshot.clone_from(&self.run.found.policy_snapshot);
        }
        entry.commit_state = self.commit_state;
        entry.effects = self.ledger.effects().to_vec();
        entry.replay_cost_usd = self.replay_cost_usd;
        entry.lineage.clone_from(&self.lineage);
        entry.approval.clone_from(&self.approval);
        entry.quarantine.clone_from(&death.quarantine);
        entry.released.clone_from(&death.released);
        entry.owner = death.owner.clone().or_else(|| self.run.found.owner_of(&entry));
        entry.not_before = death.not_before;
        entry.tool_hash.clone_from(&self.run.found.tool_hash);
        entry.env_hash.clone_from(&self.run.found.env_hash);
        entry.closed.clone_from(&death.closed);
        entry.journal_seq = self.seq;
        match death.status {
            EntryStatus::Open if self.commit_state == CommitState::Unknown => {
                entry.replay_status = ReplayStatus::PendingReview;
                (entry.reprocess_eligible, entry.manual_review_required) = (false, true);
            }
            EntryStatus::Open => {}
            EntryStatus::Replaying => entry.replay_status = ReplayStatus::Replaying,
            EntryStatus::Resolved | EntryStatus::Dropped => {
                entry.replay_status = ReplayStatus::Closed;
                (entry.reprocess_eligible, entry.manual_review_required) = (false, false);
            }
        }
        Some(entry)
    }

    /// Returns how often the entry was changed; 0 if there never was one.
    pub fn revision(&self) -> u32 {
        self.death.as_ref().map_or(0, |death| death.revision)
    }

    /// Returns where the entry stands; `None` if there never was one.
    pub fn status(&self) -> Option<EntryStatus> {
        self.death.as_ref().map(|death| death.status)
    }

    /// Returns whether the entry was deleted.
    pub fn is_cleared(&self) -> bool {
        self.death.as_ref().is_some_and(|death| death.is_cleared)
    }

    /// Returns whether the item came to its end without ever being in the queue.
    pub fn is_finished(&self) -> bool {
        self.is_over
    }

    /// Returns the SHA-256 of the data that took the place of what was chosen, if some did.
    pub fn edited_input_hash(&self) -> Option<&str> {
        self.lineage.last().map(|edit| edit.input_hash.as_str())
    }

    /// Returns the item.
    pub fn item_id(&self) -> &ItemId {
        &self.item_id
    }

    /// Returns the last record that changed the entry and left nothing of the item under way.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Returns an attempt of the item of which nothing is known but when it began.
    pub(crate) fn result(&self, started_at: Timestamp) -> AgentResult {
        AgentResult {
            job_id: self.job_id.clone(),
            item_id: self.item_id.clone(),
            agent_id: String::new(),
            correlation_id: self.correlation_id.clone(),
            workflow_hash: self.run.workflow_hash.clone(),
            status: AgentStatus::Success,
            step: None,
            step_name: None,
            started_at,
            ended_at: started_at,
            duration_ms: 0,
            cost_usd: 0.0,
            session_id: None,
            json_log_location: None,
            worktree: None,
            journal_seq: self.seq,
        }
    }
}
