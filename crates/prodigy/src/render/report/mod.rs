//! The summary of a run, and the commands to type next.

pub(crate) mod checkout;
pub(crate) mod github_summary;
pub(crate) mod guarded_files;
pub(crate) mod item_summary;
pub(crate) mod junit;
pub(crate) mod kept_work;
pub(crate) mod skipped_replays;
pub(crate) mod suspended_work;
pub(crate) mod warnings;
pub(crate) mod xml;

use std::fmt;

use item_summary::{format_item_counts, print_item_summary};
use prodigy_core::{
    event::{BudgetScope, CompletedStatus, JobMode},
    ids::JobId,
    job::{Job, JobOutcome, RunOutcome},
};
use prodigy_engine::{run::ReplayCounts, store::Layout};

use super::spend::{self, SpendView};
use crate::{
    progress::{line::plural, run_log::RunLog},
    render::console::{Console, one_line},
};

/// A run that is over.
pub(crate) struct RunSummary<'a> {
    /// The command line of prodigy, so that the commands to type next find the job.
    pub(crate) program: &'a str,
    /// Where its files are.
    pub(crate) layout: &'a Layout,
    /// The job.
    pub(crate) id: &'a JobId,
    /// The final state of the job.
    pub(crate) job: &'a Job,
    /// The ending of the run.
    pub(crate) ending: RunOutcome,
    /// The reported events of its items.
    pub(crate) notebook: &'a RunLog,
    /// The outcomes of its replays.
    pub(crate) replays: ReplayCounts,
    /// The branch that `--into` has to name before the result can be merged, if one has to be.
    pub(crate) into: Option<String>,
    /// True if it only replayed dead letters: it reports those, not the whole job.
    pub(crate) is_retry: bool,
    /// True for a rehearsal: its files are gone, and no command finds them.
    pub(crate) is_rehearsal: bool,
}

/// Says what a run came to.
pub(crate) fn show(over: &RunSummary<'_>, out: &mut Console) {
    checkout::print_warning(&over.notebook.checkout, over.notebook.checkout_in_all, out);
    match over.job.mode() {
        JobMode::Sequential => show_steps(over, out),
        JobMode::Mapreduce => print_item_summary(over, out),
    }
}

fn show_steps(over: &RunSummary<'_>, out: &mut Console) {
    let RunSummary { program, id, job, ending, .. } = over;
    let steps = format!("{} of {}", job.done, plural(job.total_steps(), "step"));
    let cost = over.cost();
    match (&job.end, *ending) {
        (Some(JobOutcome::Completed(status)), _) => {
            let how = match status {
                CompletedStatus::Completed => "completed".to_owned(),
                CompletedStatus::CompletedWithFailures => {
                    format!(
                        "completed with failures: {} failed",
                        plural(job.failure_count(), "step")
                    )
                }
            };
            out.note(format_args!("\n{how} · {steps}{cost}"));
            over.print_details(out);
            print_merge(over, out);
            over.print_kept_work(out);
            over.suggest(format_args!("next: {program} events {id}"), out);
        }
        (Some(JobOutcome::Failed { step, failure }), _) => {
            out.note(format_args!(
                "\nfailed at step {step}: {} · {steps} done{cost}",
                one_line(&failure.message)
            ));
            for line in failure.output_tail.lines() {
                out.note(format_args!("  | {line}"));
            }
            over.print_details(out);
            print_branch(over, out);
            over.suggest(format_args!("output: {program} logs {id} {step}"), out);
            over.suggest(format_args!("next: {program} resume {id}"), out);
        }
        (Some(JobOutcome::Paused { message, .. }), RunOutcome::MergeOutstanding) => {
            out.note(format_args!("\nnot merged yet · {steps} done{cost}"));
            over.print_details(out);
            out.note(message);
            print_branch(over, out);
            over.suggest_merge(out);
        }
        (Some(JobOutcome::Paused { message, .. }), _) => {
            out.note(format_args!("\npaused: {message} · {steps} done{cost}"));
            over.print_details(out);
            over.suggest_resume(out);
        }
        (None, _) => {}
    }
}

impl RunSummary<'_> {
    /// Returns what it cost and what is left.
    fn money(&self) -> SpendView<'_> {
        let started = self.job.started.as_ref();
        let budget = started.map(|started| started.budget).unwrap_or_default();
        let successful = self.job.map.as_ref().map(|map| map.counts.successful);
        SpendView {
            costs: &self.notebook.costs,
            job_usd: self.job.cost_usd,
            successful: if self.is_retry { Some(self.replays.resolved) } else { successful },
            budget,
            today_usd: budget.day_usd.and_then(|_| spend::spent_today_usd(self.layout)),
        }
    }

    /// Returns what it cost, as the end of a line.
    pub(crate) fn cost(&self) -> String {
        let total = spend::format_cost(&self.notebook.costs);
        total.map(|total| format!(" · cost {total}")).unwrap_or_default()
    }

    /// Says what is to be known of what was done, more about what it cost, and what is left.
    pub(crate) fn print_details(&self, out: &mut Console) {
        let events = format!("{} events {} --type agent_warned", self.program, self.id);
        // Of a rehearsal nothing is left to look at.
        let events = Some(events.as_str()).filter(|_| !self.is_rehearsal);
        warnings::show(&self.notebook.warnings, events, out);
        if !self.is_rehearsal {
            for line in suspended_work::summary_lines(self.job) {
                out.note(line);
            }
        }
        let money = self.money();
        for (name, parts) in [("cost", money.details()), ("budget", money.remaining())] {
            if !parts.is_empty() {
                out.note(format_args!("{name}: {}", parts.join(" · ")));
            }
        }
    }

    /// Says what was left outside of the commits, and how to get it.
    pub(crate) fn print_kept_work(&self, out: &mut Console) {
        let kept = &self.notebook.kept_work;
        if self.is_rehearsal {
            if kept.files() > 0 {
                let files = plural(kept.files(), "uncommitted file");
                out.note(format_args!("would be kept: {files}"));
            }
            return;
        }
        for line in kept_work::summary_lines(kept, self.id, self.program) {
            out.note(format_args!("kept: {line}"));
        }
    }

    /// Says how to go on with it.
    pub(crate) fn suggest_resume(&self, out: &mut Console) {
        let Self { program, id, job, .. } = self;
        match job.overspent.map(|overspent| overspent.scope) {
            Some(BudgetScope::Job) => {
                self.suggest(format_args!("next: {program} resume {id} --budget-usd USD"), out);
            }
            Some(BudgetScope::Day) => {
                self.suggest(
                    format_args!("next: {program} resume {id}  (from tomorrow, UTC)"),
                    out,
                );
                self.suggest(
                    format_args!(
                        "or, with a higher `day_usd`: {program} resume {id} --use-current-workflow"
                    ),
                    out,
                );
            }
            None => self.suggest(format_args!("next: {program} resume {id}"), out),
        }
    }

    /// Says how to have the result merged.
    pub(crate) fn suggest_merge(&self, out: &mut Console) {
        let Self { program, id, into, .. } = self;
        let into = into.as_ref().map(|branch| format!(" --into {branch}")).unwrap_or_default();
        self.suggest(format_args!("next: {program} resume {id} -y{into}"), out);
    }

    /// Says where something is or what to type, unless it was a rehearsal.
    pub(crate) fn suggest(&self, what: impl fmt::Display, out: &mut Console) {
        if !self.is_rehearsal {
            out.note(what);
        }
    }
}

/// Says that a job was over before it was resumed, and what can be done with it.
pub(crate) fn show_already_completed(over: &RunSummary<'_>, out: &mut Console) {
    let RunSummary { program, id, job, .. } = over;
    let map = job.map.as_ref().filter(|map| map.total > 0);
    let counts =
        map.map(|map| format!(" · items: {}", format_item_counts(map))).unwrap_or_default();
    out.note(format_args!("job `{id}` is already completed{counts}"));
    if map.is_some_and(|map| map.counts.dead_lettered > 0) {
        out.note(format_args!("next: {program} dlq retry {id}"));
    } else {
        out.note(format_args!("next: {program} jobs show {id}"));
    }
}

/// Says what was merged where.
pub(crate) fn print_merge(over: &RunSummary<'_>, out: &mut Console) {
    let job = over.job;
    let target = job.started.as_ref().and_then(|started| started.target_branch.as_deref());
    match (&job.merged, target) {
        (Some(_), Some(target)) if over.is_rehearsal => {
            out.note(format_args!("would be merged into {target}"));
        }
        (Some(commit), Some(target)) => {
            let short: String = commit.chars().take(10).collect();
            out.note(format_args!("merged into {target} at {short}"));
        }
        (Some(_) | None, _) => out.note("nothing to merge: the steps made no commit"),
    }
}

/// Says where the work is.
pub(crate) fn print_branch(over: &RunSummary<'_>, out: &mut Console) {
    if let Some(tree) = &over.job.tree {
        over.suggest(format_args!("worktree: {} (branch {})", tree.path, tree.branch), out);
    }
}
