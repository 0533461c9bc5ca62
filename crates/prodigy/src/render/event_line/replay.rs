//! Events of governed replay, for people.

use prodigy_core::{
    effect::EffectFinding,
    event::{EntryChange, EntryRemoval, Event},
};

use super::shorten_line;

/// Returns what an event says about changes outside or about a dead letter, if it is one of those.
pub(crate) fn format_replay_event(event: &Event) -> Option<String> {
    format_effect_event(event)
        .or_else(|| format_approval_event(event))
        .or_else(|| format_entry_event(event))
}

fn format_effect_event(event: &Event) -> Option<String> {
    Some(if let Event::EffectPrepared(effect) = event {
        format!("{}  {}", effect.key, shorten_line(&effect.name))
    } else if let Event::EffectCommitted { key, receipt } = event {
        format!("{key}  {}", shorten_line(receipt.as_deref().unwrap_or_default()))
    } else if let Event::EffectReconciled { key, finding, by, .. } = event {
        let finding = match finding {
            EffectFinding::Committed => "was made",
            EffectFinding::Absent => "was not made",
            EffectFinding::Partial => "was made in part",
            EffectFinding::Indeterminate => "cannot be told",
        };
        format!("{key}  {finding}  by {by}")
    } else if let Event::EffectCompensated { key, by } = event {
        format!("{key}  by {by}")
    } else {
        return None;
    })
}

fn format_approval_event(event: &Event) -> Option<String> {
    Some(if let Event::ApprovalRequested(request) = event {
        format!("by {}  for {}", request.by, shorten_line(&request.rule))
    } else if let Event::ApprovalGranted { by, identity, .. } = event {
        format!("by {by}  {identity}")
    } else if let Event::ApprovalDenied { by, identity, reason, .. } = event {
        format!("by {by}  {identity}  {}", shorten_line(reason))
    } else {
        return None;
    })
}

fn format_entry_event(event: &Event) -> Option<String> {
    Some(if let Event::ReplayStarted { replay, by, reason, forced, allowed } = event {
        let forced = if *forced { "  forced" } else { "" };
        let rule = allowed.as_ref().map(|allowed| format!("  by rule `{}`", allowed.rule));
        let why = reason.as_ref().map(|why| format!("  {}", shorten_line(why)));
        let (rule, why) = (rule.unwrap_or_default(), why.unwrap_or_default());
        format!("replay {replay}  by {by}{forced}{rule}{why}")
    } else if let Event::DlqItemUpdated { change, reason, by } = event {
        let change = match change {
            EntryChange::Quarantined { .. } => "quarantined",
            EntryChange::Released => "released",
            EntryChange::Edited { .. } => "edited",
        };
        format!("{change}  by {by}  {}", shorten_line(reason))
    } else if let Event::DlqItemRemoved { how, reason, by } = event {
        let how = match how {
            EntryRemoval::Dropped => "dropped",
            EntryRemoval::Cleared => "cleared",
            EntryRemoval::Adopted => "adopted",
        };
        format!("{how}  by {by}  {}", shorten_line(reason))
    } else {
        return None;
    })
}
