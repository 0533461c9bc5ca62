//! Dead letters in words and in JSON.

use prodigy_core::{dlq::EntryStatus, failure::ReasonClass, ids::JobId, replay::ReplayVerdict};
use prodigy_engine::store::dlq::DeadLetterSummary;
use serde::Serialize;
use serde_json::{Value, json};

use super::causes::{CauseIndex, CauseView};
use crate::{commands::dlq::advice::advice_for_reason, error::CliError, render::console::Console};

/// The version of the JSON documents.
pub(crate) const SCHEMA_VERSION: u32 = 1;

/// The statuses of entries that are not closed.
pub(crate) const UNSETTLED: &[EntryStatus] = &[EntryStatus::Open, EntryStatus::Replaying];
/// The statuses of entries that are closed.
pub(crate) const CLOSED: &[EntryStatus] = &[EntryStatus::Resolved, EntryStatus::Dropped];
/// Every status.
pub(crate) const ANY: &[EntryStatus] =
    &[EntryStatus::Open, EntryStatus::Replaying, EntryStatus::Resolved, EntryStatus::Dropped];

/// Returns the name of a class, as users write it.
pub(crate) fn class_name(class: ReasonClass) -> String {
    name_of(class)
}

/// Returns the name of a status, as users see it.
pub(crate) fn status_name(status: EntryStatus) -> &'static str {
    match status {
        EntryStatus::Open => "open",
        EntryStatus::Replaying => "replaying",
        EntryStatus::Resolved => "resolved",
        EntryStatus::Dropped => "dropped",
    }
}

/// Returns the name that a value goes by in JSON.
fn name_of(value: impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns the type of the error and the readable part of a pattern.
pub(crate) fn split_pattern(pattern: &str) -> (&str, &str) {
    pattern.split_once("::").unwrap_or(("Unknown", pattern))
}

/// Returns what a heading says as JSON, the job, and what the policy says.
pub(crate) fn row_document(
    job: &JobId,
    heading: &DeadLetterSummary,
    verdict: Option<ReplayVerdict>,
) -> Value {
    let mut document = json!({ "job_id": job, "verdict": verdict });
    if let (Value::Object(fields), Ok(Value::Object(more))) =
        (&mut document, serde_json::to_value(heading))
    {
        fields.extend(more);
        fields.insert("owner".to_owned(), json!(heading.standing.owner));
    }
    document
}

/// Returns what there is to say of a cause, as JSON.
pub(crate) fn group_document(group: &CauseView) -> Value {
    let (error_type, _) = split_pattern(&group.pattern);
    json!({
        "error_signature": group.signature,
        "error_pattern": group.pattern,
        "error_type": error_type,
        "reason_code": group.reason,
        "class": group.class,
        "count": group.count,
        "can_replay": group.replayable,
        "last_hour": group.recent,
        "first_seen": group.first,
        "last_seen": group.last,
        "example": { "job_id": group.example.0, "item_id": group.example.1 },
        "suggestion": advice_for_reason(group.reason),
    })
}

/// Names what makes sense next, each with the command for it.
pub(crate) fn print_next_steps(next: &[(&str, String)], out: &mut Console) -> Result<(), CliError> {
    if next.is_empty() {
        return Ok(());
    }
    // What it is about has to stand above it.
    out.flush()?;
    let width = next.iter().map(|(what, _)| what.len()).max().unwrap_or(0);
    out.note("\nnext:");
    for (what, command) in next {
        out.note(format_args!("  {what:<width$}  {command}"));
    }
    Ok(())
}

/// Says how many entries there are.
pub(crate) fn format_entry_counts(groups: &CauseIndex) -> String {
    let mut parts = vec![format!("{} open", groups.open)];
    if groups.replayable() > 0 {
        parts.push(format!("{} of them can be replayed", groups.replayable()));
    }
    let more = [
        (groups.replaying, "being replayed"),
        (groups.resolved, "resolved"),
        (groups.dropped, "dropped"),
    ];
    parts.extend(more.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")));
    parts.join(", ")
}
