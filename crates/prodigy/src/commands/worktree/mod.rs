//! `prodigy worktree`.

mod clean;
mod du;
mod inventory;
mod list;
mod references;

use crate::{cli::Cli, error::CliError, exit::Exit, render::console::Console};

pub(crate) use inventory::{ByteSize, WorktreeKind, WorktreeView, list_worktrees};

/// Look at and clean up the worktrees of this repository's jobs
#[derive(clap::Subcommand, Debug)]
pub(crate) enum WorktreeCommand {
    Ls(list::WorktreeListArgs),
    Clean(clean::WorktreeCleanArgs),
    Du(du::WorktreeDuArgs),
}

pub(super) fn run(
    args: &Cli,
    command: &WorktreeCommand,
    out: &mut Console,
) -> Result<Exit, CliError> {
    match command {
        WorktreeCommand::Ls(command) => list::run(args, command, out),
        WorktreeCommand::Clean(command) => clean::run(args, command, out),
        WorktreeCommand::Du(command) => du::run(args, command, out),
    }
}
