//! `prodigy resume`.

use std::path::{Path, PathBuf};

use prodigy_core::{
    audit::IdentityKind,
    event::{JobMode, JobStarted, OptionChanges, RenamedSteps, WorkflowChange},
    ids::JobId,
    workflow::Workflow,
};
use prodigy_engine::{
    git::Repo,
    process::ProcessOrigin,
    run::{self, JobResume, MergeHistory, ReplayRequest, ReplayScope, WorkflowReplacement},
    store::JobLock,
};

use super::{ItemArgs, items_required_error, run::StepCounts};
use crate::{
    cli::Cli,
    commands::{
        context,
        dlq::{load_active_policy, queue_error},
        lookup::{find_job, job_error, job_host, repository, resumable::latest_resumable_job},
        prepare::{self, merge_target, workflow_file},
        workflow::exit_rules::ExitRules,
    },
    error::CliError,
    exit::Exit,
    input,
    render::console::Console,
};

/// Resume an interrupted job
///
/// Finished steps and items are kept. A step that was cut off is run again from the
/// state of the worktree in which it began, an item from the beginning. Items in the dead letter
/// queue are tried again where their reasons allow it. The workflow is the one that the job began with.
/// A job that is named is found from any directory. `prodigy resume JOB --into BRANCH` merges the
/// result into another branch than the one that the job started from. `prodigy resume JOB -v` shows
/// every event. A job that waits for a usage limit says until when; `prodigy resume JOB --now` tries
/// it at once, with one agent.
///
/// A job that is already completed is left as it is, and its exit code repeated: 0, or 1 if none of
/// its items succeeded. So a script can resume until that is all there is to do.
///
/// Exit codes: those of `prodigy run`, and 75 if another process works on the job.
#[derive(clap::Args, Debug)]
pub(crate) struct ResumeArgs {
    /// The job [default: the newest job of this repository that can be resumed]
    job: Option<JobId>,

    /// Merge the result without asking
    #[arg(short, long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", hide_possible_values = true)]
    yes: Option<bool>,

    #[command(flatten)]
    items: ItemArgs,

    #[command(flatten)]
    spending: super::SpendingArgs,

    /// Try a usage limit at once instead of waiting for its end
    #[arg(long)]
    now: bool,

    /// Merge into this branch instead, which is made if it is not there
    #[arg(long, value_name = "BRANCH")]
    into: Option<String>,

    /// Leave the items in the dead letter queue alone
    #[arg(long)]
    no_dlq: bool,

    /// Use the workflow file as it is now instead of as it was
    #[arg(long)]
    use_current_workflow: bool,

    /// Work on the repository in this directory [default: that of the job, or the current one]
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,

    /// Take over the jobs of this repository if it was moved, without asking
    #[arg(long)]
    relocate: bool,

    /// Work on the job here although another machine or home worked on it last, without asking
    #[arg(long)]
    here: bool,

    /// Write a JUnit report to this file at the end
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// Show every event as it happens, and the end of what failed steps printed
    #[arg(short, long)]
    verbose: bool,
}

pub(crate) fn run(args: &Cli, command: &ResumeArgs, out: &mut Console) -> Result<Exit, CliError> {
    if let Ok(here) = context::repo(command.path.as_deref()) {
        let home = context::resolve_home(args)?;
        repository::take_over(&home, &here, command.job.as_ref(), command.relocate, out)?;
    }
    let repo = repo_of(args, command)?;
    prepare::require_trust(&repo)?;
    let home = context::ensure_home(args)?;
    let layout = context::layout(&home, &repo)?;
    let job = match &command.job {
        Some(job) => context::require_job(&layout, job)?,
        None => latest_resumable_job(&layout, &repo, command.into.is_some(), out)?,
    };
    if let Some(branch) = &command.into {
        merge_target::check_name(&repo, branch)?;
    }
    job_host::confirm_takeover(&layout, &job, command.here, &format!("prodigy resume {job}"), out)?;
    let lock = JobLock::take(&layout, &job).map_err(|error| job_error(&job, error))?;
    let stored = workflow_file::load_stored(&layout.state_dir(&job))?;
    let started = context::job_started(&layout, &job)?;
    let given = command.items.changes(command.spending, started.mode)?;
    let given = OptionChanges { yes: command.yes, ..given };
    if command.no_dlq && started.mode == JobMode::Sequential {
        return Err(items_required_error("--no-dlq"));
    }
    let file =
        workflow_to_resume(command.use_current_workflow, &stored, &started.workflow_file, out)?;
    let changed = changed_workflow(&file, &stored, &started);
    let junit = command.junit.clone();
    let is_automation = ProcessOrigin::of_process().is_automation;
    let replay = if command.no_dlq || started.mode == JobMode::Sequential {
        None
    } else if is_automation {
        out.note("note: the dead letters are left alone: a step of a job does not replay");
        None
    } else {
        let target = MergeHistory::read(&layout, &job).map_err(queue_error)?.target;
        let target = command.into.clone().or(target);
        let policy = load_active_policy(&repo, &layout, target, out)?;
        Some(ReplayRequest {
            which: ReplayScope::Unasked,
            rerun_reduce: false,
            by: context::actor(&repo),
            identity: IdentityKind::Asserted,
            reason: Some("the job was resumed".to_owned()),
            velocity: policy.policy.velocity.clone(),
            policy,
        })
    };
    let into = command.into.clone();
    let resumption =
        JobResume { job: job.clone(), lock, changed, replay, given, into, try_now: command.now };
    let (profile, max_parallel) = (started.profile, given.max_parallel);
    let exit = ExitRules { fail_on_dlq: given.fail_on_dlq, retry: None };
    let (rehearsal, verbose) = (None, command.verbose);
    let world =
        prepare::RunSetup { home, repo, profile, max_parallel, junit, rehearsal, exit, verbose };
    prepare::run_to_end(args, world, file, out, |settings| run::resume(settings, resumption), &job)
}

/// Returns the repository of the job.
///
/// A job that is named is found from anywhere, so that the command which a run
/// printed works wherever it is typed.
fn repo_of(args: &Cli, command: &ResumeArgs) -> Result<Repo, CliError> {
    let here = context::repo(command.path.as_deref());
    let (Some(job), None) = (&command.job, &command.path) else { return here };
    let home = context::resolve_home(args)?;
    if let Ok(repo) = &here
        && context::layout(&home, repo)?.events_dir(job).is_dir()
    {
        return here;
    }
    let (layout, job) = find_job(args, job)?;
    repository::repo_of_job(&layout, &job)
}

/// Returns what a workflow changes that takes the place of the one a job began with.
pub(crate) fn changed_workflow(
    file: &workflow_file::WorkflowFile,
    stored: &workflow_file::WorkflowFile,
    started: &JobStarted,
) -> Option<WorkflowReplacement> {
    let hash = file.hash();
    let is_changed = hash != started.workflow_hash;
    is_changed.then(|| {
        let StepCounts { mode, steps, setup, reduce } = StepCounts::of(&file.loaded.workflow);
        let workflow = WorkflowChange {
            hash,
            mode,
            steps,
            setup_steps: setup,
            reduce_steps: reduce,
            done: None,
            renamed: RenamedSteps::default(),
            same_steps: false,
        };
        WorkflowReplacement {
            workflow,
            texts: file.texts(),
            recorded: recorded_workflow(stored, started),
        }
    })
}

/// Returns the workflow that a job ran with so far, unless another one was stored since.
pub(crate) fn recorded_workflow(
    stored: &workflow_file::WorkflowFile,
    started: &JobStarted,
) -> Option<Workflow> {
    (stored.hash() == started.workflow_hash).then(|| stored.loaded.workflow.clone())
}

/// Returns the workflow to go on with, and says so when the file has changed.
pub(crate) fn workflow_to_resume(
    use_current_workflow: bool,
    stored: &workflow_file::WorkflowFile,
    given: &str,
    out: &mut Console,
) -> Result<workflow_file::WorkflowFile, CliError> {
    let path = workflow_path(stored, given);
    if use_current_workflow {
        let path = path.ok_or_else(|| {
            let message =
                format!("the workflow of this job stands in no file: it is from `{given}`");
            CliError::new(Exit::Usage, message).with_hint("leave out `--use-current-workflow`")
        })?;
        return workflow_file::load(&path, out);
    }
    let now = path.and_then(|path| input::read(&path).ok());
    if now.is_some_and(|text| text != stored.text) {
        out.note(format_args!(
            "note: `{given}` has changed since the job began; the stored one is used (`--use-current-workflow` takes the new one)"
        ));
    }
    Ok(stored.clone())
}

/// Returns the hash of the workflow file as it is now, if it can be used.
pub(crate) fn current_workflow_hash(
    stored: &workflow_file::WorkflowFile,
    given: &str,
) -> Option<String> {
    let (parsed, text) = workflow_file::parse(&workflow_path(stored, given)?).ok()?;
    let directory = stored.directory.clone();
    Some(workflow_file::WorkflowFile { loaded: parsed.ok()?, text, directory }.hash())
}

/// Returns where the workflow file is, from wherever the job is taken up.
///
/// The path was typed in some directory that nobody remembers, but the directory of
/// the file is kept with the job. A workflow that stands in no file has none.
fn workflow_path(stored: &workflow_file::WorkflowFile, given: &str) -> Option<PathBuf> {
    let name = Path::new(given).file_name()?;
    stored.directory.is_absolute().then(|| stored.directory.join(name))
}
