//! `prodigy dlq quarantine`.

use prodigy_engine::dlq::Amendment;

use super::by_hand::{NamedArgs, amend};
use crate::{cli::Args, error::CliError, exit::Exit, output::Output};

/// Keep entries from being replayed until somebody releases them
///
/// `prodigy dlq release` lets them be replayed again; so does `prodigy dlq edit`.
#[derive(clap::Args, Debug)]
pub(crate) struct QuarantineArgs {
    #[command(flatten)]
    named: NamedArgs,

    /// The owner of the entries
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
}

pub(super) fn run(
    args: &Args,
    command: &QuarantineArgs,
    out: &mut Output,
) -> Result<Exit, CliError> {
    let amendment = Amendment::Quarantine { owner: command.owner.clone() };
    amend(args, &command.named, &amendment, "quarantined", out)
}
