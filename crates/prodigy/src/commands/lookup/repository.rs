//! The names of repositories below the home, and repositories that were moved or copied.

use std::{
    io::{self, BufRead as _, IsTerminal as _},
    path::{Path, PathBuf},
};

use prodigy_core::ids::{JobId, RepoName, hex};
use prodigy_engine::{
    clock,
    git::Repo,
    run,
    store::{JobLock, Layout, Relocation},
};
use sha2::{Digest as _, Sha256};

use crate::{
    commands::context::{self, git_error, store_error},
    error::{CliError, error_chain},
    exit::Exit,
    render::console::Console,
};

/// Where the jobs of a repository are.
enum LayoutLocation {
    /// Below a name that is the repository's, or free.
    Own(Layout),
    /// Below a name of which the repository was moved away.
    Moved { layout: Layout, from: PathBuf },
}

/// Returns the paths of a repository's jobs; an error if they are those of another place.
pub(crate) fn layout(home: &Path, repo: &Repo) -> Result<Layout, CliError> {
    match locate(home, repo)? {
        LayoutLocation::Own(layout) => Ok(layout),
        LayoutLocation::Moved { from, .. } => Err(moved_repo_error(repo, &from)),
    }
}

/// Returns the repository of a job, wherever it is called from.
///
/// Refuses what is in the place of a repository that was moved away.
pub(crate) fn repo_of_job(layout: &Layout, job: &JobId) -> Result<Repo, CliError> {
    let path = match context::job_started(layout, job) {
        Ok(started) => Some(started.repository),
        // A journal that lost its beginning does not name it.
        Err(_) => layout.owner().map_err(store_error)?,
    };
    let Some(path) = path.map(PathBuf::from) else { return context::repo(None) };
    let repo = context::repo(Some(&path))?;
    let (known, id) = (layout.owner_id().map_err(store_error)?, repo.id().map_err(git_error)?);
    // Repositories of older programs have no id: the path decides.
    let is_its_own = match (known, id) {
        (Some(known), Some(id)) => known == id,
        (_, _) => repo.root() == path,
    };
    if is_its_own {
        return Ok(repo);
    }
    let path = path.display();
    let message = format!("the repository of job `{job}` is not at `{path}` any more");
    let hint = "`prodigy jobs --relocate`, typed in the place it was moved to, takes its jobs over";
    Err(CliError::new(Exit::Usage, message).with_hint(hint))
}

/// Takes over the jobs of a repository that was moved, after a yes; does nothing for others.
///
/// With `job` only if that is one of them.
pub(crate) fn take_over(
    home: &Path,
    repo: &Repo,
    job: Option<&JobId>,
    relocate: bool,
    out: &mut Console,
) -> Result<(), CliError> {
    let LayoutLocation::Moved { layout, from } = locate(home, repo)? else { return Ok(()) };
    if job.is_some_and(|job| !layout.events_dir(job).is_dir()) {
        return Ok(());
    }
    let jobs = layout.jobs().map_err(store_error)?;
    for job in &jobs {
        if JobLock::holder(&layout, job).map_err(store_error)?.is_some() {
            let message = format!(
                "job `{job}` of this repository is running; it was begun in `{}`",
                from.display()
            );
            return Err(CliError::new(Exit::TryLater, message)
                .with_hint(format!("`prodigy stop {job}` stops it")));
        }
    }
    if !relocate {
        if !io::stdin().is_terminal() {
            return Err(moved_repo_error(repo, &from));
        }
        let (from, to) = (from.display(), repo.root().display());
        out.note(format_args!(
            "This repository was moved from `{from}` to `{to}`. Take over its jobs? [y/N]"
        ));
        let mut answer = String::new();
        // No answer is no.
        io::stdin().lock().read_line(&mut answer).ok();
        if !matches!(answer.trim(), "y" | "Y" | "yes") {
            return Err(CliError::new(Exit::Failure, "the jobs were not taken over"));
        }
    }
    let relocation = Relocation {
        from: from.to_string_lossy().into_owned(),
        to: repo.root().to_string_lossy().into_owned(),
        at: clock::now(),
    };
    // A guard that was moved already is left as it is, should this be done again.
    for job in &jobs {
        let moved = run::relocate_guard(&layout, job, &from, repo.root());
        moved.map_err(|error| CliError::new(Exit::Failure, error_chain(&error)))?;
    }
    layout.relocate(&relocation).map_err(store_error)?;
    for job in &jobs {
        let entries = std::fs::read_dir(layout.worktrees_dir(job)).into_iter().flatten().flatten();
        let worktrees =
            entries.map(|entry| entry.path()).filter(|path| path.join(".git").is_file());
        for path in worktrees {
            repo.relink_worktree(&path).map_err(git_error)?;
        }
    }
    out.note(format_args!(
        "this repository was moved from `{}`; its jobs go on here",
        relocation.from
    ));
    Ok(())
}

/// Records that a name is a repository's, and gives the repository an id.
///
/// A copy, which has the id of another repository, gets one of its own.
pub(crate) fn claim_repo_name(
    layout: &Layout,
    repo: &Repo,
    out: &mut Console,
) -> Result<(), CliError> {
    let (known, id) = (layout.owner_id().map_err(store_error)?, repo.id().map_err(git_error)?);
    if known.is_some() && known == id {
        return Ok(());
    }
    let id = match (known, id) {
        (Some(known), _) => repo.set_id(Some(&known)).map_err(git_error)?,
        (None, Some(id)) => match name_by_id(layout.home(), &id)? {
            Some(other) if other != *layout => {
                let owner = other.owner().map_err(store_error)?.unwrap_or_default();
                out.note(format_args!(
                    "this repository is a copy of `{owner}`; it has an id of its own now"
                ));
                repo.set_id(None).map_err(git_error)?
            }
            Some(_) | None => id,
        },
        (None, None) => repo.set_id(None).map_err(git_error)?,
    };
    layout.claim(&repo.root().to_string_lossy(), &id).map_err(store_error)
}

/// Finds the name of a repository: by its path, or else by its id.
///
/// Repositories are told apart by the name of their directory. A second one of the
/// same name gets a part of the hash of its path behind it; who came first is
/// written down in the first one's state.
fn locate(home: &Path, repo: &Repo) -> Result<LayoutLocation, CliError> {
    let root = repo.root().to_string_lossy().into_owned();
    let id = repo.id().map_err(git_error)?;
    let name = repo_name(&repo.name())?;
    let hash = hex(Sha256::digest(root.as_bytes()).get(..3).unwrap_or_default());
    let second = repo_name(&format!("{name}-{hash}"))?;
    let mut free = None;
    for name in [name, second.clone()] {
        let layout = Layout::new(home.to_owned(), name);
        let (owner, known) =
            (layout.owner().map_err(store_error)?, layout.owner_id().map_err(store_error)?);
        // Jobs of older programs have no id: the path decides.
        let is_other = id.is_some() && known.is_some() && id != known;
        match owner {
            Some(owner) if owner == root && !is_other => return Ok(LayoutLocation::Own(layout)),
            None if free.is_none() => free = Some(layout),
            Some(_) | None => {}
        }
    }
    if let Some(id) = &id
        && let Some(layout) = name_by_id(home, id)?
        && let Some(from) = layout.owner().map_err(store_error)?.map(PathBuf::from)
        && !is_repository_at(&from, id, repo)
    {
        // Its name stays the one that it had in its first place.
        let is_here = from == repo.root();
        return Ok(if is_here {
            LayoutLocation::Own(layout)
        } else {
            LayoutLocation::Moved { layout, from }
        });
    }
    Ok(LayoutLocation::Own(free.unwrap_or_else(|| Layout::new(home.to_owned(), second))))
}

/// Returns the name that belongs to the repository with an id.
fn name_by_id(home: &Path, id: &str) -> Result<Option<Layout>, CliError> {
    for name in Layout::repos(home).map_err(store_error)? {
        let layout = Layout::new(home.to_owned(), name);
        if layout.owner_id().map_err(store_error)?.as_deref() == Some(id) {
            return Ok(Some(layout));
        }
    }
    Ok(None)
}

/// Returns whether another repository with an id is at a path.
fn is_repository_at(path: &Path, id: &str, repo: &Repo) -> bool {
    // What is no repository holds no id.
    let found = Repo::discover(path).ok().filter(|found| found.common_dir() != repo.common_dir());
    found.is_some_and(|found| found.id().ok().flatten().as_deref() == Some(id))
}

fn moved_repo_error(repo: &Repo, from: &Path) -> CliError {
    let (from, to) = (from.display(), repo.root().display());
    let message = format!(
        "this repository was moved from `{from}` to `{to}`, and its jobs are those of the old place"
    );
    let command = "prodigy jobs --relocate";
    CliError::new(Exit::Usage, message).with_hint(format!("`{command}` takes them over"))
}

fn repo_name(name: &str) -> Result<RepoName, CliError> {
    name.parse().map_err(|error| {
        CliError::new(Exit::Failure, "the repository's directory has no usable name")
            .with_source(error)
    })
}
