//! `prodigy stop` and `prodigy pause`.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use prodigy_core::{
    duration,
    ids::JobId,
    job::{JobStatus, JobSummary},
};
use prodigy_engine::store::{JobLock, Layout, LockHolder};
use rustix::process::Signal;

use crate::{
    cli::Cli,
    commands::{
        context,
        lookup::{find_job, job_error, job_summary},
    },
    config::Config,
    error::CliError,
    exit::Exit,
    progress::plural,
    render::console::Console,
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

pub(crate) fn run_stop(
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

/// Ask the process that runs a job to pause it, as Ctrl-C does
///
/// The steps under way are asked to end, and ended after the grace period. This does
/// not wait for that. Like a second Ctrl-C, a second `pause` ends them at once.
/// `prodigy resume` goes on with the step, or the items, that were cut off.
#[derive(clap::Args, Debug)]
pub(crate) struct PauseArgs {
    /// The job
    job: JobId,
}

pub(crate) fn run_pause(
    args: &Cli,
    command: &PauseArgs,
    out: &mut Console,
) -> Result<Exit, CliError> {
    let (layout, job) = find_job(args, &command.job)?;
    let holder = running_process(&layout, &job)?;
    let heeded = unignored_signals(&holder, &job, &[Signal::INT, Signal::TERM, Signal::HUP])?;
    let asked = heeded.first().map_or(Ok(true), |signal| holder.signal(*signal));
    if !asked.map_err(|error| job_error(&job, error))? {
        return Err(not_running(&layout, &job));
    }
    out.line(format_args!("asked process {} to pause job `{job}`", holder.pid()))?;
    out.note(format_args!(
        "\nnext: `prodigy events {job} --follow` shows it end, `prodigy resume {job}` goes on"
    ));
    Ok(Exit::Success)
}

/// Returns the process that runs a job, or says why it cannot be asked anything.
pub(crate) fn running_process(layout: &Layout, job: &JobId) -> Result<LockHolder, CliError> {
    let failed = |error| job_error(job, error);
    let Some(said) = JobLock::holder(layout, job).map_err(failed)? else {
        return Err(not_running(layout, job));
    };
    if let Some(holder) = LockHolder::find(layout, job).map_err(failed)? {
        return Ok(holder);
    }
    // It may have ended while we looked.
    if JobLock::holder(layout, job).map_err(failed)?.is_none() {
        return Err(not_running(layout, job));
    }
    let message = format!(
        "job `{job}` is held by {said}, which is no prodigy of yours on this machine; nothing was sent"
    );
    Err(CliError::new(Exit::TryLater, message)
        .with_hint(format!("run this as the user and on the machine where `{job}` was started")))
}

/// Returns those signals that a run does not ignore, at least one.
pub(crate) fn unignored_signals(
    holder: &LockHolder,
    job: &JobId,
    signals: &[Signal],
) -> Result<Vec<Signal>, CliError> {
    let heeded = holder.handled_signals(signals);
    if !heeded.is_empty() {
        return Ok(heeded);
    }
    let pid = holder.pid();
    let message = format!("process {pid}, which runs job `{job}`, was started to ignore signals");
    Err(CliError::new(Exit::Failure, message).with_hint(format!(
        "`kill -KILL {pid}` ends it with all its steps; `prodigy resume {job}` goes on"
    )))
}

/// Says that nobody runs a job, and what can be done with it instead.
pub(crate) fn not_running(layout: &Layout, job: &JobId) -> CliError {
    let error = CliError::new(Exit::Usage, format!("no process runs job `{job}`"));
    let resumable = job_summary(layout, job).is_ok_and(|(_, status, _)| status.is_resumable());
    if resumable {
        return error.with_hint(format!("`prodigy resume {job}` goes on with it"));
    }
    error.with_hint(format!("`prodigy jobs show {job}` shows how it ended"))
}
