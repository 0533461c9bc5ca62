//! `prodigy dlq approve`.

use prodigy_core::replay::{ApprovalState, approval::Vote};

use super::{
    vote::{VoteArgs, VoteReceipt},
    workflow_flag,
};
use crate::{
    cli::Cli,
    commands::{context, jobs::format_timestamp},
    error::CliError,
    exit::Exit,
    render::console::Console,
};

/// Approve a replay
///
/// The digest is what `prodigy dlq approvals` shows. If anything of what it stands for has
/// changed since, the approval is refused. It holds for one replay and for a while, which the
/// policy says. Who you are is what git's `user.email` says, or else the system: nobody has
/// proved it, and the record says so. With `--sign` your key proves it.
///
/// Exit codes: 0 if it counts, 1 if it is refused, 75 if another process works on the job.
#[derive(clap::Args, Debug)]
pub(crate) struct DlqApproveArgs {
    #[command(flatten)]
    answer: VoteArgs,

    /// The reason to record
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

pub(crate) fn run(
    args: &Cli,
    command: &DlqApproveArgs,
    out: &mut Console,
) -> Result<Exit, CliError> {
    let taken = command.answer.cast_vote(args, Vote::Approve, &command.reason, out)?;
    let VoteReceipt { entry, answered, by } = &taken;
    let (job, item, identity) = (&entry.job_id, &entry.item_id, answered.identity);
    out.line(format_args!("approved  {item} as {by} ({identity})"))?;
    out.flush()?;
    let program = context::self_command(args);
    let Some(approval) = &entry.approval else { return Ok(Exit::Success) };
    let until = format_timestamp(approval.expires_at);
    if let ApprovalState::Pending { granted, needed } = answered.state {
        let missing = needed.saturating_sub(granted);
        let approvals = if missing == 1 { "approval" } else { "approvals" };
        out.note(format_args!("\n{missing} more {approvals} needed until {until}"));
        out.note(format_args!("next: {program} dlq approvals {job}"));
    } else {
        let (asker, flag) = (&approval.requested_by, workflow_flag(entry, approval));
        out.note(format_args!("\nit can be replayed once, until {until}"));
        out.note(format_args!("next, for {asker}: {program} dlq retry {job} {item}{flag}"));
    }
    Ok(Exit::Success)
}
