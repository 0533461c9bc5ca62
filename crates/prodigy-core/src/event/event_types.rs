//! The names of the events, as the journal spells them.

use crate::event::Event;

/// Defines the names once, for the list and for the lookup.
macro_rules! event_types {
    ($($variant:pat => $name:literal,)*) => {
        impl Event {
            /// Every `event_type`, in the order of the documentation.
            pub const TYPES: &'static [&'static str] = &[$($name),*];

            /// Returns the event's `event_type`.
            pub fn event_type(&self) -> &'static str {
                match self {
                    $($variant => $name,)*
                }
            }
        }
    };
}

event_types! {
    Self::JobStarted(_) => "job_started",
    Self::JobResumed { .. } => "job_resumed",
    Self::JobPaused { .. } => "job_paused",
    Self::JobCompleted { .. } => "job_completed",
    Self::JobFailed { .. } => "job_failed",
    Self::PhaseStarted { .. } => "phase_started",
    Self::PhaseCompleted { .. } => "phase_completed",
    Self::ItemsSelected { .. } => "items_selected",
    Self::ItemQueued {} => "item_queued",
    Self::AgentStarted { .. } => "agent_started",
    Self::AgentCompleted(_) => "agent_completed",
    Self::AgentFailed(_) => "agent_failed",
    Self::AgentRetrying { .. } => "agent_retrying",
    Self::ItemSkipped { .. } => "item_skipped",
    Self::ItemDeadLettered { .. } => "item_dead_lettered",
    Self::ReplayStarted { .. } => "replay_started",
    Self::DlqItemRemoved { .. } => "dlq_item_removed",
    Self::DlqItemUpdated { .. } => "dlq_item_updated",
    Self::ApprovalRequested(_) => "approval_requested",
    Self::ApprovalGranted { .. } => "approval_granted",
    Self::ApprovalDenied { .. } => "approval_denied",
    Self::EffectPrepared(_) => "effect_prepared",
    Self::EffectCommitted { .. } => "effect_committed",
    Self::EffectReconciled { .. } => "effect_reconciled",
    Self::EffectCompensated { .. } => "effect_compensated",
    Self::CircuitOpen { .. } => "circuit_open",
    Self::CircuitHalfOpen {} => "circuit_half_open",
    Self::CircuitClosed {} => "circuit_closed",
    Self::StepStarted { .. } => "step_started",
    Self::StepCompleted(_) => "step_completed",
    Self::StepFailed { .. } => "step_failed",
    Self::StepSkipped { .. } => "step_skipped",
    Self::AgentSessionStarted { .. } => "agent_session_started",
    Self::AgentToolUsed { .. } => "agent_tool_used",
    Self::AgentUsage { .. } => "agent_usage",
    Self::AgentWarned { .. } => "agent_warned",
    Self::AgentReleased { .. } => "agent_released",
    Self::WorkSuspended(_) => "work_suspended",
    Self::QuotaPaused(_) => "quota_paused",
    Self::QuotaWarned { .. } => "quota_warned",
    Self::QuotaResumed {} => "quota_resumed",
    Self::BudgetExceeded { .. } => "budget_exceeded",
    Self::ConcurrencyChanged { .. } => "concurrency_changed",
    Self::WorktreeCreated { .. } => "worktree_created",
    Self::WorktreeMerged { .. } => "worktree_merged",
    Self::WorktreePreserved { .. } => "worktree_preserved",
    Self::WorktreeCleaned { .. } => "worktree_cleaned",
    Self::WorkKept(_) => "work_kept",
    Self::MergeConflict { .. } => "merge_conflict",
    Self::HandlerRestarted { .. } => "handler_restarted",
    Self::ResolutionStarted { .. } => "resolution_started",
    Self::ResolutionCompleted { .. } => "resolution_completed",
    Self::ResolutionFailed { .. } => "resolution_failed",
    Self::GitTampering { .. } => "git_tampering",
    Self::CheckoutUpdateStarted(_) => "checkout_update_started",
    Self::CheckoutChanged { .. } => "checkout_changed",
    Self::GuardedFilesChanged { .. } => "guarded_files_changed",
    Self::JournalEndLost { .. } => "journal_end_lost",
    Self::CheckpointCreated { .. } => "checkpoint_created",
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::event::EventRecord;

    #[test]
    fn every_name_is_the_one_that_is_written() {
        let golden = include_str!("../../../prodigy-engine/tests/golden/v1/every-event.jsonl");
        let mut seen = BTreeSet::new();
        let items = include_str!("../../../prodigy-engine/tests/golden/v1/items.jsonl");
        let governed = include_str!("../../../prodigy-engine/tests/golden/v1/governed.jsonl");
        let agents = include_str!("../../../prodigy-engine/tests/golden/v1/agents.jsonl");
        let checkout = include_str!("../../../prodigy-engine/tests/golden/v1/checkout.jsonl");
        let conflict = include_str!("../../../prodigy-engine/tests/golden/v1/conflict.jsonl");
        let kept = include_str!("../../../prodigy-engine/tests/golden/v1/kept-work.jsonl");
        let handler = include_str!("../../../prodigy-engine/tests/golden/v1/handler.jsonl");
        let lost = include_str!("../../../prodigy-engine/tests/golden/v1/lost-end.jsonl");
        let guarded = include_str!("../../../prodigy-engine/tests/golden/v1/guarded.jsonl");
        let suspended = include_str!("../../../prodigy-engine/tests/golden/v1/suspended.jsonl");
        let all = [
            golden, items, governed, agents, checkout, conflict, kept, handler, lost, guarded,
            suspended,
        ];
        for line in all.iter().flat_map(|text| text.lines()) {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            let record: EventRecord = serde_json::from_str(line).unwrap();
            assert_eq!(record.event.event_type(), value["event_type"]);
            seen.insert(record.event.event_type());
        }
        assert_eq!(seen, Event::TYPES.iter().copied().collect());
    }
}
