//! `prodigy pause`.

use prodigy_core::ids::JobId;
use prodigy_engine::store::{JobLock, Layout, LockHolder};
use rustix::process::Signal;

use super::lookup::{find_job, job_error, job_summary};
use crate::{cli::Cli, error::CliError, exit::Exit, output::Console};

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

pub(super) fn run_pause(
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
pub(super) fn running_process(layout: &Layout, job: &JobId) -> Result<LockHolder, CliError> {
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
pub(super) fn unignored_signals(
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
pub(super) fn not_running(layout: &Layout, job: &JobId) -> CliError {
    let error = CliError::new(Exit::Usage, format!("no process runs job `{job}`"));
    let resumable = job_summary(layout, job).is_ok_and(|(_, status, _)| status.is_resumable());
    if resumable {
        return error.with_hint(format!("`prodigy resume {job}` goes on with it"));
    }
    error.with_hint(format!("`prodigy jobs show {job}` shows how it ended"))
}
