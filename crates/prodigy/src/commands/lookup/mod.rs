//! Finding a job by its id, and telling what is wrong with it.

pub(crate) mod job_host;
pub(crate) mod repository;
pub(crate) mod resumable;

use std::path::Path;

use prodigy_core::{
    ids::JobId,
    job::{JobStatus, JobSummary},
};
use prodigy_engine::{
    git::Repo,
    store::{self, JobLock, JournalReader, Layout},
};

use super::context;
use crate::{cli::Cli, error::CliError, exit::Exit};

/// Returns the layout of the repository that the current directory is in, if it is in one.
pub(crate) fn current_layout(home: &Path) -> Result<Option<Layout>, CliError> {
    let repo = std::env::current_dir().ok().and_then(|path| Repo::discover(&path).ok());
    repo.map(|repo| context::layout(home, &repo)).transpose()
}

/// Returns the layouts to look for jobs in: that of this repository, or else all.
pub(crate) fn visible_layouts(args: &Cli) -> Result<Vec<Layout>, CliError> {
    let home = context::resolve_home(args)?;
    match current_layout(&home)? {
        Some(layout) => Ok(vec![layout]),
        None => all_layouts(&home),
    }
}

/// Returns the layouts of all repositories that have jobs.
pub(crate) fn all_layouts(home: &Path) -> Result<Vec<Layout>, CliError> {
    let repos = Layout::repos(home).map_err(context::store_error)?;
    Ok(repos.into_iter().map(|repo| Layout::new(home.to_owned(), repo)).collect())
}

/// Finds a job by its id: in this repository, or else in any.
pub(crate) fn find_job(args: &Cli, job: &JobId) -> Result<(Layout, JobId), CliError> {
    let home = context::resolve_home(args)?;
    let mut found = Vec::new();
    for layout in all_layouts(&home)? {
        if layout.events_dir(job).is_dir() {
            found.push(layout);
        } else {
            store::refuse_removed(&layout, job).map_err(|error| job_error(job, error))?;
        }
    }
    if found.len() > 1 {
        let here = current_layout(&home)?;
        if let Some(layout) = found.iter().find(|layout| Some(*layout) == here.as_ref()) {
            return Ok((layout.clone(), job.clone()));
        }
        return Err(ambiguous_job_error(job, &found));
    }
    match found.pop() {
        Some(layout) => {
            refuse_unbegun(&layout, job)?;
            Ok((layout, job.clone()))
        }
        None => Err(job_error(job, store::Error::NoJob { job: job.clone() })),
    }
}

/// Refuses an id that jobs of several repositories have.
pub(crate) fn ambiguous_job_error(job: &JobId, found: &[Layout]) -> CliError {
    let repos: Vec<_> = found.iter().map(|layout| format!("`{}`", layout.repo())).collect();
    let message = format!("several repositories have a job `{job}`: {}", repos.join(", "));
    CliError::new(Exit::Usage, message)
        .with_hint(format!("run `prodigy jobs show {job}` inside the one you mean"))
}

/// Refuses a job that was killed before its first record: there is nothing of it to work with.
pub(crate) fn refuse_unbegun(layout: &Layout, job: &JobId) -> Result<(), CliError> {
    let failed = |error| job_error(job, error);
    store::refuse_removed(layout, job).map_err(failed)?;
    // A process that holds it is about to write the record.
    if store::has_begun(layout, job).map_err(failed)?
        || JobLock::holder(layout, job).map_err(failed)?.is_some()
    {
        return Ok(());
    }
    Err(job_error(job, store::Error::NeverBegan { job: job.clone() }))
}

/// Returns the job with this id, or the newest one if none was named.
pub(crate) fn job_or_latest(args: &Cli, job: Option<&JobId>) -> Result<(Layout, JobId), CliError> {
    match job {
        Some(job) => find_job(args, job),
        None => latest_job(args),
    }
}

/// Returns the newest job of this repository, or else of any.
pub(crate) fn latest_job(args: &Cli) -> Result<(Layout, JobId), CliError> {
    let mut newest: Option<(JobSummary, Layout, JobId)> = None;
    for layout in visible_layouts(args)? {
        let Some(job) = layout.jobs().map_err(context::store_error)?.pop() else { continue };
        let summary = first_record(&layout, &job)?;
        if newest.as_ref().is_none_or(|(other, ..)| other.started_at <= summary.started_at) {
            newest = Some((summary, layout, job));
        }
    }
    newest.map(|(_, layout, job)| (layout, job)).ok_or_else(|| {
        CliError::new(Exit::Usage, "there are no jobs yet")
            .with_hint("`prodigy run WORKFLOW` starts one")
    })
}

/// Returns a job as its first record shows it.
fn first_record(layout: &Layout, job: &JobId) -> Result<JobSummary, CliError> {
    let mut summary = JobSummary::default();
    let first = JournalReader::open(layout, job).map_err(|error| job_error(job, error))?.next();
    if let Some(Ok(record)) = first {
        summary.apply(&record);
    }
    Ok(summary)
}

/// Returns a job at a glance, whether it is held, and the error that ended the reading.
pub(crate) fn job_summary(
    layout: &Layout,
    job: &JobId,
) -> Result<(JobSummary, JobStatus, Option<store::Error>), store::Error> {
    // Asked first: a job that ends in between is then seen with its last record.
    let held = JobLock::holder(layout, job)?.is_some();
    let mut summary = JobSummary::default();
    let mut damage = None;
    for record in JournalReader::open(layout, job)? {
        match record {
            Ok(record) => summary.apply(&record),
            Err(error) => damage = Some(error),
        }
    }
    let status = summary.status(held);
    Ok((summary, status, damage))
}

/// Turns an error about a job into one for people.
pub(crate) fn job_error(job: &JobId, error: store::Error) -> CliError {
    use store::Error;
    let message = error.to_string();
    let new = |exit, hint: String| CliError::new(exit, message).with_hint(hint);
    match error {
        Error::NoJob { .. } => new(Exit::Usage, "`prodigy jobs` lists the jobs there are".into()),
        Error::NeverBegan { .. } => {
            let hint = "starts it, `prodigy jobs rm";
            new(
                Exit::Usage,
                format!("`prodigy run WORKFLOW --job-id {job}` {hint} {job}` removes it"),
            )
        }
        Error::Removed { .. } => new(
            Exit::Usage,
            "`prodigy jobs` lists the jobs; the id of a removed one is not used again".into(),
        ),
        Error::Exists { .. } => {
            new(Exit::Usage, format!("`prodigy jobs show {job}` shows the one that has the name"))
        }
        Error::Locked { .. } => {
            new(Exit::TryLater, format!("`prodigy events {job} --follow` shows what it does"))
        }
        Error::Damaged { .. } | Error::TooLong { .. } => {
            new(Exit::Failure, format!("`prodigy repair {job} --dry-run` says what can be kept"))
        }
        Error::Elsewhere { .. } => {
            let hint = "if it does not run there any more, `prodigy jobs --here` works on the jobs";
            new(Exit::Usage, format!("{hint} of this repository here"))
        }
        Error::LostEnd { .. } => {
            let way = format!("`prodigy repair {job} --accept-lost-end` goes on without it");
            let unknown = "what it changed outside counts as unknown";
            let hint = format!("put the journal back from a backup, or {way}: {unknown}");
            new(Exit::Failure, hint)
        }
        Error::NothingToKeep { .. } => {
            new(Exit::Failure, "start the job again with `prodigy run WORKFLOW`".into())
        }
        Error::Altered { .. } => new(
            Exit::Failure,
            "put the file back as it was, or start anew with `prodigy run WORKFLOW`".into(),
        ),
        Error::Future { .. } => {
            new(Exit::Failure, "`prodigy --version` is too old for this job: update it".into())
        }
        Error::Io { source, .. } | Error::ReadOnlyHome { source, .. } => {
            new(Exit::Failure, "`prodigy doctor` checks the home".into()).with_source(source)
        }
        Error::ForeignHome { .. }
        | Error::OpenHome { .. }
        | Error::NotRegular { .. }
        | Error::NotDirectory { .. }
        | Error::Encode { .. } => new(Exit::Failure, "`prodigy doctor` checks the home".into()),
    }
}
