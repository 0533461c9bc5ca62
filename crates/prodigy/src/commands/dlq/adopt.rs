//! `prodigy dlq adopt`.

use prodigy_engine::dlq::DeadLetterAction;

use super::by_hand::{EntryActionArgs, apply_to_named_entries};
use crate::{cli::Cli, error::CliError, exit::Exit, output::Console};

/// Take what is there for the result: the items count as done, and nothing runs again
///
/// It is for items whose work is done outside, by an attempt that failed later or by hand. Their
/// entries are closed as resolved. `prodigy dlq retry` does it by itself for items of which it
/// is known.
#[derive(clap::Args, Debug)]
pub(crate) struct DlqAdoptArgs {
    #[command(flatten)]
    named: EntryActionArgs,
}

pub(super) fn run_adopt(
    args: &Cli,
    command: &DlqAdoptArgs,
    out: &mut Console,
) -> Result<Exit, CliError> {
    apply_to_named_entries(args, &command.named, &DeadLetterAction::Adopt, "adopted", out)
}
