//! The artifacts of jobs: directories below the home, and branches in the repository.

use std::{
    ffi::OsStr,
    fmt, fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use prodigy_core::{
    ids::JobId,
    job::{JobStatus, JobSummary},
};
use prodigy_engine::{
    git::{Repo, WorktreeInfo},
    store::{JobLock, JournalReader, Layout},
};
use serde::Serialize;

use super::references;
use crate::{
    commands::context::{git_error, store_error},
    error::CliError,
    exit::Exit,
};

/// The kind of an artifact of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WorktreeKind {
    /// A worktree.
    Worktree,
    /// A branch without a worktree.
    Branch,
    /// A worktree that was being removed.
    Trash,
    /// A directory that git does not know.
    Other,
    /// The work of failed items, or work that was set aside, under references.
    Records,
    /// The last state of a worktree that is gone, under a reference.
    Snapshot,
}

/// One worktree or branch of a job, or some references.
#[derive(Debug, Serialize)]
pub(crate) struct WorktreeView {
    /// The job.
    pub(crate) job: JobId,
    /// The status of the job; `None` if its journal is gone.
    pub(crate) status: Option<JobStatus>,
    /// The branch.
    pub(crate) branch: Option<String>,
    /// The number of commits that are on no other branch.
    pub(crate) unmerged_commits: usize,
    /// The number of uncommitted files; `None` if it was not checked.
    pub(crate) uncommitted_files: Option<usize>,
    /// The size on disk.
    pub(crate) bytes: u64,
    /// The directory; `None` if only the branch is left.
    pub(crate) path: Option<PathBuf>,
    /// The kind of the artifact.
    pub(crate) kind: WorktreeKind,
    /// The references.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) references: Vec<String>,
}

/// A number of bytes, as people read it.
pub(crate) struct ByteSize(pub(crate) u64);

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
        if self.0 < 1024 {
            return f.pad(&format!("{} B", self.0));
        }
        let (mut tenths, mut unit) = (self.0.saturating_mul(10) / 1024, UNITS[0]);
        for larger in UNITS.iter().skip(1) {
            if tenths < 10 * 1024 {
                break;
            }
            (tenths, unit) = (tenths / 1024, larger);
        }
        f.pad(&format!("{}.{} {unit}", tenths / 10, tenths % 10))
    }
}

/// Returns everything that this repository's jobs, or one of them, left behind.
pub(crate) fn list_worktrees(
    layout: &Layout,
    repo: &Repo,
    only: Option<&JobId>,
) -> Result<Vec<WorktreeView>, CliError> {
    let worktrees = repo.worktrees().map_err(git_error)?;
    let mut left = Vec::new();
    for job in job_directories(layout)? {
        if only.is_some_and(|only| *only != job) {
            continue;
        }
        let (status, directory) = (status(layout, &job)?, layout.worktrees_dir(&job));
        for path in directories(&directory)? {
            left.push(inspect_directory(repo, &worktrees, &job, status, path)?);
        }
        let real = directory.canonicalize().unwrap_or_else(|_| directory.clone());
        let gone = worktrees.iter().filter(|tree| tree.is_gone && tree.path.starts_with(&real));
        let gone = gone.filter(|tree| !tree.path.exists()).filter_map(|tree| tree.path.file_name());
        left.extend(gone.map(|name| trash_entry(&job, status, directory.join(name))));
    }
    for (job, path) in git_directories(repo)? {
        let status = status(layout, &job)?;
        if status != Some(JobStatus::Running) && only.is_none_or(|only| *only == job) {
            left.push(trash_entry(&job, status, path));
        }
    }
    for branch in repo.job_branches().map_err(git_error)? {
        let job = branch.split('/').nth(1).and_then(|job| job.parse::<JobId>().ok());
        let Some(job) = job.filter(|job| only.is_none_or(|only| only == job)) else { continue };
        // One that a worktree of the user's is on is in use.
        if worktrees.iter().any(|tree| !tree.is_gone && tree.branch.as_ref() == Some(&branch))
            || left.iter().any(|left: &WorktreeView| left.branch.as_ref() == Some(&branch))
        {
            continue;
        }
        let tip = format!("refs/heads/{branch}");
        left.push(WorktreeView {
            status: status(layout, &job)?,
            unmerged_commits: repo.count_unmerged(&[&tip]).map_err(git_error)?,
            uncommitted_files: Some(0),
            bytes: 0,
            path: None,
            kind: WorktreeKind::Branch,
            references: Vec::new(),
            branch: Some(branch),
            job,
        });
    }
    left.extend(references::list_references(layout, repo, only)?);
    Ok(left)
}

/// Looks at one directory of a job.
fn inspect_directory(
    repo: &Repo,
    worktrees: &[WorktreeInfo],
    job: &JobId,
    status: Option<JobStatus>,
    path: PathBuf,
) -> Result<WorktreeView, CliError> {
    let real = path.canonicalize().unwrap_or_else(|_| path.clone());
    let Some(worktree) = worktrees.iter().find(|worktree| worktree.path == real) else {
        let left = trash_entry(job, status, path);
        let is_trash = left.path.as_deref().and_then(Path::file_name).is_some_and(is_hidden);
        return Ok(if is_trash {
            left
        } else {
            WorktreeView { kind: WorktreeKind::Other, uncommitted_files: None, ..left }
        });
    };
    let bytes = disk_usage(&real);
    // The job's worktree and those kept of items are called like their branches; the slots
    // of agents are on the branch of an item, or detached.
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let own = format!("refs/heads/prodigy/{job}/{name}");
    // A branch that was deleted under a worktree leaves it without a commit.
    let is_born = worktree.head.chars().any(|digit| digit != '0');
    let mut tips: Vec<&str> = is_born.then_some(worktree.head.as_str()).into_iter().collect();
    // An agent may have checked out something else; what is on the branch counts too.
    if worktree.branch.is_none() && repo.resolve_commit(&own).is_ok() {
        tips.push(&own);
    }
    let branch = worktree.branch.clone().unwrap_or_else(|| format!("prodigy/{job}/{name}"));
    // A step of a running job may be writing at this moment, and may have told git to
    // run a program of its own.
    let tree = match status {
        Some(JobStatus::Running) => None,
        Some(_) | None => repo.find_job_worktree(&real, &branch).map_err(git_error)?,
    };
    let uncommitted = tree.map(|tree| tree.uncommitted_paths()).transpose().map_err(git_error)?;
    Ok(WorktreeView {
        job: job.clone(),
        status,
        unmerged_commits: repo.count_unmerged(&tips).map_err(git_error)?,
        uncommitted_files: uncommitted.map(|files| files.len()),
        bytes,
        path: Some(path),
        kind: WorktreeKind::Worktree,
        references: Vec::new(),
        branch: Some(branch),
    })
}

/// Makes the entry of something that a killed process was removing.
fn trash_entry(job: &JobId, status: Option<JobStatus>, path: PathBuf) -> WorktreeView {
    WorktreeView {
        job: job.clone(),
        status,
        branch: None,
        unmerged_commits: 0,
        uncommitted_files: Some(0),
        bytes: disk_usage(&path),
        path: Some(path),
        kind: WorktreeKind::Trash,
        references: Vec::new(),
    }
}

/// Returns the git directories that mergers of jobs made in the repository, with their jobs.
///
/// One of a job that runs is in use.
fn git_directories(repo: &Repo) -> Result<Vec<(JobId, PathBuf)>, CliError> {
    let mut found = Vec::new();
    for path in directories(repo.common_dir())? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let branch = name.strip_prefix("prodigy-").and_then(|name| name.rsplit_once("-job~"));
        if let Some(job) = branch.and_then(|(job, _)| job.parse().ok()) {
            found.push((job, path));
        }
    }
    Ok(found)
}

/// Returns how a job is; `None` if its journal is gone.
pub(crate) fn status(layout: &Layout, job: &JobId) -> Result<Option<JobStatus>, CliError> {
    let is_held = JobLock::holder(layout, job).map_err(store_error)?.is_some();
    if is_held {
        return Ok(Some(JobStatus::Running));
    }
    if !layout.events_dir(job).is_dir() {
        return Ok(None);
    }
    let mut summary = JobSummary::default();
    // A journal that cannot be read to its end leaves the job resumable, so it is kept.
    if let Ok(records) = JournalReader::open(layout, job) {
        records.flatten().for_each(|record| summary.apply(&record));
    }
    Ok(Some(summary.status(false)))
}

/// Returns the jobs that have directories below the home.
fn job_directories(layout: &Layout) -> Result<Vec<JobId>, CliError> {
    let all = layout.home().join("worktrees").join(layout.repo().as_str());
    let name = |path: PathBuf| path.file_name()?.to_str()?.parse().ok();
    Ok(directories(&all)?.into_iter().filter_map(name).collect())
}

/// Returns the directories in a directory that need not exist, sorted.
///
/// Hidden directories are omitted, unless a killed process left them: worktrees that were being
/// removed, and git directories of worktrees that are gone.
fn directories(path: &Path) -> Result<Vec<PathBuf>, CliError> {
    if !path.is_dir() {
        return Ok(Vec::new());
    }
    let failed = |error| {
        CliError::new(Exit::Failure, format!("cannot read `{}`", path.display())).with_source(error)
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let is_of_worktree = || slot_of(&name).is_none_or(|slot| path.join(slot).exists());
        if is_hidden(&name) && !is_trash(&name) && is_of_worktree() {
            continue;
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Returns whether a name is one that a worktree gets while it is being removed.
fn is_trash(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".trash-")
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

/// Returns the worktree that a directory such as `.agent-1.git` belongs to.
fn slot_of(name: &OsStr) -> Option<&str> {
    name.to_str()?.strip_prefix('.')?.strip_suffix(".git")
}

/// Returns what a directory takes on disk; what cannot be read counts as nothing.
pub(crate) fn disk_usage(path: &Path) -> u64 {
    let mut total = 0;
    let mut waiting = vec![path.to_owned()];
    while let Some(path) = waiting.pop() {
        let Ok(metadata) = path.symlink_metadata() else { continue };
        total += metadata.blocks() * 512;
        if metadata.is_dir() {
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            waiting.extend(entries.map(|entry| entry.path()));
        }
    }
    total
}
