//! `prodigy dlq`.

mod adopt;
mod advice;
mod analyze;
mod answering;
mod approvals;
mod approve;
mod authority;
mod by_hand;
mod check;
mod chosen;
mod clear;
mod drill;
mod drop;
mod edit;
mod entry;
mod explain;
mod export;
mod form;
mod fsck;
mod groups;
mod inspect;
mod layout;
mod list;
mod outcome;
mod plan;
mod planning;
mod quarantine;
mod queues;
mod reject;
mod release;
mod replaying;
mod retry;
mod show;
mod stats;
mod status;
mod table;
mod unfinished;
mod words;

pub(super) use self::{
    authority::{amend_error, automation_error, load_active_policy},
    clear::{clear_closed, closed_entries},
    explain::explain_decision,
    queues::queue_error,
    table::{JsonListWriter, TextTable},
};
use crate::{cli::Cli, error::CliError, exit::Exit, output::Console};

/// Look into the items that were given up, and close or replay them
///
/// An item that fails for good does not stop its job: it becomes a dead letter, an entry that
/// holds the item, why and where each attempt failed, and what was left behind.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum DlqCommand {
    #[command(visible_alias = "ls")]
    List(list::DlqListArgs),
    Show(show::DlqShowArgs),
    Inspect(inspect::DlqInspectArgs),
    Analyze(analyze::DlqAnalyzeArgs),
    Stats(stats::DlqStatsArgs),
    Status(status::DlqStatusArgs),
    Export(export::DlqExportArgs),
    Check(check::DlqCheckArgs),
    Plan(Box<plan::DlqPlanArgs>),
    #[command(visible_alias = "replay")]
    Retry(Box<retry::DlqRetryArgs>),
    Approvals(approvals::DlqApprovalsArgs),
    Approve(approve::DlqApproveArgs),
    Reject(reject::DlqRejectArgs),
    Adopt(adopt::DlqAdoptArgs),
    Quarantine(quarantine::DlqQuarantineArgs),
    Release(release::DlqReleaseArgs),
    Edit(edit::DlqEditArgs),
    Drop(drop::DlqDropArgs),
    Clear(clear::DlqClearArgs),
    Fsck(fsck::DlqFsckArgs),
    Drill(drill::DlqDrillArgs),
}

pub(super) fn run(args: &Cli, command: &DlqCommand, out: &mut Console) -> Result<Exit, CliError> {
    match command {
        DlqCommand::List(command) => list::run(args, command, out),
        DlqCommand::Show(command) => show::run(args, command, out),
        DlqCommand::Inspect(command) => inspect::run(args, command, out),
        DlqCommand::Analyze(command) => analyze::run(args, command, out),
        DlqCommand::Stats(command) => stats::run(args, command, out),
        DlqCommand::Status(command) => status::run(args, command, out),
        DlqCommand::Export(command) => export::run(args, command, out),
        DlqCommand::Check(command) => check::run(args, command, out),
        DlqCommand::Retry(command) => retry::run(args, command, out),
        DlqCommand::Plan(command) => plan::run(args, command, out),
        DlqCommand::Approvals(command) => approvals::run(args, command, out),
        DlqCommand::Approve(command) => approve::run(args, command, out),
        DlqCommand::Reject(command) => reject::run(args, command, out),
        DlqCommand::Adopt(command) => adopt::run_adopt(args, command, out),
        DlqCommand::Quarantine(command) => quarantine::run_quarantine(args, command, out),
        DlqCommand::Release(command) => release::run_release(args, command, out),
        DlqCommand::Edit(command) => edit::run(args, command, out),
        DlqCommand::Drill(command) => drill::run(args, command, out),
        DlqCommand::Drop(command) => drop::run_drop(args, command, out),
        DlqCommand::Clear(command) => clear::run(args, command, out),
        DlqCommand::Fsck(command) => fsck::run(args, command, out),
    }
}
