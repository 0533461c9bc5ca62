//! `prodigy worktree`.

use crate::{cli::Args, error::CliError, exit::Exit, output::Output};

/// TODO
#[derive(clap::Subcommand, Debug)]
pub(crate) enum WorktreeCommand {
    /// TODO
    Todo,
}

pub(super) fn run(
    _args: &Args,
    _command: &WorktreeCommand,
    _out: &mut Output,
) -> Result<Exit, CliError> {
    Err(CliError::new(Exit::Failure, "unfinished"))
}
