//! `prodigy dlq`.

mod actions;
pub(crate) mod advice;
mod analyze;
mod approvals;
mod check;
mod clear;
pub(crate) mod decision;
mod drill;
mod edit;
pub(crate) mod entries;
mod export;
mod export_format;
mod fsck;
mod inspect;
mod list;
mod plan;
mod retry;
mod show;
mod stats;
pub(crate) mod status;

use crate::{cli::Cli, error::CliError, exit::Exit, render::console::Console};

pub(super) use self::clear::{clear_closed, closed_entries};
pub(super) use crate::render::table::{JsonListWriter, TextTable};
pub(super) use decision::{
    explain::explain_decision,
    replay_context::{amend_error, automation_error, load_active_policy},
};
pub(super) use entries::queue_error;

/// Inspect failed items, and close or replay them
///
/// An item that fails for good does not stop its job: it becomes a dead letter, an entry that
/// holds the item, why and where each attempt failed, and its artifacts.
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
    Approve(approvals::approve::DlqApproveArgs),
    Reject(approvals::reject::DlqRejectArgs),
    Adopt(actions::DlqAdoptArgs),
    Quarantine(actions::DlqQuarantineArgs),
    Release(actions::DlqReleaseArgs),
    Edit(edit::DlqEditArgs),
    Drop(actions::DlqDropArgs),
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
        DlqCommand::Approve(command) => approvals::approve::run(args, command, out),
        DlqCommand::Reject(command) => approvals::reject::run(args, command, out),
        DlqCommand::Adopt(command) => actions::run_adopt(args, command, out),
        DlqCommand::Quarantine(command) => actions::run_quarantine(args, command, out),
        DlqCommand::Release(command) => actions::run_release(args, command, out),
        DlqCommand::Edit(command) => edit::run(args, command, out),
        DlqCommand::Drill(command) => drill::run(args, command, out),
        DlqCommand::Drop(command) => actions::run_drop(args, command, out),
        DlqCommand::Clear(command) => clear::run(args, command, out),
        DlqCommand::Fsck(command) => fsck::run(args, command, out),
    }
}
