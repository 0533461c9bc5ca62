//! `prodigy validate`.

use crate::{cli::Args, error::CliError, exit::Exit, output::Output};

/// TODO
#[derive(clap::Args, Debug)]
pub(crate) struct ValidateArgs {}

pub(super) fn run(
    _args: &Args,
    _command: &ValidateArgs,
    _out: &mut Output,
) -> Result<Exit, CliError> {
    Err(CliError::new(Exit::Failure, "unfinished"))
}
