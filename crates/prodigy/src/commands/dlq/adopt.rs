//! `prodigy dlq adopt`.

use prodigy_engine::dlq::Amendment;

use super::by_hand::{NamedArgs, amend};
use crate::{cli::Args, error::CliError, exit::Exit, output::Output};

/// Take what is there for the result: the items count as done, and nothing runs again
///
/// It is for items whose work is done outside, by an attempt that failed later or by hand. Their
/// entries are closed as resolved. `prodigy dlq retry` does it by itself for items of which it
/// is known.
#[derive(clap::Args, Debug)]
pub(crate) struct AdoptArgs {
    #[command(flatten)]
    named: NamedArgs,
}

pub(super) fn run(args: &Args, command: &AdoptArgs, out: &mut Output) -> Result<Exit, CliError> {
    amend(args, &command.named, &Amendment::Adopt, "adopted", out)
}
