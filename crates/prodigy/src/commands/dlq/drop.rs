//! `prodigy dlq drop`.

use prodigy_engine::dlq::Amendment;

use super::by_hand::{NamedArgs, amend};
use crate::{cli::Args, error::CliError, exit::Exit, output::Output};

/// Leave items out for good, without replaying them
///
/// Their entries are closed and stay readable; `prodigy dlq list --all` lists them.
#[derive(clap::Args, Debug)]
pub(crate) struct DropArgs {
    #[command(flatten)]
    named: NamedArgs,
}

pub(super) fn run(args: &Args, command: &DropArgs, out: &mut Output) -> Result<Exit, CliError> {
    amend(args, &command.named, &Amendment::Drop, "dropped", out)
}
