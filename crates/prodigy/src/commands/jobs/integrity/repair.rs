//! `prodigy repair`.

use prodigy_core::ids::JobId;
use prodigy_engine::{
    clock,
    run::control::lost_end::{self, AcceptedLoss, LossAcceptance},
    store::{self, JournalDamage, JournalHealth, Layout, audit::AuditTrail},
};

use crate::{
    cli::Cli,
    commands::{
        audit::audit_error,
        context,
        dlq::amend_error,
        lookup::{find_job, job_error, repository},
        prepare::secrets::mask_inherited,
    },
    error::CliError,
    exit::Exit,
    progress::plural,
    render::console::Console,
};

/// Make a job usable again whose journal is damaged or lost its end
///
/// The records before the first damage are kept. The journal as it was is moved
/// aside, never changed. Steps whose records are left out are run again by
/// `prodigy resume`.
///
/// A journal lost its end if the checkpoint, the dead letters or the audit trail know of records
/// that it does not have: it was cut, put back from an older copy, or lost in a power failure
/// with `durability: relaxed`. Then nothing of the job is run until the journal is put back, or
/// `prodigy repair JOB --accept-lost-end` says that it goes on without. From then on every change
/// outside that the journal does not know to be made counts as unknown: `check` looks, a step
/// without `check` fails, and nothing is made twice without a decision. The files that know more are
/// moved aside, never deleted.
#[derive(clap::Args, Debug)]
pub(crate) struct RepairArgs {
    /// The job
    job: JobId,

    /// Only say what is wrong and what would be kept
    #[arg(long)]
    dry_run: bool,

    /// Go on without the records that are lost at the end; what they changed outside is unknown
    #[arg(long, conflicts_with = "dry_run")]
    accept_lost_end: bool,

    /// The reason; it is recorded in the audit trail
    #[arg(long, value_name = "TEXT", requires = "accept_lost_end")]
    reason: Option<String>,
}

pub(crate) fn run(args: &Cli, command: &RepairArgs, out: &mut Console) -> Result<Exit, CliError> {
    let (layout, job) = find_job(args, &command.job)?;
    let failed = |error| job_error(&job, error);
    if command.dry_run {
        let JournalHealth { records, damage } =
            store::inspect_journal(&layout, &job).map_err(failed)?;
        match damage {
            None if records == 0 => return Err(empty_journal_error(&job)),
            None => print_healthy(&layout, &job, out)?,
            Some(damage) => {
                describe(&damage, out)?;
                out.line(format_args!("a repair would keep {}", plural(records, "record")))?;
                print_lost_records(&damage, out)?;
            }
        }
        return Ok(Exit::Success);
    }
    let Some(repaired) = store::repair_journal(&layout, &job, clock::now()).map_err(failed)? else {
        if store::read_last_seq(&layout, &job).map_err(failed)? == 0 {
            return Err(empty_journal_error(&job));
        }
        if command.accept_lost_end {
            return accept(command, &layout, &job, out);
        }
        print_healthy(&layout, &job, out)?;
        return Ok(Exit::Success);
    };
    describe(&repaired.damage, out)?;
    out.line(format_args!("kept {}", plural(repaired.kept, "record")))?;
    if repaired.carried > 0 {
        let carried = plural(repaired.carried, "record");
        out.line(format_args!("carried over: {carried} of effects behind the damage"))?;
    }
    print_lost_records(&repaired.damage, out)?;
    out.line(format_args!("the journal as it was is in {}", repaired.aside.display()))?;
    if command.accept_lost_end {
        return accept(command, &layout, &job, out);
    }
    match store_lost_end(&layout, &job)? {
        Some(ahead) => {
            out.line(format_args!("its end is lost as well: {ahead}"))?;
            next_accept(&job, out);
        }
        None => out
            .note(format_args!("\nnext: `prodigy resume {job}` goes on from the last record kept")),
    }
    Ok(Exit::Success)
}

/// Records that a job goes on without the end of its journal.
fn accept(
    command: &RepairArgs,
    layout: &Layout,
    job: &JobId,
    out: &mut Console,
) -> Result<Exit, CliError> {
    let repo = repository::repo_of_job(layout, job)?;
    let audit = AuditTrail::open(layout, &repo).map_err(audit_error)?;
    let by = context::actor(&repo);
    let reason = command.reason.as_deref().map(mask_inherited);
    let (reason, now) = (reason.as_deref(), clock::now());
    let acceptance = LossAcceptance { layout, job, by: &by, reason, now };
    let mut trail = |records| audit.append(records, clock::now()).map(drop);
    let accepted = acceptance.apply(&mut trail).map_err(amend_error)?;
    let AcceptedLoss { kept, witnesses, aside } = accepted;
    if witnesses.is_empty() {
        let nothing = "nothing shows that the journal lost its end";
        out.line(format_args!("{nothing}; it is recorded that it may have"))?;
    } else {
        out.line(lost_end::described(&witnesses, kept))?;
    }
    out.line(format_args!(
        "job `{job}` goes on from record {kept}; what it changes outside counts as unknown"
    ))?;
    for path in aside {
        out.line(format_args!("set aside: {}", path.display()))?;
    }
    out.note(format_args!("\nnext: `prodigy resume {job}`"));
    Ok(Exit::Success)
}

/// Returns what is ahead of a journal, if it lost its end.
fn store_lost_end(layout: &Layout, job: &JobId) -> Result<Option<String>, CliError> {
    match lost_end::refuse_lost_end(layout, job) {
        Ok(()) => Ok(None),
        Err(store::Error::LostEnd { ahead, .. }) => Ok(Some(ahead)),
        Err(error) => Err(job_error(job, error)),
    }
}

fn next_accept(job: &JobId, out: &mut Console) {
    out.note(format_args!(
        "\nnext: put the journal back from a backup, or `prodigy repair {job} --accept-lost-end`"
    ));
}

/// Refuses a journal that holds no record, although its job began.
fn empty_journal_error(job: &JobId) -> CliError {
    let message = format!("the journal of job `{job}` is empty, so nothing of it can be kept");
    CliError::new(Exit::Failure, message).with_hint("put the journal back from a backup")
}

/// Says that no record is damaged, and whether the end is there.
fn print_healthy(layout: &Layout, job: &JobId, out: &mut Console) -> Result<(), CliError> {
    let Some(ahead) = store_lost_end(layout, job)? else {
        return out.line(format_args!(
            "the journal of job `{job}` is intact; there is nothing to repair"
        ));
    };
    out.line(format_args!("every record of job `{job}` is intact, but its end is lost: {ahead}"))?;
    next_accept(job, out);
    Ok(())
}

/// Says what is wrong.
fn describe(damage: &JournalDamage, out: &mut Console) -> Result<(), CliError> {
    let JournalDamage { path, line, reason, torn, .. } = damage;
    out.line(format_args!("{} line {line}: {reason}", path.display()))?;
    if *torn {
        out.line("it is the end that a crash tore off; `prodigy resume` cuts it by itself")?;
    }
    Ok(())
}

/// Says what is lost.
fn print_lost_records(damage: &JournalDamage, out: &mut Console) -> Result<(), CliError> {
    if damage.records_behind == 0 {
        return Ok(());
    }
    out.line(format_args!(
        "left out: {} behind the damage",
        plural(damage.records_behind, "record")
    ))
}
