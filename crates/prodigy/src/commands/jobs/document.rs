//! A job as JSON, for `prodigy jobs --json` and `prodigy jobs show --json`.

use prodigy_core::{Timestamp, job::JobStatus};
use serde_json::{Value, json};

use super::{JobView, elapsed, is_open, items, spend_view};
use crate::render::report::{kept_work, suspended_work};

/// Returns a job as JSON.
pub(super) fn document(row: &JobView, now: Timestamp) -> Value {
    let mut document = plain_document(row, now);
    if let (Value::Object(document), Value::Object(money)) =
        (&mut document, spend_view(row).document())
    {
        document.extend(money);
        if row.summary.checkout_in_all > 0 {
            document.insert("checkout_changes".to_owned(), json!(row.summary.checkout));
        }
        if !row.summary.suspended.is_empty() {
            let suspended = suspended_work::document(&row.summary.suspended);
            document.insert("suspended".to_owned(), suspended);
        }
        if !row.summary.guarded.is_empty() {
            document.insert("guarded_files".to_owned(), json!(row.summary.guarded));
        }
    }
    document
}

/// Returns a job as JSON, without its money.
fn plain_document(row: &JobView, now: Timestamp) -> Value {
    let JobView { layout, job, summary, status, damage } = row;
    let started = summary.started.as_ref();
    json!({
        "job_id": job,
        "repo": layout.repo(),
        "status": if damage.is_some() { json!("damaged") } else { json!(status) },
        "workflow_file": started.map(|started| &started.workflow_file),
        "workflow_name": started.and_then(|started| started.workflow_name.as_ref()),
        "repository": started.map(|started| &started.repository),
        "options": started.map(|started| started.options),
        "target_branch": started.and_then(|started| started.target_branch.as_ref()),
        "steps_done": summary.steps_done,
        "steps_failed": summary.steps_failed,
        "steps_total": summary.steps_total,
        "phase": summary.phase.filter(|_| *status == JobStatus::Running),
        "items": summary.items.as_ref().map(|items| items::document(items, *status == JobStatus::Running, now)),
        "current_step": summary.running.as_ref().map(|(step, _)| step),
        "started_at": summary.started_at,
        "last_event_at": summary.last_at,
        "duration_ms": u64::try_from(elapsed(row, now).as_millis()).unwrap_or(u64::MAX),
        "resumed": summary.resumed,
        "records": summary.records,
        "branch": summary.branch,
        "worktree": summary.worktree,
        "merged_commit": summary.merged,
        "end": summary.end,
        "limit": summary.quota.as_ref().filter(|_| is_open(*status)),
        "warnings": {
            "count": summary.warnings.in_all,
            "items": summary.warnings.items.len(),
            "first": summary.warnings.first,
        },
        "kept": kept_work::document(&summary.kept),
        "damage": damage.as_ref().map(ToString::to_string),
    })
}
