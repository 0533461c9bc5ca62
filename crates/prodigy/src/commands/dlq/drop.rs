//! `prodigy dlq drop`.

use prodigy_engine::dlq::DeadLetterAction;

use super::by_hand::{EntryActionArgs, apply_to_named_entries};
use crate::{cli::Cli, error::CliError, exit::Exit, output::Console};

/// Leave items out for good, without replaying them
///
/// Their entries are closed and stay readable; `prodigy dlq list --all` lists them.
#[derive(clap::Args, Debug)]
pub(crate) struct DlqDropArgs {
    #[command(flatten)]
    named: EntryActionArgs,
}

pub(super) fn run_drop(
    args: &Cli,
    command: &DlqDropArgs,
    out: &mut Console,
) -> Result<Exit, CliError> {
    apply_to_named_entries(args, &command.named, &DeadLetterAction::Drop, "dropped", out)
}
