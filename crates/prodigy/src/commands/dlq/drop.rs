//! `prodigy dlq drop`.

use prodigy_core::{
    dlq::{DeadLetteredItem, EntryStatus},
    event::Withdrawal,
    ids::JobId,
};
use prodigy_engine::{clock, dlq};

use super::{
    chosen::entry_of,
    queues::{of_job, queue_error},
    words::status_name,
};
use crate::{cli::Args, commands::context, error::CliError, exit::Exit, output::Output};

/// Leave items out for good, without replaying them
///
/// Their entries are closed and stay readable; `prodigy dlq list --all` lists them.
#[derive(clap::Args, Debug)]
pub(crate) struct DropArgs {
    /// The job
    job: JobId,

    /// The items, by id or by key
    #[arg(required = true, value_name = "ITEM")]
    items: Vec<String>,

    /// Why, for the entry and the journal
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

pub(super) fn run(args: &Args, command: &DropArgs, out: &mut Output) -> Result<Exit, CliError> {
    if command.reason.trim().is_empty() {
        return Err(CliError::new(Exit::Usage, "the reason is empty")
            .with_hint("say in a few words why the item is left out"));
    }
    let letters = of_job(args, &command.job, out)?;
    let mut items = Vec::new();
    for item in &command.items {
        let entry = entry_of(&letters.queue, &letters.job, item)?;
        droppable(&entry)?;
        items.push(entry.item_id);
    }
    let dropped = dlq::withdraw(
        &letters.layout,
        &letters.job,
        &items,
        Withdrawal::Dropped,
        &command.reason,
        &context::user(),
        clock::now(),
    )
    .map_err(queue_error)?;
    for item in &dropped {
        out.line(format_args!("dropped  {item}"))?;
    }
    let late: Vec<_> = items.iter().filter(|item| !dropped.contains(item)).collect();
    for item in &late {
        out.note(format_args!("warning: `{item}` is not open any more; it was left as it is"));
    }
    Ok(if late.is_empty() { Exit::Success } else { Exit::Failure })
}

/// Refuses an entry that is not open.
fn droppable(entry: &DeadLetteredItem) -> Result<(), CliError> {
    let (job, item) = (&entry.job_id, &entry.item_id);
    match entry.status {
        EntryStatus::Open => Ok(()),
        EntryStatus::Replaying => {
            Err(CliError::new(Exit::Busy, format!("`{item}` is being replayed"))
                .with_hint(format!("`prodigy events {job} --item {item} --follow` watches it")))
        }
        EntryStatus::Resolved | EntryStatus::Dropped => {
            let status = status_name(entry.status);
            Err(CliError::new(Exit::Usage, format!("`{item}` is {status} already"))
                .with_hint(format!("`prodigy dlq show {job} {item}` says since when and why")))
        }
    }
}
