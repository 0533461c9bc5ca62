//! `prodigy exec`.

use std::{collections::BTreeMap, num::NonZeroU32, path::PathBuf};

use prodigy_core::event::RunOptions;

use super::{
    SpendingArgs,
    run::{RunRequest, start_job},
};
use crate::{
    cli::Cli,
    commands::{
        context,
        prepare::{merge_target::MergeTargetArgs, workflow_file},
    },
    error::CliError,
    exit::Exit,
    render::console::Console,
};

/// Run a single step, with a worktree, a journal and a merge like any workflow
#[derive(clap::Args, Debug)]
pub(crate) struct ExecArgs {
    /// The step: `shell: COMMAND`, `claude: PROMPT` or `codex: PROMPT`
    step: String,

    /// Maximum attempts
    #[arg(long, value_name = "N")]
    retry: Option<NonZeroU32>,

    /// End it after this long, e.g. `300` or `5m`
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,

    /// Merge the result without asking
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    spending: SpendingArgs,

    #[command(flatten)]
    target: MergeTargetArgs,

    /// Work on the repository in this directory [default: the current one]
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
}

pub(crate) fn run(args: &Cli, command: &ExecArgs, out: &mut Console) -> Result<Exit, CliError> {
    let file = workflow_file::from_text("exec", &workflow(command)?, out)?;
    let request = RunRequest {
        verbose: false,
        name: "exec".to_owned(),
        file,
        repo: context::repo(command.path.as_deref())?,
        parameters: BTreeMap::new(),
        inputs: Vec::new(),
        iterations: 1,
        profile: None,
        yes: command.yes,
        job: None,
        junit: None,
        given: None,
        options: RunOptions::default().with(command.spending.changes()),
        rehearsal: None,
        into: command.target.into.clone(),
    };
    start_job(args, request, out)
}

/// Returns a workflow with the one step in it.
fn workflow(command: &ExecArgs) -> Result<String, CliError> {
    let (kind, text) = command
        .step
        .split_once(':')
        .map(|(kind, text)| (kind.trim(), text.trim()))
        .filter(|(kind, text)| matches!(*kind, "shell" | "claude" | "codex") && !text.is_empty())
        .ok_or_else(|| {
            CliError::new(Exit::Usage, format!("`{}` is not a step", command.step))
                .with_hint("write it as `prodigy exec \"shell: cargo test\"`")
        })?;
    // A JSON string is a YAML string too, whatever is in it.
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let retry = command.retry.map(|attempts| format!("  retry: {{ attempts: {attempts} }}\n"));
    let timeout = command.timeout.as_deref().map(|text| format!("  timeout: {}\n", quoted(text)));
    let step = format!("- {kind}: {}\n", quoted(text));
    Ok(step + &retry.unwrap_or_default() + &timeout.unwrap_or_default())
}
