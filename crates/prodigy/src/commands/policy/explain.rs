//! `prodigy policy explain`.

use prodigy_core::{ids::JobId, replay::Asked};

use crate::{cli::Args, commands::dlq, error::CliError, exit::Exit, output::Output};

/// Say what the policy decides over a dead letter, and why, in sentences
///
/// It is what `prodigy dlq retry` would decide now. Nothing is changed.
#[derive(clap::Args, Debug)]
pub(crate) struct ExplainArgs {
    /// The job
    job: JobId,

    /// The item, by id or by key
    item: String,

    /// Evaluate as `resume` (unasked), `dlq retry` (asked) or `dlq retry --force` (forced) would
    #[arg(long, value_enum, value_name = "HOW", default_value = "asked")]
    asked: AskedArg,

    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// The kind of request for a replay.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum AskedArg {
    /// Nobody asks
    Unasked,
    /// Somebody asks
    Asked,
    /// Somebody takes it on themselves
    Forced,
}

pub(super) fn run(args: &Args, command: &ExplainArgs, out: &mut Output) -> Result<Exit, CliError> {
    let asked = match command.asked {
        AskedArg::Unasked => Asked::Unasked,
        AskedArg::Asked => Asked::Asked,
        AskedArg::Forced => Asked::Forced,
    };
    dlq::explain(args, &command.job, &command.item, asked, command.json, out)
}
