//! `prodigy config`.

use crate::{cli::Args, error::CliError, exit::Exit, output::Output};

/// TODO
#[derive(clap::Subcommand, Debug)]
pub(crate) enum ConfigCommand {
    /// TODO
    Todo,
}

pub(super) fn run(
    _args: &Args,
    _command: &ConfigCommand,
    _out: &mut Output,
) -> Result<Exit, CliError> {
    Err(CliError::new(Exit::Failure, "unfinished"))
}
