//! `prodigy dlq release`.

use prodigy_engine::dlq::Amendment;

use super::by_hand::{NamedArgs, amend};
use crate::{cli::Args, error::CliError, exit::Exit, output::Output};

/// Let entries be replayed that are in quarantine
///
/// It is for entries whose trouble was mended where prodigy does not see it. Until they fail
/// again, the quarantine does not hold for them, whoever or whatever put them into it.
#[derive(clap::Args, Debug)]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    named: NamedArgs,
}

pub(super) fn run(args: &Args, command: &ReleaseArgs, out: &mut Output) -> Result<Exit, CliError> {
    amend(args, &command.named, &Amendment::Release, "released", out)
}
