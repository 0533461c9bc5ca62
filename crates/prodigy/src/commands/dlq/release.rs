//! `prodigy dlq release`.

use prodigy_engine::dlq::DeadLetterAction;

use super::by_hand::{EntryActionArgs, apply_to_named_entries};
use crate::{cli::Cli, error::CliError, exit::Exit, output::Console};

/// Let entries be replayed that are in quarantine
///
/// It is for entries whose trouble was mended where prodigy does not see it. Until they fail
/// again, the quarantine does not hold for them, whoever or whatever put them into it.
#[derive(clap::Args, Debug)]
pub(crate) struct DlqReleaseArgs {
    #[command(flatten)]
    named: EntryActionArgs,
}

pub(super) fn run_release(
    args: &Cli,
    command: &DlqReleaseArgs,
    out: &mut Console,
) -> Result<Exit, CliError> {
    apply_to_named_entries(args, &command.named, &DeadLetterAction::Release, "released", out)
}
