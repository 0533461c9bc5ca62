//! `prodigy dlq reject`.

use prodigy_core::replay::approval::Vote;

use super::vote::{VoteArgs, VoteReceipt};
use crate::{
    cli::Cli,
    commands::{context, dlq::decision::replay_context::require_reason},
    error::CliError,
    exit::Exit,
    render::console::Console,
};

/// Refuse the replay of a dead letter
///
/// Whoever may agree may refuse, even if they have a part in it or agreed before. The entry is
/// not replayed as it is; once something of it, the workflow or the policy is changed, it can be
/// asked for anew.
///
/// Exit codes: 0 if it counts, 1 if it is refused, 75 if another process works on the job.
#[derive(clap::Args, Debug)]
pub(crate) struct DlqRejectArgs {
    #[command(flatten)]
    answer: VoteArgs,

    /// The reason to record
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

pub(crate) fn run(
    args: &Cli,
    command: &DlqRejectArgs,
    out: &mut Console,
) -> Result<Exit, CliError> {
    let reason = require_reason(&command.reason)?;
    let VoteReceipt { entry, answered, by } =
        command.answer.cast_vote(args, Vote::Reject, reason, out)?;
    let (job, item) = (&entry.job_id, &entry.item_id);
    out.line(format_args!("rejected  {item} as {by} ({})", answered.identity))?;
    out.flush()?;
    let program = context::self_command(args);
    out.note("\nit is not replayed as it is: change what you object to, or close it");
    out.note(format_args!("next: {program} dlq drop {job} {item} --reason TEXT"));
    Ok(Exit::Success)
}
