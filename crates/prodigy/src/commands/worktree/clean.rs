//! `prodigy worktree clean`.

use std::{
    fs,
    io::{self, BufRead as _, IsTerminal as _},
};

use prodigy_core::{ids::JobId, job::JobStatus};
use prodigy_engine::{
    git::Repo,
    store::{self, JobLock, Layout},
};

use super::{
    inventory::{WorktreeKind, WorktreeView, list_worktrees},
    list::{location, unmerged_work},
};
use crate::{
    cli::Cli,
    commands::context::{self, git_error, store_error},
    error::CliError,
    exit::Exit,
    render::console::Console,
};

/// Remove the worktrees of jobs that are finished
///
/// A worktree is kept, and named, if its job is not finished or if it holds work that
/// is nowhere else: commits that are on no other branch, or files that are not
/// committed. Commits are never dropped, not even with `--force`: their branch stays.
/// The worktrees, branches and records of a job's items are treated in the same way.
/// A job that is running is never touched.
#[derive(clap::Args, Debug)]
pub(crate) struct WorktreeCleanArgs {
    /// The job whose worktrees to remove [default: all jobs of this repository]
    job: Option<JobId>,

    /// Say what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,

    /// Also remove worktrees of jobs that can be resumed, and files that are not committed
    #[arg(long)]
    force: bool,

    /// Do not ask before files that are not committed are removed
    #[arg(short, long)]
    yes: bool,
}

/// The decision over a worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CleanDecision {
    /// Nothing is lost.
    Remove,
    /// Something is lost, or harder to get at; `--force` is needed.
    Force(String),
    /// It is not to be touched.
    Keep(String),
}

pub(super) fn run(
    args: &Cli,
    command: &WorktreeCleanArgs,
    out: &mut Console,
) -> Result<Exit, CliError> {
    let home = context::resolve_home(args)?;
    let repo = context::repo(None)?;
    let layout = context::layout(&home, &repo)?;
    let left = list_worktrees(&layout, &repo, command.job.as_ref())?;
    if let (Some(job), true) = (&command.job, left.is_empty()) {
        return Err(CliError::new(Exit::Usage, format!("job `{job}` has no worktree"))
            .with_hint("`prodigy worktree ls` lists what there is"));
    }
    let (mut to_remove, mut kept, mut forced) = (Vec::new(), Vec::new(), 0);
    for left in &left {
        match clean_decision(left) {
            CleanDecision::Remove => to_remove.push(left),
            CleanDecision::Force(reason) => {
                forced += 1;
                if command.force { to_remove.push(left) } else { kept.push((left, reason)) }
            }
            CleanDecision::Keep(reason) => kept.push((left, reason)),
        }
    }
    if command.force && forced > 0 && !command.yes && !command.dry_run {
        confirm(forced, out)?;
    }
    for left in to_remove {
        if command.dry_run {
            out.line(format_args!("would remove  {}", display_name(left)))?;
            continue;
        }
        match remove(&layout, &repo, left) {
            Ok(note) => {
                out.line(format_args!("removed  {}", display_name(left)))?;
                if let Some(note) = note {
                    out.note(note);
                }
            }
            Err(RemovalError::Running) => kept.push((left, "its job is running".to_owned())),
            Err(RemovalError::Failed(error)) => return Err(*error),
        }
    }
    for (left, reason) in &kept {
        out.note(format_args!("kept  {}: {reason}", display_name(left)));
    }
    if forced > 0 && !command.force {
        out.note("`--force` removes worktrees all the same; commits stay on their branches");
    }
    // Who named a job wants it gone; who did not wants whatever can go.
    Ok(if command.job.is_some() && !kept.is_empty() { Exit::Failure } else { Exit::Success })
}

/// Decides what is to become of a worktree.
fn clean_decision(left: &WorktreeView) -> CleanDecision {
    let is_lossless = left.unmerged_commits == 0 && left.uncommitted_files == Some(0);
    let resumable = left.status.filter(|status| status.is_resumable());
    let resumable = resumable.map(|status| format!("its job is {status} and can be resumed"));
    match (left.kind, resumable) {
        _ if left.status == Some(JobStatus::Running) => {
            CleanDecision::Keep("its job is running".to_owned())
        }
        (WorktreeKind::Trash | WorktreeKind::Snapshot, _) => CleanDecision::Remove,
        // Its branch is all that such a job has left, and records take no room.
        (WorktreeKind::Branch | WorktreeKind::Records, Some(reason)) => CleanDecision::Keep(reason),
        (WorktreeKind::Branch, None) if !is_lossless => {
            let branch = left.branch.as_deref().unwrap_or_default();
            CleanDecision::Keep(format!(
                "{}; `git branch -D {branch}` drops it",
                unmerged_work(left)
            ))
        }
        (WorktreeKind::Records, None) if !is_lossless => {
            let first = left.references.first().map(String::as_str).unwrap_or_default();
            CleanDecision::Keep(format!(
                "{}; `git update-ref -d {first}` drops one",
                unmerged_work(left)
            ))
        }
        (WorktreeKind::Records, None) => {
            CleanDecision::Force("nothing else has what they hold".to_owned())
        }
        (WorktreeKind::Worktree | WorktreeKind::Other, Some(reason)) => {
            CleanDecision::Force(reason)
        }
        (WorktreeKind::Worktree | WorktreeKind::Other | WorktreeKind::Branch, None)
            if is_lossless =>
        {
            CleanDecision::Remove
        }
        (WorktreeKind::Worktree | WorktreeKind::Other | WorktreeKind::Branch, None) => {
            CleanDecision::Force(unmerged_work(left))
        }
    }
}

/// The reason that a worktree was not removed.
enum RemovalError {
    Running,
    Failed(Box<CliError>),
}

/// Removes a worktree, and returns what there is to say about it.
fn remove(
    layout: &Layout,
    repo: &Repo,
    left: &WorktreeView,
) -> Result<Option<String>, RemovalError> {
    let failed = |error: CliError| RemovalError::Failed(Box::new(error));
    // Held until the end, so that the job is not resumed while its files go.
    let _lock = if layout.state_dir(&left.job).is_dir() {
        match JobLock::take(layout, &left.job) {
            Ok(lock) => Some(lock),
            Err(store::Error::Locked { .. }) => return Err(RemovalError::Running),
            Err(error) => return Err(failed(store_error(error))),
        }
    } else {
        None
    };
    let directory = layout.worktrees_dir(&left.job);
    let path = left.path.clone().unwrap_or_default();
    let branch = left.branch.clone().unwrap_or_default();
    // A job that can be resumed starts again from its branch.
    let keep_branch = left.status.is_some_and(JobStatus::is_resumable);
    let mut named = None;
    match left.kind {
        WorktreeKind::Worktree => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let reference = format!("refs/prodigy/{}/failed/{name}", left.job);
            let loose = repo.preserve_unreachable(&path, &reference);
            named = loose.map_err(|error| failed(git_error(error)))?;
            repo.remove_job_worktree(&path, &branch, keep_branch)
        }
        WorktreeKind::Branch => repo.remove_job_branch(&branch),
        WorktreeKind::Records | WorktreeKind::Snapshot => {
            repo.delete_job_references(&left.references)
        }
        // Git may still have it on its list.
        WorktreeKind::Trash if !path.exists() => repo.remove_job_worktree(&path, "", true),
        WorktreeKind::Trash | WorktreeKind::Other => {
            let message = format!("cannot remove `{}`", path.display());
            let error = |error| failed(CliError::new(Exit::Failure, message).with_source(error));
            fs::remove_dir_all(&path).map_err(error)?;
            Ok(())
        }
    }
    .map_err(|error| failed(git_error(error)))?;
    // It goes with the last worktree; what else is in it keeps it.
    fs::remove_dir(&directory).ok();
    let is_left = !branch.is_empty()
        && repo.branch_tip(&branch).map_err(|error| failed(git_error(error)))?.is_some();
    let is_left = is_left.then(|| format!("the branch `{branch}` stays"));
    Ok(named.map(|name| format!("its commits are kept as `{name}`")).or(is_left))
}

/// Asks whether work may be lost.
fn confirm(count: usize, out: &mut Console) -> Result<(), CliError> {
    let what = if count == 1 { "1 worktree" } else { &format!("{count} worktrees") };
    let what = format!("{what} with work in it, or of a job that can be resumed");
    if !io::stdin().is_terminal() {
        return Err(CliError::new(Exit::Usage, format!("this would remove {what}"))
            .with_hint("pass `-y` to remove without asking, or `--dry-run` to look first"));
    }
    out.note(format_args!("This removes {what}. Go on? [y/N]"));
    let mut answer = String::new();
    // No answer is no.
    io::stdin().lock().read_line(&mut answer).ok();
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        return Ok(());
    }
    Err(CliError::new(Exit::Failure, "nothing was removed"))
}

/// Names a worktree or branch.
fn display_name(left: &WorktreeView) -> String {
    match &left.path {
        Some(path) => path.display().to_string(),
        None => location(left),
    }
}
