//! Changing entries that somebody names: what those commands share.

use prodigy_core::{
    audit::IdentityKind,
    dlq::{DeadLetteredItem, EntryStatus},
    ids::JobId,
};
use prodigy_engine::dlq::DeadLetterAction;

use super::{
    authority::{ReplayContext, require_reason},
    chosen::require_entry,
    queues::open_job,
    words::status_name,
};
use crate::{cli::Cli, error::CliError, exit::Exit, output::Console};

/// The entries that somebody names, and why they are changed.
#[derive(clap::Args, Debug)]
pub(crate) struct EntryActionArgs {
    /// The job
    pub(super) job: JobId,

    /// The items, by id or by key
    #[arg(required = true, value_name = "ITEM")]
    pub(super) items: Vec<String>,

    /// The reason to record
    #[arg(long, value_name = "TEXT")]
    pub(super) reason: String,
}

/// Changes entries that are open; says `done` of each.
pub(super) fn apply_to_named_entries(
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
pub(super) fn require_open(entry: &DeadLetteredItem) -> Result<(), CliError> {
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
