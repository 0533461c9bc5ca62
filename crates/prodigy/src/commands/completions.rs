//! `prodigy completions`.

use crate::{cli::Args, error::CliError, exit::Exit, output::Output};

/// TODO
#[derive(clap::Args, Debug)]
pub(crate) struct CompletionsArgs {}

pub(super) fn run(
    _args: &Args,
    _command: &CompletionsArgs,
    _out: &mut Output,
) -> Result<Exit, CliError> {
    Err(CliError::new(Exit::Failure, "unfinished"))
}
