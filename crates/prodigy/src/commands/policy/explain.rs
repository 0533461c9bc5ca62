//! `prodigy policy explain`.

use prodigy_core::{ids::JobId, replay::ReplayTrigger};

use crate::{cli::Cli, commands::dlq, error::CliError, exit::Exit, render::console::Console};

/// Say what the policy decides over a dead letter, and why, in sentences
///
/// It is what `prodigy dlq retry` would decide now. Nothing is changed.
#[derive(clap::Args, Debug)]
pub(crate) struct PolicyExplainArgs {
    /// The job
    job: JobId,

    /// The item, by id or by key
    item: String,

    /// Evaluate as `resume` (unasked), `dlq retry` (asked) or `dlq retry --force` (forced) would
    #[arg(long, value_enum, value_name = "HOW", default_value = "asked")]
    asked: ReplayTriggerArg,

    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// The kind of request for a replay.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ReplayTriggerArg {
    /// Nobody asks
    Unasked,
    /// Somebody asks
    Asked,
    /// Somebody takes it on themselves
    Forced,
}

pub(super) fn run(
    args: &Cli,
    command: &PolicyExplainArgs,
    out: &mut Console,
) -> Result<Exit, CliError> {
    let asked = match command.asked {
        ReplayTriggerArg::Unasked => ReplayTrigger::Unasked,
        ReplayTriggerArg::Asked => ReplayTrigger::Asked,
        ReplayTriggerArg::Forced => ReplayTrigger::Forced,
    };
    dlq::explain_decision(args, &command.job, &command.item, asked, command.json, out)
}
