//! `prodigy repair`.

use crate::{cli::Args, error::CliError, exit::Exit, output::Output};

/// TODO
#[derive(clap::Args, Debug)]
pub(crate) struct RepairArgs {}

pub(super) fn run(
    _args: &Args,
    _command: &RepairArgs,
    _out: &mut Output,
) -> Result<Exit, CliError> {
    Err(CliError::new(Exit::Failure, "unfinished"))
}
