//! Work that waits in the middle, for people and as JSON.

use prodigy_core::{
    event::PauseReason,
    job::{ItemStage, Job, JobOutcome, SuspendedSummary},
};
use serde_json::{Value, json};

use crate::progress::line::plural;

/// Returns what a job keeps of the work that a limit or a budget cut off, and what it does not.
pub(crate) fn summary_lines(job: &Job) -> Vec<String> {
    let is_cut_off = matches!(
        &job.end,
        Some(JobOutcome::Paused { reason: PauseReason::Budget | PauseReason::UsageLimit, .. })
    );
    let mut summary = SuspendedSummary::default();
    let mut lost = 0;
    for item in job.map.iter().flat_map(|map| &map.items) {
        match &item.suspended {
            Some(work) if work.snapshot.is_some() => {
                summary.items.insert(item.id.clone(), work.finished_steps);
            }
            Some(_) | None => {
                lost += u32::from(item.is_stopped && matches!(item.stage, ItemStage::Pending));
            }
        }
    }
    let kept = job.suspended.as_ref().filter(|work| work.snapshot.is_some());
    summary.step = kept.and_then(|work| Some((work.step.clone()?, work.finished_steps)));
    let mut lines: Vec<String> = line(&summary).map(|line| format!("kept: {line}")).collect();
    if is_cut_off && lost > 0 {
        let items = plural(lost, "item");
        let they_start = if lost == 1 { "it starts" } else { "they start" };
        lines.push(format!("not kept: {items} ended in the middle; {they_start} over"));
    }
    lines
}

/// Says which work waits in the middle.
pub(crate) fn line(summary: &SuspendedSummary) -> impl Iterator<Item = String> {
    let of_items = (!summary.items.is_empty()).then(|| {
        let number = u32::try_from(summary.items.len()).unwrap_or(u32::MAX);
        let steps = summary.items.values().copied().fold(0, u32::saturating_add);
        let (wait, they_go) = if number == 1 { ("waits", "it goes") } else { ("wait", "they go") };
        let items = plural(number, "item");
        format!(
            "{items} {wait} in the middle{}; {they_go} on from there",
            with_finished_steps(steps)
        )
    });
    let of_step = summary.step.as_ref().map(|(step, finished)| {
        format!(
            "step {step} waits in the middle{}; it goes on from there",
            with_finished_steps(*finished)
        )
    });
    of_items.into_iter().chain(of_step)
}

/// Names the steps that finished, if any did.
fn with_finished_steps(steps: u32) -> String {
    match steps {
        0 => String::new(),
        steps => format!(" with {}", plural(steps, "finished step")),
    }
}

/// Returns the work that waits in the middle as JSON.
pub(crate) fn document(summary: &SuspendedSummary) -> Value {
    let step = summary.step.as_ref();
    json!({
        "items": summary.items,
        "step": step.map(|(step, _)| step),
        "finished_steps": step.map(|(_, finished)| finished),
    })
}
