//! The summary of a run on the page of a GitHub Actions job.

use std::{
    fmt::Write as _,
    fs::OpenOptions,
    io::{self, Write as _},
    path::Path,
};

use prodigy_core::{
    duration,
    event::{CompletedStatus, JobMode, PauseReason},
    job::{Job, JobOutcome, MapState},
};

use super::{RunSummary, item_summary::retried_count, warnings};
use crate::{progress::run_log::RunLog, render::spend};

/// The longest text of others that is shown, in characters.
const LONGEST: usize = 300;

/// Adds the summary of the whole job to the file that GitHub Actions names.
pub(crate) fn append_github_summary(path: &Path, over: &RunSummary<'_>) -> io::Result<()> {
    let text = if over.is_retry {
        let whole = RunLog::of_job(over.layout, over.id).map_err(io::Error::other)?;
        markdown(over.job, &whole)
    } else {
        markdown(over.job, over.notebook)
    };
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    file.write_all(text.as_bytes())
}

/// Returns the summary as Markdown.
///
/// Text of others is set in code spans, where neither Markdown nor HTML nor links nor
/// mentions have a meaning.
fn markdown(job: &Job, notebook: &RunLog) -> String {
    let started = job.started.as_ref();
    let name = started
        .map(|started| started.workflow_name.as_deref().unwrap_or(started.workflow_file.as_str()));
    let name = inline_code(name.unwrap_or_default());
    let mut text = format!("## prodigy: {name} {}\n\n| | |\n|---|---:|\n", end_label(job));
    let mut row = |what: &str, value: String| {
        // Writing to a string does not fail.
        writeln!(text, "| {what} | {value} |").ok();
    };
    match (job.mode(), &job.map) {
        (JobMode::Mapreduce, Some(map)) => items(map, &mut row),
        (JobMode::Mapreduce, None) => row("Items", "0".to_owned()),
        (JobMode::Sequential, _) => {
            row("Steps", job.total_steps().to_string());
            row("Done", job.done.to_string());
            let ended_it = u32::from(matches!(job.end, Some(JobOutcome::Failed { .. })));
            row("Failed", (job.failure_count() + ended_it).to_string());
        }
    }
    let costs = &notebook.costs;
    let cost = spend::format_cost(costs);
    row("Cost", cost.unwrap_or_else(|| spend::format_usd(job.cost_usd)));
    if costs.lost_usd > 0.0 {
        let lost = format!("{}{}", spend::certainty(costs), spend::format_usd(costs.lost_usd));
        row("Spent on failed attempts", lost);
    }
    if !costs.tokens.is_empty() {
        row("Tokens", costs.tokens.total().to_string());
    }
    if let Some(in_all) = warnings::warning_count(&notebook.warnings) {
        row("Warnings", in_all);
    }
    row("Duration", duration::format(notebook.elapsed()));
    if let Some(JobOutcome::Failed { step, failure }) = &job.end {
        let (step, kind) = (inline_code(step), failure.kind.code());
        let message = inline_code(&failure.message);
        writeln!(text, "\nFailed at step {step}: `{kind}`: {message}").ok();
    }
    if let Some(JobOutcome::Paused { message, .. }) = &job.end {
        writeln!(text, "\n{}", inline_code(message)).ok();
    }
    failures(job, notebook, &mut text);
    text.push('\n');
    text
}

fn items(map: &MapState, row: &mut impl FnMut(&str, String)) {
    row("Items", map.total.to_string());
    row("Successful", map.counts.successful.to_string());
    row("Recovered from a failed step", map.counts.recovered.to_string());
    if map.counts.ignored > 0 {
        row("With an ignored failure", map.counts.ignored.to_string());
    }
    row("In the dead letter queue", map.counts.dead_lettered.to_string());
    row("Left out", map.counts.skipped.to_string());
    row("Waiting", (map.pending() + map.in_flight()).to_string());
    row("Tried more than once", retried_count(map).to_string());
}

/// Lists the first items that failed.
fn failures(job: &Job, notebook: &RunLog, text: &mut String) {
    if notebook.failures.is_empty() {
        return;
    }
    text.push_str("\n### Failed items\n\n");
    for failed in &notebook.failures {
        let (item, kind) = (inline_code(failed.item.as_str()), failed.failure.kind.code());
        let message = inline_code(&failed.failure.message);
        let then = match failed.dead_lettered {
            Some(1) => "in the dead letter queue after 1 attempt".to_owned(),
            Some(attempts) => format!("in the dead letter queue after {attempts} attempts"),
            None => "left out".to_owned(),
        };
        // Writing to a string does not fail.
        writeln!(text, "- {item} `{kind}`: {message} ({then})").ok();
    }
    let listed = u32::try_from(notebook.failures.len()).unwrap_or(u32::MAX);
    let all = job.map.as_ref().map_or(0, |map| map.counts.failed());
    if all > listed {
        writeln!(text, "- … and {} more", all - listed).ok();
    }
}

fn end_label(job: &Job) -> &'static str {
    match &job.end {
        Some(JobOutcome::Completed(_)) if job.has_no_success() => "failed: no item succeeded",
        Some(JobOutcome::Completed(CompletedStatus::Completed)) => "completed",
        Some(JobOutcome::Completed(CompletedStatus::CompletedWithFailures)) => {
            "completed with failures"
        }
        Some(JobOutcome::Failed { .. }) => "failed",
        Some(JobOutcome::Paused { reason: PauseReason::MergeOutstanding, .. }) => {
            "waits to be merged"
        }
        Some(JobOutcome::Paused { reason: PauseReason::Policy, .. }) => {
            "was stopped by its error policy"
        }
        Some(JobOutcome::Paused { .. }) => "was paused",
        None => "did not end",
    }
}

/// Returns text of others as a code span, on one line.
fn inline_code(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .take(LONGEST)
        .map(|c| if c.is_whitespace() { ' ' } else { c })
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    if text.chars().count() > LONGEST {
        shown.push('…');
    }
    if shown.trim().is_empty() {
        return "` `".to_owned();
    }
    // A span ends at as many backticks as it began with.
    let longest = shown.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad = if longest > 0 { " " } else { "" };
    format!("{fence}{pad}{shown}{pad}{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_has_no_meaning() {
        let evil = "<script>alert(1)</script> [a](http://b) *x* @someone #1 ![i](c) \\";
        assert_eq!(inline_code(evil), format!("`{evil}`"));
        assert_eq!(inline_code("a ``b` c"), "``` a ``b` c ```");
        assert_eq!(inline_code("`"), "`` ` ``");
        assert_eq!(inline_code("two\nlines\r\tand \u{1b}[31m"), "`two lines  and \u{fffd}[31m`");
        assert_eq!(inline_code(" \n"), "` `");
        let long = inline_code(&"ä".repeat(400));
        assert_eq!(long, format!("`{}…`", "ä".repeat(300)));
    }
}
