//! `prodigy worktree`.

mod clean;
mod du;
mod ls;
mod references;
mod survey;

pub(crate) use survey::{Bytes, JobLeftover, Kind, survey};

use crate::{cli::Args, error::CliError, exit::Exit, output::Output};

/// Look at and clean up the worktrees of this repository's jobs
#[derive(clap::Subcommand, Debug)]
pub(crate) enum WorktreeCommand {
    Ls(ls::LsArgs),
    Clean(clean::CleanArgs),
    Du(du::DuArgs),
}

pub(super) fn run(
    args: &Args,
    command: &WorktreeCommand,
    out: &mut Output,
) -> Result<Exit, CliError> {
    match command {
        WorktreeCommand::Ls(command) => ls::run(args, command, out),
        WorktreeCommand::Clean(command) => clean::run(args, command, out),
        WorktreeCommand::Du(command) => du::run(args, command, out),
    }
}
