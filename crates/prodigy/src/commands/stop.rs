//! `prodigy stop`.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use prodigy_core::{
    duration,
    ids::JobId,
    job::{JobStatus, JobSummary},
};
use prodigy_engine::store::{Layout, LockHolder};
use rustix::process::Signal;

use super::{
    context,
    lookup::{find_job, job_error, job_summary},
    pause::{not_running, running_process, unignored_signals},
};
use crate::{
    cli::Cli, config::Config, error::CliError, exit::Exit, output::Console, report::plural,
};

/// The time that a run may take to record its end, beyond the grace period of its step.
const ENDING: Duration = Duration::from_secs(15);

/// The time between two signals that insist.
const INSISTING: Duration = Duration::from_millis(200);

/// Stop the process that runs a job, and wait until it is gone
///
/// The steps under way are asked to end, and ended after the grace period.
/// `prodigy resume` goes on with the step, or the items, that were cut off.
#[derive(clap::Args, Debug)]
pub(crate) struct StopArgs {
    /// The job
    job: JobId,

    /// End the steps under way at once
    #[arg(long)]
    now: bool,
}

pub(super) fn run_stop(
    args: &Cli,
    command: &StopArgs,
    out: &mut Console,
) -> Result<Exit, CliError> {
    let (layout, job) = find_job(args, &command.job)?;
    let limit = grace(args, &layout, &job)?.saturating_add(ENDING);
    let holder = running_process(&layout, &job)?;
    let failed = |error| job_error(&job, error);
    let heeded = unignored_signals(&holder, &job, &[Signal::TERM, Signal::HUP, Signal::INT])?;
    let asked = heeded.first().map_or(Ok(true), |signal| holder.signal(*signal));
    if !asked.map_err(failed)? {
        return Err(not_running(&layout, &job));
    }
    let is_gone =
        if command.now { signal_until_exit(&holder, &heeded, limit) } else { holder.wait(limit) };
    if !is_gone.map_err(failed)? {
        let message = format!(
            "process {} still runs job `{job}` after {}",
            holder.pid(),
            duration::format(limit)
        );
        return Err(CliError::new(Exit::Failure, message)
            .with_hint(format!("`prodigy stop {job} --now` does not wait for the step")));
    }
    let (summary, status, damage) = job_summary(&layout, &job).map_err(failed)?;
    if let Some(error) = damage {
        return Err(job_error(&job, error));
    }
    print_result(&job, holder.pid(), &summary, status, out)?;
    Ok(Exit::Success)
}

/// Sends further signals until the process is gone; `false` if it is not in time.
///
/// Every signal after the first insists. They take turns, for two of one kind may arrive as one, and
/// are sent again where only one kind is not ignored.
fn signal_until_exit(
    holder: &LockHolder,
    signals: &[Signal],
    limit: Duration,
) -> Result<bool, prodigy_engine::store::Error> {
    let start = Instant::now();
    for signal in signals.iter().cycle().skip(1) {
        if !holder.signal(*signal)? || holder.wait(INSISTING)? {
            return Ok(true);
        }
        if start.elapsed() > limit {
            break;
        }
    }
    Ok(false)
}

/// Says what came of it.
fn print_result(
    job: &JobId,
    pid: i32,
    summary: &JobSummary,
    status: JobStatus,
    out: &mut Console,
) -> Result<(), CliError> {
    let done = format_progress(summary);
    match status {
        JobStatus::Completed | JobStatus::CompletedWithFailures | JobStatus::Failed => {
            out.line(format_args!("job `{job}` ended before it was stopped: {status} · {done}"))?;
        }
        JobStatus::Running => {
            out.line(format_args!("process {pid} is gone, and another one runs job `{job}`"))?;
        }
        JobStatus::Paused | JobStatus::Interrupted | JobStatus::MergeOutstanding => {
            out.line(format_args!("stopped job `{job}`: {status} · {done}"))?;
        }
    }
    if status.is_resumable() {
        out.note(format_args!("\nnext: `prodigy resume {job}` goes on"));
    }
    Ok(())
}

/// Returns how much is done: of the items, once they are known, or else of the steps.
fn format_progress(summary: &JobSummary) -> String {
    if let Some(items) = &summary.items {
        return format!("{} of {} done", items.counts.successful, plural(items.total, "item"));
    }
    format!("{} of {} done", summary.steps_done, plural(summary.steps_total, "step"))
}

/// Returns the grace that the run was most likely started with.
fn grace(args: &Cli, layout: &Layout, job: &JobId) -> Result<Duration, CliError> {
    // A journal that cannot be read is no reason not to stop its job.
    let repository = context::job_started(layout, job).ok().map(|started| started.repository);
    Ok(Config::load(args, repository.as_deref().map(Path::new))?.grace.value)
}
