//! `prodigy batch`.

use std::{collections::BTreeMap, num::NonZeroU32, path::PathBuf};

use prodigy_core::{event::RunOptions, ids::JobId};
use serde_json::{Value, json};

use super::{
    SpendingArgs, plan,
    run::{RunRequest, matched_files, start_job},
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

/// The name of a batch's workflow in the records.
const NAME: &str = "batch";

/// Run one command for every file that matches, several at once
///
/// Every file gets a worktree of its own, a journal entry, retries and the dead letter
/// queue, as in a workflow with `mode: mapreduce`. `${item}` stands for the file; its
/// name never becomes part of the program. A command that begins with `/` is a prompt
/// for the agent `claude`. What the command changes is committed and merged.
///
/// Example: `prodigy batch 'src/*.js' -c "sed -i 's/var /let /' ${item}"`
///
/// Exit codes: those of `prodigy run`.
#[derive(clap::Args, Debug)]
pub(crate) struct BatchArgs {
    /// Which files, relative to the root of the repository, e.g. `src/**/*.rs`
    #[arg(value_name = "GLOB")]
    pattern: String,

    /// Run this for each file, e.g. `rustfmt ${item}`; a prompt for `claude` if it begins with `/`
    #[arg(long, short, value_name = "COMMAND")]
    command: String,

    /// Work on this many files at once
    #[arg(long, visible_alias = "max-parallel", value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(1..=256))]
    parallel: u32,

    /// Maximum attempts per file
    #[arg(long, value_name = "N")]
    retry: Option<NonZeroU32>,

    /// End the command after this long, e.g. `300` or `5m`
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,

    /// Take only the first N files
    #[arg(long, value_name = "N")]
    max_items: Option<NonZeroU32>,

    /// Give each file its own worktree, or let all files share the job's
    #[arg(long, value_enum, value_name = "HOW", default_value = "worktree")]
    isolation: BatchIsolation,

    /// Exit with 3 if the job is done and items are in the dead letter queue
    #[arg(long)]
    fail_on_dlq: bool,

    #[command(flatten)]
    spending: SpendingArgs,

    /// Write the outcome of each file as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// Merge the result without asking
    #[arg(short, long)]
    yes: bool,

    /// Show what would run, and run nothing
    #[arg(long)]
    dry_run: bool,

    /// The id of the job [default: made from the time]
    #[arg(long, value_name = "ID")]
    job_id: Option<JobId>,

    #[command(flatten)]
    target: MergeTargetArgs,

    /// Work on the repository in this directory [default: the current one]
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
}

/// Where the command of each file runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum BatchIsolation {
    /// In a worktree of its own; what it changes is committed and merged
    Worktree,
    /// In the job's worktree, beside the others; nothing is committed, what is left is kept
    Shared,
}

pub(crate) fn run(args: &Cli, command: &BatchArgs, out: &mut Console) -> Result<Exit, CliError> {
    let repo = context::repo(command.path.as_deref())?;
    if matched_files(&command.pattern, &repo)?.is_empty() {
        let message = format!("no file matches `{}`", command.pattern);
        return Err(CliError::new(Exit::Usage, message)
            .with_hint("patterns are relative to the root of the repository"));
    }
    let request = RunRequest {
        verbose: false,
        name: NAME.to_owned(),
        file: workflow_file::from_text(NAME, &workflow(command), out)?,
        repo,
        parameters: BTreeMap::new(),
        inputs: Vec::new(),
        iterations: 1,
        profile: None,
        yes: command.yes,
        job: command.job_id.clone(),
        // A file that matches and is not committed is not in the worktree: that is said aloud.
        given: None,
        options: RunOptions {
            needs_items: true,
            fail_on_dlq: command.fail_on_dlq,
            ..RunOptions::default().with(command.spending.changes())
        },
        junit: command.junit.clone(),
        rehearsal: None,
        into: command.target.into.clone(),
    };
    if command.dry_run {
        return plan::show(args, &request, false, out);
    }
    if command.isolation == BatchIsolation::Shared {
        out.note(
            "note: nothing is committed with `--isolation shared`; what the commands leave is kept, \
             and the end of the run says where",
        );
    }
    start_job(args, request, out)
}

/// Returns a workflow that runs the command for each file.
fn workflow(command: &BatchArgs) -> String {
    let kind = if command.command.starts_with('/') { "claude" } else { "shell" };
    let (isolation, commits) = match command.isolation {
        BatchIsolation::Worktree => ("worktree", true),
        // One file's command would commit what another's has half done.
        BatchIsolation::Shared => ("shared", false),
    };
    let step = fields([
        (kind, Some(command.command.as_str().into())),
        ("timeout", command.timeout.as_deref().map(Value::from)),
        ("auto_commit", commits.then_some(Value::Bool(true))),
    ]);
    let map = fields([
        ("input", Some(json!({ "glob": command.pattern }))),
        ("max_parallel", Some(command.parallel.into())),
        ("max_items", command.max_items.map(|most| most.get().into())),
        ("isolation", Some(isolation.into())),
        ("agent_template", Some(Value::Array(vec![step]))),
    ]);
    let retry =
        command.retry.map(|attempts| json!({ "retry_config": { "max_attempts": attempts } }));
    let workflow = fields([
        ("name", Some(NAME.into())),
        ("mode", Some("mapreduce".into())),
        ("map", Some(map)),
        ("error_policy", retry),
    ]);
    // A JSON document is a YAML document too, whatever is in it.
    format!("{workflow:#}\n")
}

/// Returns an object of the fields that there are.
fn fields<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let there = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(there.collect())
}
