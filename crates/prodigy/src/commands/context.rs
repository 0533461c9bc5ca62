//! Which home, which repository, which job: what most commands ask first.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use prodigy_core::{
    event::{Event, JobStarted},
    ids::JobId,
};
use prodigy_engine::{
    git::{self, Repo},
    identity,
    store::{self, JournalReader, Layout},
};

use super::lookup::{job_error, refuse_unbegun};
use crate::{
    cli::Cli,
    error::{CliError, error_chain},
    exit::Exit,
    render::console::one_line,
};

pub(crate) use super::lookup::repository::layout;

/// The hint for a home that cannot be used.
const OTHER_HOME: &str = "set `PRODIGY_HOME` or pass `--home DIR` to use another one";

/// Returns the directory that holds all state.
pub(crate) fn resolve_home(args: &Cli) -> Result<PathBuf, CliError> {
    if let Some(home) = &args.home {
        return std::path::absolute(home).map_err(|error| {
            CliError::new(Exit::Usage, "the home cannot be made absolute").with_source(error)
        });
    }
    let user = std::env::var_os("HOME").filter(|home| !home.is_empty());
    user.map(|home| PathBuf::from(home).join(".prodigy")).ok_or_else(|| {
        CliError::new(Exit::Usage, "there is no place for state: `HOME` is not set")
            .with_hint("set `PRODIGY_HOME` or pass `--home DIR`")
    })
}

/// Returns how prodigy is called so that it uses the same home again.
pub(crate) fn self_command(args: &Cli) -> String {
    let variable = std::env::var_os("PRODIGY_HOME").map(PathBuf::from);
    match &args.home {
        Some(home) if args.home != variable => format!("prodigy --home {}", shell_quote(home)),
        Some(_) | None => "prodigy".to_owned(),
    }
}

/// Returns who calls, as far as the system says; nobody has proved it.
fn user() -> String {
    let name = ["USER", "LOGNAME"].into_iter().find_map(|name| {
        std::env::var(name).ok().map(|name| one_line(name.trim())).filter(|name| !name.is_empty())
    });
    name.unwrap_or_else(|| format!("user {}", rustix::process::geteuid().as_raw()))
}

/// Returns who calls, as git says, or else the system; nobody has proved it.
pub(crate) fn actor(repo: &Repo) -> String {
    identity::asserted_identity(repo, &user())
}

/// Returns a path as a shell takes it.
pub(crate) fn shell_quote(path: &Path) -> String {
    let path = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+@".contains(c);
    if !path.is_empty() && path.chars().all(plain) {
        path
    } else {
        format!("'{}'", path.replace('\'', "'\\''"))
    }
}

/// Returns the home, made and checked for writing.
pub(crate) fn ensure_home(args: &Cli) -> Result<PathBuf, CliError> {
    ensure_home_at(resolve_home(args)?)
}

/// Returns a home, made and checked for writing.
pub(crate) fn ensure_home_at(home: PathBuf) -> Result<PathBuf, CliError> {
    store::prepare_home(&home).map_err(|error| {
        let shown = store_error(error);
        match shown.hint() {
            Some(_) => shown,
            None => shown.with_hint(OTHER_HOME),
        }
    })?;
    Ok(home)
}

/// Returns the repository at a directory, or the current one.
pub(crate) fn repo(path: Option<&Path>) -> Result<Repo, CliError> {
    let path = match path {
        Some(path) => path.to_owned(),
        None => std::env::current_dir().map_err(|error| {
            CliError::new(Exit::Failure, "the current directory is gone").with_source(error)
        })?,
    };
    Repo::discover(&path).map_err(git_error)
}

/// Returns a job's first record, with where its repository is now.
pub(crate) fn job_started(layout: &Layout, job: &JobId) -> Result<JobStarted, CliError> {
    let mut records = JournalReader::open(layout, job).map_err(store_error)?;
    match records.next().transpose().map_err(store_error)?.map(|record| record.event) {
        Some(Event::JobStarted(started)) => {
            let repository = layout.current_path(&started.repository).map_err(store_error)?;
            Ok(JobStarted { repository, ..*started })
        }
        Some(_) | None => Err(CliError::new(
            Exit::Failure,
            format!("the journal of job `{job}` has no beginning"),
        )
        .with_hint(format!("`prodigy repair {job} --dry-run` looks closer"))),
    }
}

/// Returns a job of this repository that exists.
pub(crate) fn require_job(layout: &Layout, job: &JobId) -> Result<JobId, CliError> {
    if layout.events_dir(job).is_dir() {
        refuse_unbegun(layout, job)?;
        return Ok(job.clone());
    }
    store::refuse_removed(layout, job).map_err(|error| job_error(job, error))?;
    Err(CliError::new(Exit::Usage, format!("no job `{job}` in this repository"))
        .with_hint("`prodigy jobs` lists the jobs"))
}

/// Turns an error of git into one for people.
#[expect(clippy::needless_pass_by_value, reason = "this is what `map_err` hands over")]
pub(crate) fn git_error(error: git::Error) -> CliError {
    let hint = error.hint().map(Cow::into_owned);
    let misplaced = matches!(
        error,
        git::Error::NotARepository { .. } | git::Error::Bare { .. } | git::Error::NoCommits { .. }
    );
    let exit = if misplaced { Exit::Usage } else { Exit::Failure };
    let error = CliError::new(exit, error_chain(&error));
    match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

/// Turns an error of the store into one for people.
#[expect(clippy::needless_pass_by_value, reason = "this is what `map_err` hands over")]
pub(crate) fn store_error(error: store::Error) -> CliError {
    let shown = CliError::new(Exit::Failure, error_chain(&error));
    if let store::Error::OpenHome { path, .. } = &error {
        return shown.with_hint(format!("`chmod go-w {}`", path.display()));
    }
    if matches!(error, store::Error::ForeignHome { .. } | store::Error::ReadOnlyHome { .. }) {
        return shown.with_hint(OTHER_HOME);
    }
    shown
}
