//! `prodigy schema`.

use crate::{cli::Args, error::CliError, exit::Exit, output::Output};

/// TODO
#[derive(clap::Subcommand, Debug)]
pub(crate) enum SchemaCommand {
    /// TODO
    Todo,
}

pub(super) fn run(
    _args: &Args,
    _command: &SchemaCommand,
    _out: &mut Output,
) -> Result<Exit, CliError> {
    Err(CliError::new(Exit::Failure, "unfinished"))
}
