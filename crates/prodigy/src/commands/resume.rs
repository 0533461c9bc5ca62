//! `prodigy resume`.

use std::path::{Path, PathBuf};

use prodigy_core::{event::ChangedWorkflow, ids::JobId, workflow::Body};
use prodigy_engine::{
    git::Repo,
    run::{self, Resumption},
    store::JobLock,
};

use super::{
    context,
    lookup::{find_job, job_error},
    setup,
};
use crate::{cli::Args, error::CliError, exit::Exit, input, output::Output, workflow_file};

/// Take up a job that stopped before its end
///
/// Finished steps are kept. A step that was cut off is run again from the state of
/// the worktree in which it began. The workflow is the one that the job began with.
/// A job that is named is found from any directory.
///
/// Exit codes: those of `prodigy run`, and 75 if another process works on the job.
#[derive(clap::Args, Debug)]
pub(crate) struct ResumeArgs {
    /// The job [default: the newest job of this repository that can be resumed]
    job: Option<JobId>,

    /// Merge the result without asking
    #[arg(short, long)]
    yes: bool,

    /// Use the workflow file as it is now instead of as it was
    #[arg(long)]
    use_current_workflow: bool,

    /// Work on the repository in this directory [default: that of the job, or the current one]
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
}

pub(super) fn run(args: &Args, command: &ResumeArgs, out: &mut Output) -> Result<Exit, CliError> {
    let repo = repo_of(args, command)?;
    let home = context::prepared_home(args)?;
    let layout = context::layout(&home, &repo)?;
    let job = match &command.job {
        Some(job) => context::existing(&layout, job)?,
        None => context::newest_resumable(&layout)?,
    };
    let lock = JobLock::take(&layout, &job).map_err(|error| job_error(&job, error))?;
    let stored = workflow_file::stored(&layout.state_dir(&job))?;
    let started = context::started(&layout, &job)?;
    let file = current(command, &stored, &started.workflow_file, out)?;
    setup::refuse_unsupported(&file)?;
    let changed = (file.hash() != started.workflow_hash).then(|| {
        let steps = steps(&file.loaded.workflow.body);
        (ChangedWorkflow { hash: file.hash(), steps }, file.texts())
    });
    let yes = command.yes || started.yes;
    let world = setup::World { home, repo, yes, profile: started.profile };
    let resumption = Resumption { job: job.clone(), lock, changed };
    setup::go(args, world, file, out, |settings| run::resume(settings, resumption), &job)
}

/// Returns the repository of the job.
///
/// A job that is named is found from anywhere, so that the command which a run
/// printed works wherever it is typed.
fn repo_of(args: &Args, command: &ResumeArgs) -> Result<Repo, CliError> {
    let here = context::repo(command.path.as_deref());
    let (Some(job), None) = (&command.job, &command.path) else { return here };
    let home = context::home(args)?;
    if let Ok(repo) = &here
        && context::layout(&home, repo)?.events_dir(job).is_dir()
    {
        return here;
    }
    let (layout, job) = find_job(args, job)?;
    let started = context::started(&layout, &job)?;
    context::repo(Some(Path::new(&started.repository)))
}

/// Returns the workflow to go on with, and says so when the file has changed.
fn current(
    command: &ResumeArgs,
    stored: &workflow_file::File,
    path: &str,
    out: &mut Output,
) -> Result<workflow_file::File, CliError> {
    let path = PathBuf::from(path);
    if command.use_current_workflow {
        return workflow_file::load(&path, out);
    }
    let now = input::read(&path);
    if now.is_ok_and(|text| text != stored.text) {
        out.note(format_args!(
            "note: `{}` has changed since the job began; the stored one is used (`--use-current-workflow` takes the new one)",
            path.display()
        ));
    }
    Ok(stored.clone())
}

/// Returns how many steps one round has.
fn steps(body: &Body) -> u32 {
    match body {
        Body::Sequential { steps } => u32::try_from(steps.len()).unwrap_or(u32::MAX),
        Body::MapReduce(_) => 0,
    }
}
