//! One dead letter, as a person wants to read it.

use std::{path::Path, time::Duration};

use prodigy_core::{
    dlq::{
        DeadLetteredItem, EntryStatus, FailureDetail, InputEdit, ManualAction, WorktreeArtifacts,
    },
    duration,
    failure::ReasonCode,
    replay::{NextAction, ReplayDecision, ReplayVerdict, approval::Approval},
};
use serde_json::Value;

use super::table::TextTable;
use crate::{
    commands::{
        context::shell_quote,
        dlq::{
            advice::advice_for_reason,
            decision::{self, describe_decision},
            entries::{
                WITH_EXPORT,
                labels::{class_name, status_name},
                recovery_commands,
            },
        },
        jobs::{format_minute, format_timestamp},
    },
    error::CliError,
    render::console::{Console, one_line},
};

/// So many lines of output are shown; the log has all of them.
const OUTPUT_LINES: usize = 20;
/// So many lines of the item's data are shown; `dlq inspect` has all of them.
const ITEM_LINES: usize = 24;
/// So many files that were not committed are shown; the patch has all of them.
const CHANGED_LINES: usize = 12;
/// The longest line of the item's data that is shown.
const LONGEST: usize = 400;

/// Prints an entry.
pub(crate) fn render_dead_letter(
    entry: &DeadLetteredItem,
    ruling: Option<&ReplayDecision<'_>>,
    has_journal: bool,
    out: &mut Console,
) -> Result<(), CliError> {
    for (name, value) in facts(entry, ruling, has_journal) {
        out.line(format_args!("{name:<12}{}", one_line(&value)))?;
    }
    output(entry, out)?;
    attempts(entry, out)?;
    section("item", &item_lines(entry), out)?;
    artifact_lines(entry, out)
}

/// Returns what there is to say in a line each, by name.
fn facts(
    entry: &DeadLetteredItem,
    ruling: Option<&ReplayDecision<'_>>,
    has_journal: bool,
) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("item", format!("{} of job {}", entry.item_id, entry.job_id)),
        ("status", status(entry)),
        ("reason", format!("{} ({})", entry.reason_code, class_name(entry.class))),
        ("message", entry.reason.clone()),
    ];
    if let Some(cause) = entry.cause_code {
        facts.push(("first cause", cause.to_string()));
    }
    facts.push(("cause", format!("{} [{}]", entry.error_pattern, entry.error_signature)));
    facts.extend(entry.failure_history.last().map(|last| ("where", failure_location(entry, last))));
    facts.push(("failed", failure_history(entry)));
    if let Some(ruling) = ruling {
        facts.push(("replay", describe_decision(ruling.verdict).to_owned()));
        facts.push(("because", ruling.explain().join("; ")));
    }
    if !has_journal {
        facts.push(("replay", "it cannot be replayed: its job has no journal".to_owned()));
    }
    facts.extend(effect_facts(entry));
    if entry.status == EntryStatus::Open && !has_journal {
        let to_do = format!("export its item and run it in a new job, with {WITH_EXPORT}");
        facts.push(("to do", to_do));
    } else if entry.status == EntryStatus::Open {
        facts.push(("to do", advice_for_reason(entry.reason_code).to_owned()));
    }
    facts.extend(entry.not_before.map(|at| ("not before", format_timestamp(at))));
    facts.extend(entry.owner.clone().map(|owner| ("owner", owner)));
    facts
}

/// Says what the attempts changed outside, and what people said about the entry.
fn effect_facts(entry: &DeadLetteredItem) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    for effect in &entry.effects {
        let receipt = effect.receipt.as_ref().map(|said| format!(": {said}")).unwrap_or_default();
        let state = effect.state.as_str();
        facts.push(("outside", format!("{} is {state}{receipt} [{}]", effect.name, effect.key)));
    }
    let mark = |what: &str, mark: &ManualAction| {
        let ManualAction { at, by, reason } = mark;
        format!("{what} {} by {by}: {reason}", format_timestamp(*at))
    };
    facts.extend(entry.quarantine.as_ref().map(|put| ("quarantine", mark("since", put))));
    facts.extend(entry.released.as_ref().map(|let_out| ("released", mark("on", let_out))));
    if let Some(approval) = entry.approval.as_ref().filter(|approval| !approval.consumed) {
        let Approval { digest, requested_by, expires_at, .. } = approval;
        let asked = format!("asked for by {requested_by}, until {}", format_timestamp(*expires_at));
        facts.push(("approval", asked));
        facts.push(("digest", digest.clone()));
    }
    for edit in &entry.lineage {
        let InputEdit { at, by, reason, .. } = edit;
        facts.push(("edited", format!("{} by {by}: {reason}", format_timestamp(*at))));
    }
    facts
}

/// Says where an entry stands.
fn status(entry: &DeadLetteredItem) -> String {
    let status = status_name(entry.status);
    let Some(closed) = &entry.closed else { return status.to_owned() };
    let by = closed.by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
    let reason = closed.reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    format!("{status} {}{by}{reason}", format_timestamp(closed.at))
}

/// Says where the last attempt failed.
fn failure_location(entry: &DeadLetteredItem, last: &FailureDetail) -> String {
    let mut parts = Vec::new();
    // What has no name of its own goes by its path.
    let has_path = entry.topic.contains('.') && entry.topic != last.step_failed;
    if !last.step_failed.is_empty() {
        let path = if has_path { format!("{} ", entry.topic) } else { String::new() };
        parts.push(format!("step {path}{}", last.step_failed));
    } else if !entry.topic.is_empty() {
        parts.push(entry.topic.clone());
    }
    parts.push(format!("attempt {}", last.attempt_number));
    if !last.agent_id.is_empty() {
        parts.push(last.agent_id.clone());
    }
    parts.extend(last.exit_code.map(|code| format!("exit code {code}")));
    parts.join(", ")
}

/// Says how often and when it failed.
fn failure_history(entry: &DeadLetteredItem) -> String {
    let times = match entry.failure_count {
        1 => "once".to_owned(),
        times => format!("{times} times"),
    };
    let replays = match entry.replays {
        0 => String::new(),
        1 => ", replayed once".to_owned(),
        times => format!(", replayed {times} times"),
    };
    let (first, last) =
        (format_timestamp(entry.first_attempt), format_timestamp(entry.last_attempt));
    format!("{times}{replays}, from {first} to {last}")
}

/// Prints the last lines that the last attempt printed.
fn output(entry: &DeadLetteredItem, out: &mut Console) -> Result<(), CliError> {
    let last = entry.failure_history.last();
    let tail = last.map(|last| last.output_tail.as_str()).filter(|tail| !tail.is_empty());
    let logs = entry.worktree_artifacts.as_ref().and_then(|left| left.error_logs.as_deref());
    let Some(text) = tail.or(logs).filter(|text| !text.trim().is_empty()) else {
        return Ok(());
    };
    let lines: Vec<_> = text.trim_end().lines().map(str::to_owned).collect();
    let cut = lines.len().saturating_sub(OUTPUT_LINES);
    let mut shown: Vec<_> = lines.into_iter().skip(cut).collect();
    if cut > 0 {
        shown.insert(0, "…".to_owned());
    }
    section("last lines of output", &shown, out)?;
    let trace = last.and_then(|last| last.stack_trace.as_deref());
    match trace.filter(|trace| !text.contains(trace.trim())) {
        Some(trace) => section("where it broke off", &first_lines(trace, OUTPUT_LINES), out),
        None => Ok(()),
    }
}

/// Prints a line for each attempt.
fn attempts(entry: &DeadLetteredItem, out: &mut Console) -> Result<(), CliError> {
    if entry.failure_history.is_empty() {
        return Ok(());
    }
    out.line("\nattempts")?;
    let has_cost = entry.failure_history.iter().any(|attempt| attempt.cost_usd > 0.0);
    let mut head = vec!["#", "ENDED", "TOOK", "REASON", "MESSAGE"];
    if has_cost {
        head.insert(3, "COST");
    }
    let mut table = TextTable::new(&head, &[], 2);
    for attempt in &entry.failure_history {
        let mut cells = vec![
            attempt.attempt_number.to_string(),
            format_minute(attempt.timestamp),
            duration::format(Duration::from_millis(attempt.duration_ms)),
            attempt.reason_code.to_string(),
            attempt.error_message.clone(),
        ];
        if has_cost {
            cells.insert(3, format!("${:.2}", attempt.cost_usd));
        }
        table.row(&cells, out)?;
    }
    table.write(out)
}

/// Returns the item's data, in as many lines as a person wants to see.
fn item_lines(entry: &DeadLetteredItem) -> Vec<String> {
    let data = entry.item_data.get();
    let pretty = serde_json::from_str::<Value>(data).map(|value| format!("{value:#}"));
    first_lines(&pretty.unwrap_or_else(|_| data.to_owned()), ITEM_LINES)
}

fn first_lines(text: &str, most: usize) -> Vec<String> {
    let all = text.trim_end().lines().count();
    let shown = if all > most { most.saturating_sub(1) } else { most };
    let cut = |line: &str| match line.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or_default()),
        None => line.to_owned(),
    };
    let mut lines: Vec<_> = text.lines().take(shown).map(cut).collect();
    if all > shown {
        lines.push(format!("… and {} more lines", all - shown));
    }
    lines
}

/// Prints what the last attempt left behind, and where.
fn artifact_lines(entry: &DeadLetteredItem, out: &mut Console) -> Result<(), CliError> {
    let left = entry.worktree_artifacts.clone().unwrap_or_default();
    let mut rows = Vec::new();
    rows.extend(attempt_log_path(entry).map(|path| ("log", path.to_owned())));
    // A worktree that others work in by now, and a branch without commits, lead nowhere.
    if let Some(path) = left.worktree_path.as_ref().filter(|_| left.is_worth_showing()) {
        let kept = if left.preserved { "" } else { " (not kept)" };
        rows.push(("worktree", format!("{path}{kept}")));
    }
    let branch = left.branch_name.clone().filter(|_| left.has_branch());
    rows.extend(branch.map(|branch| ("branch", branch)));
    rows.extend(left.patch_file.clone().map(|patch| ("patch", patch)));
    if rows.is_empty() && left.changes().is_none() {
        return Ok(());
    }
    out.line("\nartifacts")?;
    for (name, value) in rows {
        out.line(format_args!("  {name:<10}{}", one_line(&value)))?;
    }
    if let Some(changes) = left.changes().filter(|changes| !changes.trim().is_empty()) {
        out.line("  not committed")?;
        for line in first_lines(changes, CHANGED_LINES) {
            out.line(format_args!("    {}", one_line(&line)))?;
        }
    }
    Ok(())
}

/// Prints a part that has lines of its own.
fn section(name: &str, lines: &[String], out: &mut Console) -> Result<(), CliError> {
    out.line(format_args!("\n{name}"))?;
    for line in lines {
        out.line(format_args!("  {}", one_line(line.trim_end())).to_string().trim_end())?;
    }
    Ok(())
}

/// Returns the file with all that the last attempt printed.
fn attempt_log_path(entry: &DeadLetteredItem) -> Option<&str> {
    entry.failure_history.last()?.json_log_location.as_deref()
}

/// Returns what makes sense next, and the commands for it.
///
/// An entry of an older program has no job that anything could be done with.
pub(crate) fn next_steps(
    program: &str,
    entry: &DeadLetteredItem,
    ruling: Option<&ReplayDecision<'_>>,
    has_job: bool,
) -> Vec<(&'static str, String)> {
    let (job, item) = (&entry.job_id, &entry.item_id);
    let mut next = Vec::new();
    if !has_job {
        let [export, run] = recovery_commands(program, job);
        next.extend([("export it", export), ("run it anew", run)]);
        next.extend(entry.worktree_artifacts.iter().flat_map(artifact_commands));
        return next;
    }
    let is_open = entry.status == EntryStatus::Open;
    // What is spent stays spent: only another workflow has more to spend.
    let is_spent = entry.reason_code == ReasonCode::BudgetExceeded;
    let flag = if is_spent { " --use-current-workflow" } else { "" };
    if ruling.is_some_and(|ruling| ruling.verdict == ReplayVerdict::Replay) {
        next.push(("try it again", format!("{program} dlq retry {job} {item}{flag}")));
    }
    next.push(("all its output", format!("{program} logs {job} {item}")));
    if let Some(left) = &entry.worktree_artifacts {
        next.extend(artifact_commands(left));
    }
    let need = ruling.and_then(|ruling| ruling.needs).filter(|need| *need != NextAction::Drop);
    if let Some(need) = need.filter(|_| is_open) {
        let command = decision::next_command(program, job, item, need);
        let retry = format!("dlq retry {job} {item}");
        next.push(("get it on", command.replace(&retry, &format!("{retry}{flag}"))));
    }
    if is_open {
        let drop = format!("{program} dlq drop {job} {item} --reason TEXT");
        next.push(("discard", drop));
    }
    next
}

/// Returns the commands that lead to what was left behind.
fn artifact_commands(left: &WorktreeArtifacts) -> Vec<(&'static str, String)> {
    let mut next = Vec::new();
    if let Some(path) = left.worktree_path.as_deref().filter(|_| left.preserved) {
        next.push(("its worktree", format!("cd {}", shell_quote(Path::new(path)))));
    }
    if let Some(patch) = &left.patch_file {
        next.push(("take its changes", format!("git apply {}", shell_quote(Path::new(patch)))));
    }
    next
}
