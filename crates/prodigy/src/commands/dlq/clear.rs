//! `prodigy dlq clear`.

use std::io::{self, BufRead as _, IsTerminal as _};

use prodigy_core::{
    audit::IdentityKind,
    dlq::EntryStatus,
    ids::{ItemId, JobId},
};
use prodigy_engine::{run::control::DeadLetterAction, store::Layout};

use super::{
    decision::replay_context::ReplayContext,
    entries::{
        JobDeadLetters,
        labels::{CLOSED, status_name},
        open_job, queue_error, warn_unreadable_entry,
    },
};
use crate::{cli::Cli, error::CliError, exit::Exit, render::console::Console};

/// Delete the entries of a job that are resolved or dropped
///
/// Entries that are open stay, unless `--all` is given: then their items count as left out
/// from then on. The journal still says what became of each item.
#[derive(clap::Args, Debug)]
pub(crate) struct DlqClearArgs {
    /// The job
    job: JobId,

    /// Also delete open entries
    #[arg(long)]
    all: bool,

    /// Say what would be deleted, and delete nothing
    #[arg(long)]
    dry_run: bool,

    /// The reason to record in the journal
    #[arg(long, value_name = "TEXT", default_value = "cleared")]
    reason: String,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

pub(super) fn run(args: &Cli, command: &DlqClearArgs, out: &mut Console) -> Result<Exit, CliError> {
    let letters = open_job(args, &command.job, out)?;
    let found = plan_clear(&letters, command.all, out);
    if found.items.is_empty() {
        out.note(format_args!("job `{}` has no entries to delete", letters.job));
        if found.kept > 0 {
            out.note(format_args!(
                "{} stay; `--all` deletes those as well",
                format_open_count(found.kept)
            ));
        }
        return Ok(Exit::Success);
    }
    if command.dry_run {
        for (item, status) in &found.items {
            out.line(format_args!("would delete  {item}  {}", status_name(*status)))?;
        }
        return Ok(Exit::Success);
    }
    if !command.yes {
        confirm(&found, out)?;
    }
    let items: Vec<_> = found.items.iter().map(|(item, _)| item.clone()).collect();
    let authority = ReplayContext::load(args, &letters.layout, &letters.job, out)?;
    let (amendment, identity) = (DeadLetterAction::Clear, IdentityKind::Asserted);
    let deleted = authority.apply_action(None, &items, &amendment, identity, &command.reason)?;
    out.line(format_args!("deleted {}", format_entry_count(deleted.len())))?;
    if found.kept > 0 {
        out.note(format_args!("{} stay", format_open_count(found.kept)));
    }
    Ok(Exit::Success)
}

/// Returns the closed entries of a job.
pub(in crate::commands) fn closed_entries(
    args: &Cli,
    job: &JobId,
    out: &mut Console,
) -> Result<Vec<ItemId>, CliError> {
    let letters = open_job(args, job, out)?;
    let items = plan_clear(&letters, false, out).items;
    Ok(items.into_iter().map(|(item, _)| item).collect())
}

/// Deletes the closed entries of a job.
pub(in crate::commands) fn clear_closed(
    args: &Cli,
    layout: &Layout,
    job: &JobId,
    reason: &str,
    out: &mut Console,
) -> Result<(), CliError> {
    let items = closed_entries(args, job, out)?;
    let authority = ReplayContext::load(args, layout, job, out)?;
    let (amendment, identity) = (DeadLetterAction::Clear, IdentityKind::Asserted);
    authority.apply_action(None, &items, &amendment, identity, reason).map(drop)
}

/// The entries to delete.
struct ClearPlan {
    items: Vec<(ItemId, EntryStatus)>,
    /// The number of open entries among them.
    open: usize,
    /// The number of entries that stay.
    kept: usize,
}

fn plan_clear(letters: &JobDeadLetters, all: bool, out: &mut Console) -> ClearPlan {
    let mut found = ClearPlan { items: Vec::new(), open: 0, kept: 0 };
    for heading in letters.queue.summaries() {
        match heading {
            Err(error) => warn_unreadable_entry(&letters.job, &queue_error(error), out),
            Ok(heading) if CLOSED.contains(&heading.status) => {
                found.items.push((heading.item_id, heading.status));
            }
            Ok(heading) if all && heading.status == EntryStatus::Open => {
                found.open += 1;
                found.items.push((heading.item_id, heading.status));
            }
            Ok(_) => found.kept += 1,
        }
    }
    found
}

/// Asks whether entries may be deleted.
fn confirm(found: &ClearPlan, out: &mut Console) -> Result<(), CliError> {
    let all = found.items.len();
    let what = match found.open {
        0 => format_entry_count(all),
        number if number == all => {
            format!("{}: what they hold is left out for good", format_open_count(all))
        }
        number => {
            format!(
                "{}, {number} of them open: what those hold is left out for good",
                format_entry_count(all)
            )
        }
    };
    if !io::stdin().is_terminal() {
        return Err(CliError::new(Exit::Usage, format!("this would delete {what}"))
            .with_hint("pass `--yes` to delete without asking, or `--dry-run` to look first"));
    }
    out.note(format_args!("This deletes {what}. Go on? [y/N]"));
    let mut answer = String::new();
    // No answer is no.
    io::stdin().lock().read_line(&mut answer).ok();
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        return Ok(());
    }
    Err(CliError::new(Exit::Failure, "nothing was deleted"))
}

fn format_entry_count(number: usize) -> String {
    if number == 1 { "1 entry".to_owned() } else { format!("{number} entries") }
}

fn format_open_count(number: usize) -> String {
    if number == 1 { "1 open entry".to_owned() } else { format!("{number} open entries") }
}
