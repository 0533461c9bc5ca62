//! `prodigy dlq quarantine`.

use prodigy_engine::dlq::DeadLetterAction;

use super::by_hand::{EntryActionArgs, apply_to_named_entries};
use crate::{cli::Cli, error::CliError, exit::Exit, output::Console};

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

pub(super) fn run_quarantine(
    args: &Cli,
    command: &DlqQuarantineArgs,
    out: &mut Console,
) -> Result<Exit, CliError> {
    let amendment = DeadLetterAction::Quarantine { owner: command.owner.clone() };
    apply_to_named_entries(args, &command.named, &amendment, "quarantined", out)
}
