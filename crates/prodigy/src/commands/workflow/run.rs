//! `prodigy run`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use prodigy_core::{
    event::{JobMode, JobStarted, RunOptions},
    ids::JobId,
    policy::Budget,
    workflow::Rehearsal,
};
use prodigy_engine::{
    git::Repo,
    run::{self, FilePatternError, NewJob, matching_files},
};
use serde_json::Value;

use super::{ItemArgs, SpendingArgs, plan};
use crate::{
    cli::Cli,
    commands::{
        context,
        prepare::{
            self,
            given_items::{self, GivenItems, InputArgs},
            merge_target::{self, MergeTargetArgs},
            parameters, workflow_file,
        },
        workflow::exit_rules::ExitRules,
    },
    error::CliError,
    exit::Exit,
    render::console::Console,
};

pub(crate) use crate::commands::prepare::step_counts::StepCounts;

/// Run a workflow in a worktree of its own and merge the result
///
/// The checkout you start from is not touched until the final merge. The run can be
/// stopped or killed at any moment and taken up again with `prodigy resume`. The result goes to the
/// branch of the worktree you stand in; `prodigy run w.yml --into BRANCH` merges elsewhere.
///
/// Exit codes: 0 done, 1 failed or no item succeeded, 2 usage, 3 items in the dead letter queue and
/// `--fail-on-dlq`, 4 no items and `--no-items fail`, 5 stopped by the error policy,
/// 6 budget spent, 7 not merged yet, 9 file invalid, 75 usage limit and `--no-wait`,
/// 130 stopped by Ctrl-C, 143 stopped by a signal.
#[derive(clap::Args, Debug)]
pub(crate) struct RunArgs {
    /// The workflow file
    workflow: PathBuf,

    /// Merge the result without asking
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    task: WorkflowArgs,

    /// Show what would run, and run nothing
    #[arg(long)]
    dry_run: bool,

    /// The id of the job [default: made from the time]
    #[arg(long, value_name = "ID")]
    job_id: Option<JobId>,

    /// Write a JUnit report to this file at the end
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// Show every event as it happens, and the end of what failed steps printed
    #[arg(short, long)]
    verbose: bool,
}

/// The inputs and options of a workflow's run.
#[derive(clap::Args, Debug)]
pub(crate) struct WorkflowArgs {
    #[command(flatten)]
    items: ItemArgs,

    #[command(flatten)]
    input: InputArgs,

    #[command(flatten)]
    spending: SpendingArgs,

    /// Set a parameter of the workflow (can be repeated)
    #[arg(long = "param", value_name = "NAME=VALUE")]
    params: Vec<String>,

    /// Read parameters from a YAML or JSON file
    #[arg(long, value_name = "FILE")]
    param_file: Option<PathBuf>,

    /// Use the environment of this profile of the workflow
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,

    /// Run the steps once for each of these values, as `${item}`
    #[arg(long, value_name = "VALUE", num_args = 1..)]
    args: Vec<String>,

    /// Run the steps once for each file that matches, as `${item}` (can be repeated)
    #[arg(long, value_name = "GLOB")]
    map: Vec<String>,

    /// Run the steps this many times
    #[arg(short = 'n', long = "iterations", value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    iterations: u32,

    #[command(flatten)]
    target: MergeTargetArgs,

    /// Work on the repository in this directory [default: the current one]
    #[arg(long, value_name = "DIR")]
    pub(crate) path: Option<PathBuf>,
}

pub(crate) fn run(args: &Cli, command: &RunArgs, out: &mut Console) -> Result<Exit, CliError> {
    let repo = context::repo(command.task.path.as_deref());
    let mut request = command.task.to_request(&command.workflow, repo, out)?;
    request.yes = command.yes;
    request.job.clone_from(&command.job_id);
    request.junit.clone_from(&command.junit);
    request.verbose = command.verbose;
    if command.dry_run {
        return plan::show(args, &request, false, out);
    }
    start_job(args, request, out)
}

impl WorkflowArgs {
    /// Returns what somebody wants to be run, in a repository if that is one.
    pub(crate) fn to_request(
        &self,
        workflow: &Path,
        repo: Result<Repo, CliError>,
        out: &mut Console,
    ) -> Result<RunRequest, CliError> {
        let file = workflow_file::load(workflow, out)?;
        let repo = repo?;
        let inputs = inputs(self, &repo)?;
        let parameters = parameters::resolve(
            &file.loaded.workflow.parameters,
            &self.params,
            self.param_file.as_deref(),
        )?;
        let mode = StepCounts::of(&file.loaded.workflow).mode;
        let options = RunOptions::default().with(self.items.changes(self.spending, mode)?);
        let request = RunRequest {
            verbose: false,
            name: workflow.to_string_lossy().into_owned(),
            file,
            repo,
            parameters,
            inputs,
            iterations: self.iterations,
            profile: self.profile.clone(),
            yes: false,
            job: None,
            junit: None,
            given: self.input.read(mode)?,
            options,
            rehearsal: None,
            into: self.target.into.clone(),
        };
        given_items::check(&request, out)?;
        Ok(request)
    }
}

/// A job that somebody wants.
pub(crate) struct RunRequest {
    /// The name of the workflow in the records.
    pub(crate) name: String,
    /// The workflow.
    pub(crate) file: workflow_file::WorkflowFile,
    /// The repository.
    pub(crate) repo: Repo,
    /// The parameters.
    pub(crate) parameters: BTreeMap<String, Value>,
    /// One round for each; empty for plain rounds.
    pub(crate) inputs: Vec<String>,
    /// The number of iterations over the inputs.
    pub(crate) iterations: u32,
    /// The profile.
    pub(crate) profile: Option<String>,
    /// Set to merge without asking.
    pub(crate) yes: bool,
    /// The id, if given.
    pub(crate) job: Option<JobId>,
    /// Where a JUnit report is written to at the end.
    pub(crate) junit: Option<PathBuf>,
    /// The items that take the place of `map.input`.
    pub(crate) given: Option<GivenItems>,
    /// The flags that hold until others are given.
    pub(crate) options: RunOptions,
    /// The settings of the rehearsal, if it is one.
    pub(crate) rehearsal: Option<RehearsalRequest>,
    /// The branch that the result goes to, if one was named.
    pub(crate) into: Option<String>,
    /// Set to show every event.
    pub(crate) verbose: bool,
}

/// The settings and the place of a rehearsal.
pub(crate) struct RehearsalRequest {
    /// The settings of the simulation.
    pub(crate) rehearsal: Rehearsal,
    /// Where its state is kept.
    pub(crate) home: PathBuf,
    /// The user's checkout, whose settings count.
    pub(crate) checkout: PathBuf,
}

impl RunRequest {
    /// Returns how many rounds there are in all.
    pub(crate) fn rounds(&self) -> u32 {
        let inputs = u32::try_from(self.inputs.len().max(1)).unwrap_or(u32::MAX);
        self.iterations.saturating_mul(inputs)
    }
}

/// Starts a job and sees it through.
pub(crate) fn start_job(
    args: &Cli,
    request: RunRequest,
    out: &mut Console,
) -> Result<Exit, CliError> {
    let sizes = StepCounts::of(&request.file.loaded.workflow);
    refuse_rounds(&request, sizes.mode)?;
    if request.rehearsal.is_none() {
        prepare::require_trust(&request.repo)?;
    }
    let home = match &request.rehearsal {
        Some(rehearsed) => context::ensure_home_at(rehearsed.home.clone())?,
        None => context::ensure_home(args)?,
    };
    let head = request.repo.head().map_err(context::git_error)?;
    let target = merge_target::choose_target(&request.repo, &head, request.into.clone())?;
    let (rounds, job) = (request.rounds(), job_id(&request)?);
    let RunRequest { name, file, repo, parameters, inputs, profile, yes, options, .. } = request;
    let (junit, rehearsal, given) = (request.junit, request.rehearsal, request.given);
    let verbose = request.verbose;
    let started = JobStarted {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        workflow_file: name,
        workflow_hash: file.hash(),
        workflow_name: file.loaded.workflow.name.clone(),
        repository: repo.root().to_string_lossy().into_owned(),
        target_branch: Some(target.branch),
        into: target.is_named,
        worktree: repo.linked_checkout().map(|path| path.to_string_lossy().into_owned()),
        base_commit: head.commit,
        mode: sizes.mode,
        steps: sizes.steps,
        setup_steps: sizes.setup,
        reduce_steps: sizes.reduce,
        inputs,
        rounds,
        parameters,
        profile,
        yes,
        by: Some(context::actor(&repo)),
        found: None,
        // What holds is known once the settings are.
        budget: Budget::default(),
        options,
        input: given.as_ref().map(|given| given.input.clone()),
    };
    if rehearsal.is_none() {
        warn_about_checkout(&repo, out)?;
    }
    let items = given.map(|given| given.bytes);
    let beginning = NewJob { job: job.clone(), started, texts: file.texts(), items };
    let profile = beginning.started.profile.clone();
    let (max_parallel, exit) = (options.max_parallel, ExitRules::default());
    let world =
        prepare::RunSetup { home, repo, profile, max_parallel, junit, rehearsal, exit, verbose };
    prepare::run_to_end(args, world, file, out, |settings| run::start(settings, beginning), &job)
}

/// Says what of the user's checkout is not part of a run, and what else may surprise.
pub(crate) fn warn_about_checkout(repo: &Repo, out: &mut Console) -> Result<(), CliError> {
    let dirty = repo.count_uncommitted().map_err(context::git_error)?;
    if dirty > 0 {
        let (changes, are) = if dirty == 1 { ("change", "is") } else { ("changes", "are") };
        out.note(format_args!(
            "note: {dirty} uncommitted {changes} in your checkout {are} not part of this run"
        ));
    }
    for warning in repo.warnings() {
        out.note(format_args!("note: {warning}"));
    }
    if let Some(hooks) = crate::commands::prepare::hooks::skipped_hooks(repo)? {
        out.note(format_args!("note: {hooks}"));
    }
    Ok(())
}

/// Refuses rounds for a workflow that has items of its own.
fn refuse_rounds(request: &RunRequest, mode: JobMode) -> Result<(), CliError> {
    if mode == JobMode::Sequential || request.rounds() == 1 && request.inputs.is_empty() {
        return Ok(());
    }
    let message =
        "`--args`, `--map` and `-n` are for sequential workflows; this one has items of its own";
    Err(CliError::new(Exit::Usage, message).with_hint("name them under `map.input`"))
}

/// Returns the id of the new job.
fn job_id(request: &RunRequest) -> Result<JobId, CliError> {
    if let Some(job) = &request.job {
        return Ok(job.clone());
    }
    let kind = match StepCounts::of(&request.file.loaded.workflow).mode {
        JobMode::Sequential => "workflow",
        JobMode::Mapreduce => "mapreduce",
    };
    run::new_job_id(kind).map_err(|error| {
        CliError::new(Exit::Failure, "no id could be made for the job").with_source(error)
    })
}

/// Returns the values of `--args` and `--map`.
fn inputs(command: &WorkflowArgs, repo: &Repo) -> Result<Vec<String>, CliError> {
    let mut inputs = command.args.clone();
    for pattern in &command.map {
        let found = matched_files(pattern, repo)?;
        if found.is_empty() {
            return Err(CliError::new(Exit::Usage, format!("no file matches `{pattern}`"))
                .with_hint("patterns are relative to the root of the repository"));
        }
        inputs.extend(found);
    }
    Ok(inputs)
}

/// Returns the files of the repository that match a pattern, relative to its root.
///
/// Links to directories are not followed. A file whose name is not text is not passed over.
pub(crate) fn matched_files(pattern: &str, repo: &Repo) -> Result<Vec<String>, CliError> {
    matching_files(repo.checkout(), pattern).map_err(|error| {
        let (exit, hint) = match &error {
            FilePatternError::Syntax { .. } => (Exit::Usage, None),
            FilePatternError::Read { .. } => (Exit::Failure, None),
            FilePatternError::NotText { .. } => {
                (Exit::Usage, Some("rename it, or use a pattern that does not match it"))
            }
        };
        let error = CliError::new(exit, error.to_string());
        match hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    })
}
