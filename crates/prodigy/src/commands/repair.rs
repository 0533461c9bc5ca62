//! `prodigy repair`.

use prodigy_core::ids::JobId;
use prodigy_engine::{
    clock,
    store::{self, Damage, Health},
};

use super::lookup::{find_job, job_error};
use crate::{cli::Args, error::CliError, exit::Exit, output::Output, report::count};

/// Make a job usable again whose journal is damaged
///
/// The records before the first damage are kept. The journal as it was is moved
/// aside, never changed. Steps whose records are left out are run again by
/// `prodigy resume`.
#[derive(clap::Args, Debug)]
pub(crate) struct RepairArgs {
    /// The job
    job: JobId,

    /// Only say what is wrong and what would be kept
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(args: &Args, command: &RepairArgs, out: &mut Output) -> Result<Exit, CliError> {
    let (layout, job) = find_job(args, &command.job)?;
    let failed = |error| job_error(&job, error);
    if command.dry_run {
        let Health { records, damage } = store::inspect(&layout, &job).map_err(failed)?;
        match damage {
            None if records == 0 => return Err(empty(&job)),
            None => healthy(&job, out)?,
            Some(damage) => {
                describe(&damage, out)?;
                out.line(format_args!("a repair would keep {}", count(records, "record")))?;
                left_out(&damage, out)?;
            }
        }
        return Ok(Exit::Success);
    }
    let Some(repaired) = store::repair(&layout, &job, clock::now()).map_err(failed)? else {
        if store::last_seq(&layout, &job).map_err(failed)? == 0 {
            return Err(empty(&job));
        }
        healthy(&job, out)?;
        return Ok(Exit::Success);
    };
    describe(&repaired.damage, out)?;
    out.line(format_args!("kept {}", count(repaired.kept, "record")))?;
    left_out(&repaired.damage, out)?;
    out.line(format_args!("the journal as it was is in {}", repaired.aside.display()))?;
    out.note(format_args!("\nnext: `prodigy resume {job}` goes on from the last record kept"));
    Ok(Exit::Success)
}

/// Refuses a journal that holds no record, although its job began.
fn empty(job: &JobId) -> CliError {
    let message = format!("the journal of job `{job}` is empty, so nothing of it can be kept");
    CliError::new(Exit::Failure, message)
        .with_hint(format!("`prodigy jobs rm {job} --force` removes what is left of it"))
}

fn healthy(job: &JobId, out: &mut Output) -> Result<(), CliError> {
    out.line(format_args!("the journal of job `{job}` is whole; there is nothing to repair"))
}

/// Says what is wrong.
fn describe(damage: &Damage, out: &mut Output) -> Result<(), CliError> {
    let Damage { path, line, reason, torn, .. } = damage;
    out.line(format_args!("{} line {line}: {reason}", path.display()))?;
    if *torn {
        out.line("it is the end that a crash tore off; `prodigy resume` cuts it by itself")?;
    }
    Ok(())
}

/// Says what is lost.
fn left_out(damage: &Damage, out: &mut Output) -> Result<(), CliError> {
    if damage.records_behind == 0 {
        return Ok(());
    }
    out.line(format_args!("left out: {} behind the damage", count(damage.records_behind, "record")))
}
