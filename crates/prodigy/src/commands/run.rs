//! `prodigy run`.

use std::{collections::BTreeMap, fs, path::PathBuf};

use prodigy_core::{event::JobStarted, ids::JobId, workflow::Body};
use prodigy_engine::{
    git::Repo,
    run::{self, Beginning},
};
use serde_json::Value;

use super::{context, parameters, plan, setup};
use crate::{cli::Args, error::CliError, exit::Exit, output::Output, workflow_file};

/// Run a workflow in a worktree of its own and merge the result
///
/// The checkout you start from is not touched until the final merge. The run can be
/// stopped or killed at any moment and taken up again with `prodigy resume`.
///
/// Exit codes: 0 done, 1 failed, 2 usage, 7 merge outstanding, 9 file invalid,
/// 130 stopped by Ctrl-C, 143 stopped by a signal.
#[derive(clap::Args, Debug)]
pub(crate) struct RunArgs {
    /// The workflow file
    workflow: PathBuf,

    /// Merge the result without asking
    #[arg(short, long)]
    yes: bool,

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

    /// Show what would run, and run nothing
    #[arg(long)]
    dry_run: bool,

    /// The id of the job [default: made from the time]
    #[arg(long, value_name = "ID")]
    job_id: Option<JobId>,

    /// Work on the repository in this directory [default: the current one]
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
}

pub(super) fn run(args: &Args, command: &RunArgs, out: &mut Output) -> Result<Exit, CliError> {
    let file = workflow_file::load(&command.workflow, out)?;
    let repo = context::repo(command.path.as_deref())?;
    let inputs = inputs(command, &repo)?;
    let parameters = parameters::resolve(
        &file.loaded.workflow.parameters,
        &command.params,
        command.param_file.as_deref(),
    )?;
    let request = Request {
        name: command.workflow.to_string_lossy().into_owned(),
        file,
        repo,
        parameters,
        inputs,
        iterations: command.iterations,
        profile: command.profile.clone(),
        yes: command.yes,
        job: command.job_id.clone(),
    };
    if command.dry_run {
        return plan::show(&request, false, out);
    }
    begin(args, request, out)
}

/// A job that somebody wants.
pub(super) struct Request {
    /// What the workflow is called in the records.
    pub(super) name: String,
    /// The workflow.
    pub(super) file: workflow_file::File,
    /// The repository.
    pub(super) repo: Repo,
    /// The parameters.
    pub(super) parameters: BTreeMap<String, Value>,
    /// One round for each; empty for plain rounds.
    pub(super) inputs: Vec<String>,
    /// How often the rounds are repeated.
    pub(super) iterations: u32,
    /// The profile.
    pub(super) profile: Option<String>,
    /// Whether to merge without asking.
    pub(super) yes: bool,
    /// The id, if given.
    pub(super) job: Option<JobId>,
}

impl Request {
    /// Returns how many rounds there are in all.
    pub(super) fn rounds(&self) -> u32 {
        let inputs = u32::try_from(self.inputs.len().max(1)).unwrap_or(u32::MAX);
        self.iterations.saturating_mul(inputs)
    }
}

/// Starts a job and sees it through.
pub(super) fn begin(args: &Args, request: Request, out: &mut Output) -> Result<Exit, CliError> {
    setup::refuse_unsupported(&request.file)?;
    let Body::Sequential { steps } = &request.file.loaded.workflow.body else {
        return Err(CliError::new(
            Exit::Invalid,
            "this version runs sequential workflows only, and this file is a MapReduce workflow",
        )
        .with_hint("`prodigy validate` checks both kinds"));
    };
    let steps = u32::try_from(steps.len()).unwrap_or(u32::MAX);
    let home = context::prepared_home(args)?;
    let head = request.repo.head().map_err(context::git_error)?;
    let (rounds, job) = (request.rounds(), job_id(&request)?);
    let Request { name, file, repo, parameters, inputs, profile, yes, .. } = request;
    let started = JobStarted {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        workflow_file: name,
        workflow_hash: file.hash(),
        workflow_name: file.loaded.workflow.name.clone(),
        repository: repo.root().to_string_lossy().into_owned(),
        target_branch: head.branch,
        base_commit: head.commit,
        steps,
        inputs,
        rounds,
        parameters,
        profile,
        yes,
    };
    let dirty = repo.uncommitted().map_err(context::git_error)?;
    if dirty > 0 {
        let (changes, are) = if dirty == 1 { ("change", "is") } else { ("changes", "are") };
        out.note(format_args!(
            "note: {dirty} uncommitted {changes} in your checkout {are} not part of this run"
        ));
    }
    for warning in repo.warnings() {
        out.note(format_args!("note: {warning}"));
    }
    let beginning = Beginning { job: job.clone(), started, texts: file.texts() };
    let world = setup::World { home, repo, yes, profile: beginning.started.profile.clone() };
    setup::go(args, world, file, out, |settings| run::start(settings, beginning), &job)
}

/// Returns the id of the new job.
fn job_id(request: &Request) -> Result<JobId, CliError> {
    if let Some(job) = &request.job {
        return Ok(job.clone());
    }
    run::new_job_id("workflow").map_err(|error| {
        CliError::new(Exit::Failure, "no id could be made for the job").because(error)
    })
}

/// Returns the values of `--args` and `--map`.
fn inputs(command: &RunArgs, repo: &Repo) -> Result<Vec<String>, CliError> {
    let mut inputs = command.args.clone();
    for pattern in &command.map {
        let found = matches(pattern, repo)?;
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
pub(super) fn matches(pattern: &str, repo: &Repo) -> Result<Vec<String>, CliError> {
    let glob = glob::Pattern::new(pattern).map_err(|error| {
        CliError::new(Exit::Usage, format!("`{pattern}` is not a pattern")).because(error)
    })?;
    let options = glob::MatchOptions { require_literal_separator: true, ..Default::default() };
    let mut found = Vec::new();
    let mut waiting = vec![PathBuf::new()];
    while let Some(directory) = waiting.pop() {
        let cannot = |error: std::io::Error| {
            let message = format!("cannot look for `{pattern}` in `{}`", directory.display());
            CliError::new(Exit::Failure, message).because(error)
        };
        for entry in fs::read_dir(repo.root().join(&directory)).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            let path = directory.join(entry.file_name());
            if entry.file_type().map_err(cannot)?.is_dir() {
                waiting.extend((entry.file_name() != ".git").then_some(path));
                continue;
            }
            let shown = path.to_string_lossy();
            if !glob.matches_with(&shown, options) || !entry.path().is_file() {
                continue;
            }
            let Some(name) = path.to_str() else {
                let message = format!("the name of the file `{shown}` is not UTF-8");
                return Err(CliError::new(Exit::Usage, message)
                    .with_hint("rename it, or use a pattern that does not match it"));
            };
            found.push(name.to_owned());
        }
    }
    found.sort();
    Ok(found)
}
