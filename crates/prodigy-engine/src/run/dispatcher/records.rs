//! Rules for records: masking of secrets, and events that must be on disk before the job goes on.

use prodigy_core::{
    event::{Event, NewEvent, PauseReason},
    job::{BudgetOverrun, JobInput},
    mask::Mask,
};
use serde_json::Value;

/// Takes secrets out of an event.
pub(crate) fn mask_event(mask: &Mask, event: &mut Event) {
    if mask.is_empty() {
        return;
    }
    // Every event came from JSON-able parts, so both ways succeed; if one did not,
    // the event as it is has already been masked where output was read.
    if let Ok(mut value) = serde_json::to_value(&*event) {
        mask.mask_value(&mut value);
        restore_effect_key(&mut value, event);
        if let Ok(masked) = serde_json::from_value(value) {
            *event = masked;
        }
    }
}

/// Puts back what a change outside is found by: made of names that stand in every record, and
/// of a hash.
fn restore_effect_key(value: &mut Value, event: &Event) {
    let key = if let Event::EffectPrepared(effect) = event {
        set(value, "step", &effect.step);
        if let Some(identity) = &effect.identity {
            set(value, "identity", identity);
        }
        set(value, "intent_hash", &effect.intent_hash);
        &effect.key
    } else if let Event::EffectCommitted { key, .. }
    | Event::EffectReconciled { key, .. }
    | Event::EffectCompensated { key, .. } = event
    {
        key
    } else {
        return;
    };
    set(value, "key", key);
}

fn set(value: &mut Value, name: &str, text: &str) {
    if let Some(object) = value.as_object_mut() {
        object.insert(name.to_owned(), text.into());
    }
}

/// Returns whether an event is about a change outside: somebody waits until it is on disk.
pub(crate) fn is_effect(event: &Event) -> bool {
    matches!(event, prodigy_core::effect_news!())
}

/// Returns the input that stops a run for a reason; `overspent` is the budget that is spent.
pub(crate) fn stop_input(reason: PauseReason, overspent: Option<BudgetOverrun>) -> JobInput {
    if let Some(overspent) = overspent.filter(|_| reason == PauseReason::Budget) {
        return JobInput::Stop { reason, message: overspent.message() };
    }
    let message = match reason {
        PauseReason::Interrupted => "stopped by Ctrl-C",
        PauseReason::Terminated => "stopped by a signal",
        PauseReason::MergeOutstanding => "the result waits to be merged",
        PauseReason::DiskFull => "too little disk space is left",
        PauseReason::Policy => "the error policy stopped it",
        PauseReason::ItemsOutstanding => "the other items wait",
        PauseReason::UsageLimit => "a usage limit was reached",
        PauseReason::OutOfCredits => "an account has no money left",
        PauseReason::NoAccess => "an account cannot be used",
        PauseReason::Budget => "the money that was set aside is spent",
    };
    JobInput::Stop { reason, message: message.to_owned() }
}

/// Returns whether the job may go on only once an event is on disk.
///
/// A step of the job's own that is done is not among them: it is written before the
/// next one starts, which `kill -9` cannot undo, and synced a moment later.
pub(crate) fn requires_sync(fact: &NewEvent) -> bool {
    match &fact.event {
        // Whether an item's commits were merged can be seen in the branch.
        // What an item left is awaited with the record that it is done.
        Event::WorktreeMerged { .. } | Event::WorkKept(_) => fact.item_id.is_none(),
        Event::JobStarted(_)
        | Event::JobPaused { .. }
        | Event::JobCompleted { .. }
        | Event::JobFailed { .. }
        | Event::PhaseCompleted { .. }
        | Event::ItemsSelected { .. }
        | Event::AgentCompleted(_)
        | Event::ResolutionCompleted { .. }
        | Event::WorkSuspended(_)
        | Event::QuotaPaused(_)
        | Event::CheckoutUpdateStarted(_)
        | Event::ItemSkipped { .. }
        | Event::ItemDeadLettered { .. }
        | Event::ReplayStarted { .. }
        | Event::DlqItemRemoved { .. }
        | Event::DlqItemUpdated { .. }
        | prodigy_core::approval_news!()
        | prodigy_core::effect_news!() => true,
        Event::JobResumed { .. }
        | Event::PhaseStarted { .. }
        | Event::ItemQueued {}
        | Event::AgentStarted { .. }
        | Event::AgentFailed(_)
        | Event::AgentRetrying { .. }
        | prodigy_core::circuit_news!()
        | Event::StepStarted { .. }
        | Event::StepCompleted(_)
        | Event::StepFailed { .. }
        | Event::StepSkipped { .. }
        | Event::AgentUsage { .. }
        | prodigy_core::agent_news!()
        | Event::AgentReleased { .. }
        | Event::QuotaWarned { .. }
        | Event::QuotaResumed {}
        | Event::BudgetExceeded { .. }
        | Event::ConcurrencyChanged { .. }
        | Event::WorktreeCreated { .. }
        | Event::WorktreePreserved { .. }
        | Event::WorktreeCleaned { .. }
        | Event::MergeConflict { .. }
        | Event::HandlerRestarted { .. }
        | Event::ResolutionStarted { .. }
        | Event::ResolutionFailed { .. }
        | Event::GitTampering { .. }
        | prodigy_core::checkout_news!()
        | Event::JournalEndLost { .. }
        | Event::CheckpointCreated { .. } => false,
    }
}
