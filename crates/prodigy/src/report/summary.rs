//! What a run came to, and what to type next.

use prodigy_core::{
    event::{CompletedStatus, Mode, PauseReason},
    ids::JobId,
    job::{End, Ending, Job},
};
use prodigy_engine::store::Layout;

use super::{item_totals::show_items, lines::count, notebook::Notebook};
use crate::{
    exit::Exit,
    output::{Output, one_line},
};

/// Returns the exit code for how a run ended.
pub(crate) fn exit(ending: Ending) -> Exit {
    match ending {
        Ending::Completed | Ending::Paused(PauseReason::ItemsOutstanding) => Exit::Success,
        Ending::MergeOutstanding => Exit::MergeOutstanding,
        Ending::StoppedByPolicy | Ending::Paused(PauseReason::Policy) => Exit::StoppedByPolicy,
        Ending::NoItems => Exit::NoItems,
        Ending::Paused(PauseReason::Interrupted) => Exit::Interrupted,
        Ending::Paused(PauseReason::Terminated) => Exit::Terminated,
        Ending::Failed | Ending::Paused(PauseReason::DiskFull | PauseReason::MergeOutstanding) => {
            Exit::Failure
        }
    }
}

/// A run that is over.
pub(crate) struct Over<'a> {
    /// How prodigy was called, so that the commands to type next find the job.
    pub(crate) program: &'a str,
    /// Where its files are.
    pub(crate) layout: &'a Layout,
    /// The job.
    pub(crate) id: &'a JobId,
    /// What it came to.
    pub(crate) job: &'a Job,
    /// How the run ended.
    pub(crate) ending: Ending,
    /// What happened to its items.
    pub(crate) notebook: &'a Notebook,
}

/// Says what a run came to.
pub(crate) fn show(over: &Over<'_>, out: &mut Output) {
    match over.job.mode() {
        Mode::Sequential => show_steps(over, out),
        Mode::Mapreduce => show_items(over, out),
    }
}

fn show_steps(over: &Over<'_>, out: &mut Output) {
    let Over { program, id, job, ending, .. } = over;
    let steps = format!("{} of {}", job.done, count(job.steps_in_all(), "step"));
    let cost =
        if job.cost_usd > 0.0 { format!(" · cost ${:.2}", job.cost_usd) } else { String::new() };
    match (&job.end, *ending) {
        (Some(End::Completed(status)), _) => {
            let how = match status {
                CompletedStatus::Completed => "completed".to_owned(),
                CompletedStatus::CompletedWithFailures => {
                    format!("completed with failures: {} failed", count(job.failures(), "step"))
                }
            };
            out.note(format_args!("\n{how} · {steps}{cost}"));
            merged(job, out);
            out.note(format_args!("next: {program} events {id}"));
        }
        (Some(End::Failed { step, failure }), _) => {
            out.note(format_args!(
                "\nfailed at step {step}: {} · {steps} done{cost}",
                one_line(&failure.message)
            ));
            for line in failure.output_tail.lines() {
                out.note(format_args!("  | {line}"));
            }
            kept(job, out);
            out.note(format_args!("output: {program} logs {id} {step}"));
            out.note(format_args!("next: {program} resume {id}"));
        }
        (Some(End::Paused { message, .. }), Ending::MergeOutstanding) => {
            out.note(format_args!("\nmerge outstanding · {steps} done{cost}"));
            out.note(message);
            kept(job, out);
            let target = job.started.as_ref().and_then(|started| started.target_branch.as_ref());
            if target.is_some() {
                out.note(format_args!("next: {program} resume {id} -y"));
            }
        }
        (Some(End::Paused { message, .. }), _) => {
            out.note(format_args!("\npaused: {message} · {steps} done{cost}"));
            out.note(format_args!("next: {program} resume {id}"));
        }
        (None, _) => {}
    }
}

/// Says what was merged where.
pub(super) fn merged(job: &Job, out: &mut Output) {
    let target = job.started.as_ref().and_then(|started| started.target_branch.as_deref());
    match (&job.merged, target) {
        (Some(commit), Some(target)) => {
            let short: String = commit.chars().take(10).collect();
            out.note(format_args!("merged into {target} at {short}"));
        }
        (Some(_) | None, _) => out.note("nothing to merge: the steps made no commit"),
    }
}

/// Says where the work is.
pub(super) fn kept(job: &Job, out: &mut Output) {
    if let Some(tree) = &job.tree {
        out.note(format_args!("worktree: {} (branch {})", tree.path, tree.branch));
    }
}
