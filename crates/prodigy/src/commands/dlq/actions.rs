//! `prodigy dlq adopt`, `drop`, `quarantine` and `release`.

use prodigy_core::{
    audit::IdentityKind,
    dlq::{DeadLetteredItem, EntryStatus},
    ids::JobId,
};
use prodigy_engine::run::control::DeadLetterAction;

use super::{
    decision::replay_context::{ReplayContext, require_reason},
    entries::{entry_filter::require_entry, labels::status_name, open_job},
};
use crate::{cli::Cli, error::CliError, exit::Exit, render::console::Console};

/// The entries that somebody names, and why they are changed.
#[derive(clap::Args, Debug)]
pub(crate) struct EntryActionArgs {
    /// The job
    pub(crate) job: JobId,

    /// The items, by id or by key
    #[arg(required = true, value_name = "ITEM")]
    pub(crate) items: Vec<String>,

    /// The reason to record
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
}

/// Changes entries that are open; says `done` of each.
pub(crate) fn apply_to_named_entries(
    args: &Cli,
    named: &EntryActionArgs,
    amendment: &DeadLetterAction,
    done: &str,
    out: &mut Console,
) -> Result<Exit, CliError> {
    let reason = require_reason(&named.reason)?;
    let letters = open_job(args, &named.job, out)?;
    let mut items = Vec::new();
    for item in &named.items {
        let entry = require_entry(&letters.queue, &letters.job, item)?;
        require_open(&entry)?;
        items.push(entry.item_id);
    }
    let authority = ReplayContext::load(args, &letters.layout, &letters.job, out)?;
    let changed =
        authority.apply_action(None, &items, amendment, IdentityKind::Asserted, reason)?;
    for item in &changed {
        out.line(format_args!("{done}  {item}"))?;
    }
    let late: Vec<_> = items.iter().filter(|item| !changed.contains(item)).collect();
    for item in &late {
        out.note(format_args!("warning: `{item}` is not open any more; it was left as it is"));
    }
    Ok(if late.is_empty() { Exit::Success } else { Exit::Failure })
}

/// Refuses an entry that is not open.
pub(crate) fn require_open(entry: &DeadLetteredItem) -> Result<(), CliError> {
    let (job, item) = (&entry.job_id, &entry.item_id);
    match entry.status {
        EntryStatus::Open => Ok(()),
        EntryStatus::Replaying => {
            Err(CliError::new(Exit::TryLater, format!("`{item}` is being replayed"))
                .with_hint(format!("`prodigy events {job} --item {item} --follow` watches it")))
        }
        EntryStatus::Resolved | EntryStatus::Dropped => {
            let status = status_name(entry.status);
            Err(CliError::new(Exit::Usage, format!("`{item}` is {status} already"))
                .with_hint(format!("`prodigy dlq show {job} {item}` says since when and why")))
        }
    }
}

/// Mark items as done without running them again
///
/// It is for items whose work is done outside, by an attempt that failed later or by hand. Their
/// entries are closed as resolved. `prodigy dlq retry` does it by itself for items of which it
/// is known.
#[derive(clap::Args, Debug)]
pub(crate) struct DlqAdoptArgs {
    #[command(flatten)]
    named: EntryActionArgs,
}

pub(crate) fn run_adopt(
    args: &Cli,
    command: &DlqAdoptArgs,
    out: &mut Console,
) -> Result<Exit, CliError> {
    apply_to_named_entries(args, &command.named, &DeadLetterAction::Adopt, "adopted", out)
}

/// Leave items out for good, without replaying them
///
/// Their entries are closed and stay readable; `prodigy dlq list --all` lists them.
#[derive(clap::Args, Debug)]
pub(crate) struct DlqDropArgs {
    #[command(flatten)]
    named: EntryActionArgs,
}

pub(crate) fn run_drop(
    args: &Cli,
    command: &DlqDropArgs,
    out: &mut Console,
) -> Result<Exit, CliError> {
    apply_to_named_entries(args, &command.named, &DeadLetterAction::Drop, "dropped", out)
}

/// Keep entries from being replayed until somebody releases them
///
/// `prodigy dlq release` lets them be replayed again; so does `prodigy dlq edit`.
#[derive(clap::Args, Debug)]
pub(crate) struct DlqQuarantineArgs {
    #[command(flatten)]
    named: EntryActionArgs,

    /// The owner of the entries
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
}

pub(crate) fn run_quarantine(
    args: &Cli,
    command: &DlqQuarantineArgs,
    out: &mut Console,
) -> Result<Exit, CliError> {
    let amendment = DeadLetterAction::Quarantine { owner: command.owner.clone() };
    apply_to_named_entries(args, &command.named, &amendment, "quarantined", out)
}

/// Let entries be replayed that are in quarantine
///
/// It is for entries whose trouble was fixed where prodigy does not see it. Until they fail
/// again, the quarantine does not hold for them, whoever or whatever put them into it.
#[derive(clap::Args, Debug)]
pub(crate) struct DlqReleaseArgs {
    #[command(flatten)]
    named: EntryActionArgs,
}

pub(crate) fn run_release(
    args: &Cli,
    command: &DlqReleaseArgs,
    out: &mut Console,
) -> Result<Exit, CliError> {
    apply_to_named_entries(args, &command.named, &DeadLetterAction::Release, "released", out)
}
