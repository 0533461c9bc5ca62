//! The summary of a run with items.

use std::collections::BTreeMap;

use prodigy_core::{
    duration,
    event::{CompletedStatus, PauseReason},
    failure::ReasonCode,
    job::{JobOutcome, MapState, RunOutcome, error_metrics::ErrorMetrics},
};
use prodigy_engine::run::ReplayCounts;

use super::{RunSummary, print_branch, print_merge};
use crate::{
    commands::context::shell_quote,
    progress::{
        line::{format_progress, plural},
        run_log::{FailedItem, RunLog},
    },
    render::console::{Console, one_line},
};

/// The most items that are named behind one failure.
const NAMED: usize = 5;

/// Says what a run with items came to, and what to type next.
pub(crate) fn print_item_summary(over: &RunSummary<'_>, out: &mut Console) {
    let Some(end) = &over.job.end else { return };
    let cost = over.cost();
    let took = duration::format(over.notebook.elapsed());
    let headline = headline(end, over);
    let progress = match over.ending {
        RunOutcome::NoItems => String::new(),
        RunOutcome::Completed
        | RunOutcome::Failed
        | RunOutcome::MergeOutstanding
        | RunOutcome::StoppedByPolicy
        | RunOutcome::Paused(_) => format!(" · {}", format_progress(over.job)),
    };
    // The replays of a run have a line of their own.
    let progress = if over.is_retry { String::new() } else { progress };
    out.note(format_args!("\n{headline}{progress} · {took}{cost}"));
    if let JobOutcome::Failed { failure, .. } = end {
        for line in failure.output_tail.lines() {
            out.note(format_args!("  | {line}"));
        }
    }
    if let Some(map) = over.job.map.as_ref().filter(|map| map.total > 0) {
        if over.is_retry {
            print_replayed(over.replays, out);
            out.note(format_args!("job: {}", format_item_counts(map)));
            print_failures(&over.notebook.metrics(), over.notebook, out);
        } else {
            out.note(format_args!("items: {}", format_item_counts(map)));
            print_replayed(over.replays, out);
            print_failures(&metrics(map), over.notebook, out);
        }
    }
    over.print_details(out);
    print_artifacts(over, out);
    if !over.is_rehearsal {
        print_next_steps(end, over, out);
    }
}

fn headline(end: &JobOutcome, over: &RunSummary<'_>) -> String {
    match end {
        JobOutcome::Completed(_) if over.job.has_no_success() => {
            "failed: no item succeeded".to_owned()
        }
        JobOutcome::Completed(CompletedStatus::Completed) => "completed".to_owned(),
        JobOutcome::Completed(CompletedStatus::CompletedWithFailures) => {
            "completed with failures".to_owned()
        }
        JobOutcome::Failed { failure, .. } if over.ending == RunOutcome::NoItems => {
            one_line(&failure.message)
        }
        JobOutcome::Failed { step, failure } if step == "map" => {
            format!("failed: {}", one_line(&failure.message))
        }
        JobOutcome::Failed { step, failure } => {
            format!("failed at step {step}: {}", one_line(&failure.message))
        }
        JobOutcome::Paused { reason: PauseReason::MergeOutstanding, .. } => {
            "not merged yet".to_owned()
        }
        JobOutcome::Paused { reason: PauseReason::Policy, message } => {
            format!("stopped by the error policy: {}", one_line(message))
        }
        JobOutcome::Paused { message, .. } => format!("paused: {}", one_line(message)),
    }
}

/// Says what became of the dead letters that the run replayed.
fn print_replayed(ends: ReplayCounts, out: &mut Console) {
    let ReplayCounts { resolved, dead_lettered, waiting } = ends;
    if resolved + dead_lettered + waiting > 0 {
        // Those that a stop cut off go on with the next run.
        let waiting = match waiting {
            0 => String::new(),
            waiting => format!(", {waiting} waiting"),
        };
        out.note(format_args!(
            "replayed: {resolved} resolved, {dead_lettered} back in the DLQ{waiting}"
        ));
    }
}

/// Returns how the items fared, in words; together they are all there are.
pub(crate) fn format_item_counts(map: &MapState) -> String {
    let mut parts = vec![format!("{} successful", map.counts.successful)];
    if map.counts.recovered > 0 {
        parts.push(format!("{} of them recovered from a failed step", map.counts.recovered));
    }
    if map.counts.ignored > 0 {
        parts.push(format!("{} of them with an ignored failure", map.counts.ignored));
    }
    let mut push = |number: u32, what: &str| {
        if number > 0 {
            parts.push(format!("{number} {what}"));
        }
    };
    push(map.counts.dead_lettered, "in the DLQ");
    push(map.counts.skipped, "left out");
    push(map.pending() + map.in_flight(), "waiting");
    push(retried_count(map), "tried more than once");
    parts.join(", ")
}

/// Returns how many items were tried more than once.
pub(crate) fn retried_count(map: &MapState) -> u32 {
    let retried = map.items.iter().filter(|item| item.attempts > 1);
    u32::try_from(retried.count()).unwrap_or(u32::MAX)
}

/// Returns the numbers of a job, and what its failures have in common.
pub(crate) fn metrics(map: &MapState) -> ErrorMetrics {
    let counts = map.counts;
    map.tally.metrics(
        map.total.into(),
        counts.successful.into(),
        counts.dead_lettered.into(),
        counts.skipped.into(),
    )
}

/// Says why items failed: what keeps coming back as a pattern, the rest one by one.
fn print_failures(metrics: &ErrorMetrics, notebook: &RunLog, out: &mut Console) {
    if metrics.failed + metrics.skipped == 0 {
        return;
    }
    out.note("failures:");
    for pattern in &metrics.failure_patterns {
        let example = match pattern.example.as_str() {
            "" => String::new(),
            example => format!(", e.g. {}", one_line(example)),
        };
        out.note(format_args!("  {} × {}{example}", pattern.frequency, pattern.pattern_type));
        let advice = pattern.suggested_action.trim_end_matches('.');
        out.note(format_args!("      {}", one_line(advice)));
    }
    let is_pattern = |failed: &&FailedItem| {
        let kind = prodigy_core::failure::signature::error_type(failed.failure.kind);
        metrics.failure_patterns.iter().any(|pattern| pattern.pattern_type == kind)
    };
    let mut groups: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for failed in notebook.failures.iter().filter(|failed| !is_pattern(failed)) {
        let cause = (failed.failure.kind.code(), failed.failure.message.as_str());
        groups.entry(cause).or_default().push(failed.item.as_str());
    }
    for ((code, message), items) in groups {
        let named = items.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
        let more = match items.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        out.note(format_args!("  {code}: {}  {named}{more}", one_line(message)));
    }
}

/// Says where the work is: what was merged, what was kept, and what would get lost.
fn print_artifacts(over: &RunSummary<'_>, out: &mut Console) {
    let RunSummary { layout, id, job, notebook, program, .. } = over;
    let discarded = notebook.uncommitted.saturating_sub(notebook.kept_work.items());
    if discarded > 0 {
        let items = plural(discarded, "item");
        out.note(format_args!("note: uncommitted files of {items} are neither merged nor kept"));
    }
    match &job.end {
        Some(JobOutcome::Completed(_)) => print_merge(over, out),
        Some(JobOutcome::Failed { .. } | JobOutcome::Paused { .. }) => print_branch(over, out),
        None => {}
    }
    over.print_kept_work(out);
    if over.is_rehearsal {
        return;
    }
    for (_, path) in &notebook.kept {
        out.note(format_args!("kept: {path}"));
    }
    let more = notebook.kept_in_all.len().saturating_sub(notebook.kept.len());
    if more > 0 {
        out.note(format_args!(
            "kept: {more} more; see `{program} events {id} --type worktree_preserved`"
        ));
    }
    if job.map.as_ref().is_some_and(|map| map.counts.dead_lettered > 0) {
        out.note(format_args!("dead letters: {}", layout.dlq_items_dir(id).display()));
    }
}

/// Says what to type next.
fn print_next_steps(end: &JobOutcome, over: &RunSummary<'_>, out: &mut Console) {
    let RunSummary { program, id, job, .. } = over;
    let dead = job.map.as_ref().is_some_and(|map| map.counts.dead_lettered > 0);
    match end {
        JobOutcome::Completed(_) if dead => {
            out.note(format_args!("next: {program} dlq show {id}"));
        }
        JobOutcome::Completed(_) if job.has_no_success() => {
            out.note(format_args!("next: {program} events {id} --type item_skipped"));
        }
        JobOutcome::Completed(_) => out.note(format_args!("next: {program} events {id}")),
        JobOutcome::Failed { .. } if over.ending == RunOutcome::NoItems => {
            let file = job.started.as_ref().map(|started| started.workflow_file.as_str());
            // A batch has no file to look at.
            let file = file.filter(|file| std::path::Path::new(file).is_file());
            match file.map(|file| shell_quote(file.as_ref())) {
                Some(file) => out.note(format_args!("next: {program} plan {file}")),
                None => out.note(format_args!("next: {program} events {id}")),
            }
        }
        JobOutcome::Failed { step, failure }
            if step == "map" && failure.kind == ReasonCode::InputMissing =>
        {
            out.note(
                "put the file into the worktree and resume, or start anew with `--input FILE`",
            );
            out.note(format_args!("next: {program} resume {id}"));
        }
        JobOutcome::Failed { step, .. } => {
            if step != "map" {
                out.note(format_args!("output: {program} logs {id} {step}"));
            }
            out.note(format_args!("next: {program} resume {id}"));
        }
        JobOutcome::Paused { reason: PauseReason::MergeOutstanding, message } => {
            out.note(message);
            over.suggest_merge(out);
        }
        JobOutcome::Paused { .. } => {
            if dead {
                out.note(format_args!("see: {program} dlq show {id}"));
            }
            over.suggest_resume(out);
        }
    }
}
