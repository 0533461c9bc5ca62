//! `prodigy supervise`.

use crate::{cli::Args, error::CliError, exit::Exit, output::Output};

/// TODO
#[derive(clap::Args, Debug)]
pub(crate) struct SuperviseArgs {}

pub(super) fn run(
    _args: &Args,
    _command: &SuperviseArgs,
    _out: &mut Output,
) -> Result<Exit, CliError> {
    Err(CliError::new(Exit::Failure, "unfinished"))
}
