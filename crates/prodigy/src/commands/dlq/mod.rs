//! `prodigy dlq`.

mod advice;
mod analyze;
mod chosen;
mod clear;
mod drop;
mod entry;
mod export;
mod form;
mod fsck;
mod groups;
mod inspect;
mod layout;
mod list;
mod queues;
mod refusal;
mod retry;
mod show;
mod stats;
mod table;
mod words;

use crate::{cli::Args, error::CliError, exit::Exit, output::Output};

/// Look into the items that were given up, and close or replay them
///
/// An item that fails for good does not stop its job: it becomes a dead letter, an entry that
/// holds the item, why and where each attempt failed, and what was left behind.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum DlqCommand {
    #[command(visible_alias = "ls")]
    List(list::ListLettersArgs),
    Show(show::ShowLetterArgs),
    Inspect(inspect::InspectArgs),
    Analyze(analyze::AnalyzeArgs),
    Stats(stats::LetterStatsArgs),
    Export(export::ExportLettersArgs),
    Retry(Box<retry::RetryArgs>),
    Drop(drop::DropArgs),
    Clear(clear::ClearArgs),
    Fsck(fsck::FsckArgs),
}

pub(super) fn run(args: &Args, command: &DlqCommand, out: &mut Output) -> Result<Exit, CliError> {
    match command {
        DlqCommand::List(command) => list::run(args, command, out),
        DlqCommand::Show(command) => show::run(args, command, out),
        DlqCommand::Inspect(command) => inspect::run(args, command, out),
        DlqCommand::Analyze(command) => analyze::run(args, command, out),
        DlqCommand::Stats(command) => stats::run(args, command, out),
        DlqCommand::Export(command) => export::run(args, command, out),
        DlqCommand::Retry(command) => retry::run(args, command, out),
        DlqCommand::Drop(command) => drop::run(args, command, out),
        DlqCommand::Clear(command) => clear::run(args, command, out),
        DlqCommand::Fsck(command) => fsck::run(args, command, out),
    }
}
