//! `prodigy worktree`.

mod clean;
mod du;
mod ls;
mod references;
mod survey;

pub(crate) use survey::{ByteSize, WorktreeKind, WorktreeView, list_worktrees};

use crate::{cli::Cli, error::CliError, exit::Exit, output::Console};

/// Look at and clean up the worktrees of this repository's jobs
#[derive(clap::Subcommand, Debug)]
pub(crate) enum WorktreeCommand {
    Ls(ls::WorktreeListArgs),
    Clean(clean::WorktreeCleanArgs),
    Du(du::WorktreeDuArgs),
}

pub(super) fn run(
    args: &Cli,
    command: &WorktreeCommand,
    out: &mut Console,
) -> Result<Exit, CliError> {
    match command {
        WorktreeCommand::Ls(command) => ls::run(args, command, out),
        WorktreeCommand::Clean(command) => clean::run(args, command, out),
        WorktreeCommand::Du(command) => du::run(args, command, out),
    }
}
