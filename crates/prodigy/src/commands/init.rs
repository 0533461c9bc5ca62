//! `prodigy init`.

use crate::{cli::Args, error::CliError, exit::Exit, output::Output};

/// TODO
#[derive(clap::Args, Debug)]
pub(crate) struct InitArgs {}

pub(super) fn run(_args: &Args, _command: &InitArgs, _out: &mut Output) -> Result<Exit, CliError> {
    Err(CliError::new(Exit::Failure, "unfinished"))
}
