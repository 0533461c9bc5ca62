//! Checks after a kill, and in the end.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::Value;

use super::workflow::{Files, OF_THE_USER, files_after, files_before};
use crate::{TestEnv, crash::check_processes};

/// Checks that every file of the checkout is whole: as it was before, as the job leaves it, or
/// the user's.
pub(crate) fn check_files(world: &TestEnv, files: u32) -> Result<(), String> {
    let (old, new) = (files_before(files), files_after(files));
    for (path, text) in checkout_files(&world.repo()) {
        let is_known = path.starts_with(OF_THE_USER)
            || ["README.md", "merge.yml", "make.sh"].contains(&path.as_str())
            || old.get(&path) == Some(&text)
            || new.get(&path) == Some(&text);
        if !is_known {
            let known = old.contains_key(&path) || new.contains_key(&path);
            let what = if known { "is neither old nor new" } else { "is nobody's" };
            return Err(format!("`{path}` {what}: {} bytes", text.len()));
        }
    }
    for path in old.keys().filter(|path| new.contains_key(*path)) {
        if !world.repo().join(path).exists() {
            return Err(format!("`{path}` is gone"));
        }
    }
    Ok(())
}

/// Checks everything that must hold once the job is done. `commits` are the files that the
/// user committed.
pub(crate) fn check_end(
    world: &TestEnv,
    job: &str,
    files: u32,
    commits: &BTreeSet<String>,
) -> Result<(), String> {
    let status = world.git(&["status", "--porcelain", "--untracked-files=all"]);
    if !status.is_empty() {
        return Err(format!("the user's checkout is not clean:\n{status}"));
    }
    let mut found = checkout_files(&world.repo());
    found.retain(|path, _| !["README.md", "merge.yml", "make.sh"].contains(&path.as_str()));
    let of_user: BTreeSet<String> =
        found.keys().filter(|path| path.starts_with(OF_THE_USER)).cloned().collect();
    found.retain(|path, _| !path.starts_with(OF_THE_USER));
    if found != files_after(files) {
        return Err("the checkout is not what the job has made".to_owned());
    }
    if of_user != *commits {
        return Err(format!("of the user's files {commits:?} there are {of_user:?}"));
    }
    check_history(world, commits)?;
    check_leftovers(&world.repo().join(".git"))?;
    check_journal(&world.prodigy(&["events", job, "--json"]).stdout)?;
    world.git(&["fsck", "--no-dangling"]);
    check_processes(world)
}

/// Checks that the result is in the history once, and the user's commits hold only their files.
///
/// A user who removes the lock and commits before the index is in its place reverts the result;
/// the commit that restores it must follow.
fn check_history(world: &TestEnv, commits: &BTreeSet<String>) -> Result<(), String> {
    let work = world.git(&["log", "--format=%H", "--grep=^work$", "main"]);
    if work.lines().count() != 1 {
        return Err(format!("the job's commit is in `main` {} times", work.lines().count()));
    }
    let args = ["log", "--no-merges", "--author=user@", "--format=", "--name-only", "main"];
    let of_user = world.git(&args);
    let (of_user, reverted): (Vec<_>, Vec<_>) =
        of_user.lines().map(ToOwned::to_owned).partition(|path| path.starts_with(OF_THE_USER));
    let once: BTreeSet<_> = of_user.iter().cloned().collect();
    if once != *commits || once.len() != of_user.len() {
        return Err(format!("the user committed {commits:?}, but their commits hold {of_user:?}"));
    }
    let restored = world.git(&["log", "--format=%H", "--grep=^Restore the result of", "main"]);
    if reverted.is_empty() == restored.is_empty() {
        return Ok(());
    }
    Err(format!(
        "the user's commits reverted {} files, and {} commits restore them",
        reverted.len(),
        restored.lines().count()
    ))
}

/// Checks that no lock and nothing of ours but the lock of the repository is left.
fn check_leftovers(git_dir: &Path) -> Result<(), String> {
    let mut waiting = vec![git_dir.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).unwrap().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_ours = name.contains("prodigy-")
                || Path::new(&name).extension().is_some_and(|kind| kind == "lock");
            if is_ours && name != "prodigy.lock" {
                return Err(format!("`{}` is left", entry.path().display()));
            }
            if entry.file_type().unwrap().is_dir() && name != "objects" {
                waiting.push(entry.path());
            }
        }
    }
    Ok(())
}

/// Checks that the journal tells of one merge and one end.
fn check_journal(records: &str) -> Result<(), String> {
    let records: Vec<Value> =
        records.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    for kind in ["worktree_merged", "job_completed"] {
        let count = records.iter().filter(|record| record["event_type"] == kind).count();
        if count != 1 {
            return Err(format!("the journal tells of {kind} {count} times"));
        }
    }
    Ok(())
}

/// Returns the files of a checkout.
fn checkout_files(root: &Path) -> Files {
    let mut found = Files::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).unwrap().flatten() {
            if entry.file_name() == ".git" {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                waiting.push(entry.path());
            } else {
                let path = entry.path();
                let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
                found.insert(name, fs::read_to_string(&path).unwrap_or_default());
            }
        }
    }
    found
}
