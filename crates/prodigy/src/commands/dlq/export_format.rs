//! Dead letters as rows of a table and as pages.

use prodigy_core::dlq::DeadLetteredItem;
use serde_json::Value;

use super::{
    advice::advice_for_reason,
    entries::labels::{class_name, split_pattern, status_name},
    stats::attempts_cost,
};
use crate::{commands::jobs::format_timestamp, render::console::one_line};

/// The columns of the CSV form.
pub(crate) const COLUMNS: &[&str] = &[
    "job_id",
    "item_id",
    "status",
    "reason_code",
    "class",
    "error_type",
    "error_signature",
    "error_pattern",
    "reason",
    "topic",
    "step_failed",
    "exit_code",
    "attempts",
    "replays",
    "first_attempt",
    "last_attempt",
    "reprocess_eligible",
    "manual_review_required",
    "cost_usd",
    "worktree_path",
    "branch_name",
    "patch_file",
    "json_log_location",
    "item_data",
];

/// Returns an entry as a row.
pub(crate) fn csv_row(entry: &DeadLetteredItem) -> String {
    let last = entry.failure_history.last();
    let left = entry.worktree_artifacts.clone().unwrap_or_default();
    let cells = [
        entry.job_id.to_string(),
        entry.item_id.to_string(),
        status_name(entry.status).to_owned(),
        entry.reason_code.to_string(),
        class_name(entry.class),
        split_pattern(&entry.error_pattern).0.to_owned(),
        entry.error_signature.clone(),
        entry.error_pattern.clone(),
        entry.reason.clone(),
        entry.topic.clone(),
        last.map(|last| last.step_failed.clone()).unwrap_or_default(),
        last.and_then(|last| last.exit_code).map(|code| code.to_string()).unwrap_or_default(),
        entry.attempts.to_string(),
        entry.replays.to_string(),
        entry.first_attempt.to_string(),
        entry.last_attempt.to_string(),
        entry.reprocess_eligible.to_string(),
        entry.manual_review_required.to_string(),
        attempts_cost(entry).to_string(),
        left.worktree_path.unwrap_or_default(),
        left.branch_name.unwrap_or_default(),
        left.patch_file.unwrap_or_default(),
        last.and_then(|last| last.json_log_location.clone()).unwrap_or_default(),
        entry.item_data.get().to_owned(),
    ];
    cells.map(|text| csv_cell(&text)).join(",") + "\n"
}

/// Returns a text as RFC 4180 wants it, and so that no spreadsheet takes it for a formula.
fn csv_cell(text: &str) -> String {
    let is_number = text.parse::<f64>().is_ok();
    let text = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) && !is_number {
        format!("'{text}")
    } else {
        text.to_owned()
    };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

/// Returns an entry as a part of a page.
pub(crate) fn markdown_section(entry: &DeadLetteredItem) -> String {
    let last = entry.failure_history.last();
    let mut facts = vec![
        ("status", status_name(entry.status).to_owned()),
        (
            "reason",
            format!("{} ({})", inline_code(entry.reason_code.code()), class_name(entry.class)),
        ),
        ("message", inline_code(&entry.reason)),
        (
            "cause",
            format!("{}, signature {}", inline_code(&entry.error_pattern), entry.error_signature),
        ),
        (
            "attempts",
            format!("{}, the last ended {}", entry.attempts, format_timestamp(entry.last_attempt)),
        ),
        ("to do", advice_for_reason(entry.reason_code).to_owned()),
    ];
    let step = last.map(|last| last.step_failed.as_str()).filter(|step| !step.is_empty());
    facts.extend(
        step.map(|step| ("step", format!("{} {}", inline_code(&entry.topic), inline_code(step)))),
    );
    if attempts_cost(entry) > 0.0 {
        facts.push(("cost", format!("${:.2}", attempts_cost(entry))));
    }
    let log = last.and_then(|last| last.json_log_location.as_deref());
    facts.extend(log.map(|log| ("log", inline_code(log))));
    if let Some(left) = &entry.worktree_artifacts {
        let path = left.worktree_path.as_deref().filter(|_| left.is_worth_showing());
        facts.extend(path.map(|path| ("worktree", inline_code(path))));
        let branch = left.branch_name.as_deref().filter(|_| left.has_branch());
        facts.extend(branch.map(|branch| ("branch", inline_code(branch))));
        facts.extend(left.patch_file.as_deref().map(|patch| ("patch", inline_code(patch))));
    }
    let mut page = format!("\n## {} of job {}\n\n", entry.item_id, entry.job_id);
    for (name, value) in facts {
        page.extend(["- **", name, "**: ", &value, "\n"]);
    }
    let data = entry.item_data.get();
    let pretty = serde_json::from_str::<Value>(data).map(|value| format!("{value:#}"));
    page.push_str(&code_block("json", &pretty.unwrap_or_else(|_| data.to_owned())));
    if let Some(tail) = last.map(|last| last.output_tail.trim_end()).filter(|t| !t.is_empty()) {
        page.push_str(&code_block("text", tail));
    }
    page
}

/// Returns text as code within a line, whatever it holds.
fn inline_code(text: &str) -> String {
    let text = one_line(text);
    let fence = "`".repeat(longest_backtick_run(&text) + 1);
    // A backtick at an edge would run into the fence.
    let space = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{space}{text}{space}{fence}")
}

/// Returns text as a block of code, whatever it holds.
fn code_block(language: &str, text: &str) -> String {
    let fence = "`".repeat(longest_backtick_run(text).max(2) + 1);
    format!("\n{fence}{language}\n{text}\n{fence}\n")
}

/// Returns how many backticks stand next to each other, at most.
fn longest_backtick_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}
