//! Checks of the repository and the disk once a job is done.

use std::{collections::BTreeMap, fs, path::PathBuf};

use crate::TestEnv;

/// The work of one item: a commit that changes a file of its own.
#[derive(Clone, Debug)]
pub(crate) struct ItemCommit {
    /// The item.
    pub(crate) id: String,
    /// Its file.
    pub(crate) file: String,
    /// The content of its file.
    pub(crate) content: String,
    /// The subject of its commit.
    pub(crate) subject: String,
    /// True if it must be in `main`; otherwise nothing of it may be there.
    pub(crate) is_done: bool,
}

/// Returns the id that prodigy gives to an item, from 1, of so many.
pub(crate) fn item_id(number: u32, items: u32) -> String {
    let width = items.to_string().len().max(3);
    format!("item-{number:0width$}")
}

/// Checks that the work of every item that is done is in `main` exactly once, and no other.
pub(crate) fn check_branch(world: &TestEnv, pieces: &[ItemCommit]) -> Result<(), String> {
    let counts = commit_subjects(world);
    for piece in pieces {
        let ItemCommit { id, file, subject, .. } = piece;
        let expected = piece.is_done.then(|| piece.content.clone());
        let found = file_on_main(world, file);
        if found != expected {
            return Err(format!("`{file}` of {id} in `main` is {found:?} instead of {expected:?}"));
        }
        let commits = counts.get(subject).copied().unwrap_or_default();
        if commits != u32::from(piece.is_done) {
            return Err(format!("`main` has {commits} commits of {id}"));
        }
    }
    world.git(&["fsck", "--no-dangling"]);
    check_commits(world, pieces)
}

/// Checks that the commit of each item changes the item's own file and nothing else.
fn check_commits(world: &TestEnv, pieces: &[ItemCommit]) -> Result<(), String> {
    let log = world.git(&["log", "--no-merges", "--format=%x00%s", "--name-only", "main"]);
    let files: BTreeMap<&str, &str> =
        pieces.iter().map(|piece| (piece.subject.as_str(), piece.file.as_str())).collect();
    for commit in log.split('\0') {
        let (subject, names) = commit.split_once('\n').unwrap_or((commit, ""));
        if files.get(subject).is_some_and(|file| names.trim() != *file) {
            return Err(format!("the commit `{subject}` changes {:?}", names.trim()));
        }
    }
    Ok(())
}

/// Returns the subjects of the commits in `main`, and how often each is there.
pub(crate) fn commit_subjects(world: &TestEnv) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for subject in world.git(&["log", "--format=%s", "main"]).lines() {
        *counts.entry(subject.to_owned()).or_default() += 1;
    }
    counts
}

/// Returns a file of `main`, if there is one.
pub(crate) fn file_on_main(world: &TestEnv, file: &str) -> Option<String> {
    let output = world.command("git").args(["show", &format!("main:{file}")]).output().unwrap();
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Checks that nothing but so many final merges ever moved the user's branch.
pub(crate) fn check_checkout(world: &TestEnv, base: &str, merges: usize) -> Result<(), String> {
    let status = world.git(&["status", "--porcelain"]);
    if !status.is_empty() {
        return Err(format!("the user's checkout is not clean:\n{status}"));
    }
    let moves = world.git(&["reflog", "show", "--format=%H %gs", "HEAD"]);
    let since = moves.lines().take_while(|line| !line.starts_with(base)).count();
    if since != merges || world.git(&["symbolic-ref", "HEAD"]) != "refs/heads/main" {
        return Err(format!("the user's HEAD was moved {since} times, not {merges}:\n{moves}"));
    }
    Ok(())
}

/// Checks that only allowed branches of prodigy are left; they are named as `JOB/ITEM`.
pub(crate) fn check_refs(world: &TestEnv, is_allowed: impl Fn(&str) -> bool) -> Result<(), String> {
    let root = "refs/heads/prodigy/";
    let branches = world.git(&["for-each-ref", "--format=%(refname)", root]);
    let is_left = |branch: &&str| !branch.strip_prefix(root).is_some_and(&is_allowed);
    let left: Vec<_> = branches.lines().filter(is_left).collect();
    if left.is_empty() { Ok(()) } else { Err(format!("branches are left:\n{}", left.join("\n"))) }
}

/// Checks that only allowed worktrees are left, and that git knows each of them.
pub(crate) fn check_worktrees(
    world: &TestEnv,
    is_allowed: impl Fn(&str) -> bool,
) -> Result<(), String> {
    let list = world.git(&["worktree", "list", "--porcelain"]);
    let known: Vec<_> =
        list.lines().filter_map(|line| line.strip_prefix("worktree ")).skip(1).collect();
    if !known.iter().all(|path| path.rsplit('/').next().is_some_and(&is_allowed)) {
        return Err(format!("git still knows a worktree:\n{list}"));
    }
    let mut waiting = vec![world.home().join("worktrees")];
    while let Some(directory) = waiting.pop() {
        if directory.join(".git").exists() {
            let path = directory.canonicalize().unwrap();
            if !known.iter().any(|known| PathBuf::from(known) == path) {
                return Err(format!("a worktree is left: `{}`", directory.display()));
            }
            continue;
        }
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                waiting.push(entry.path());
            }
        }
    }
    Ok(())
}

/// Checks that a command of prodigy finds nothing wrong.
pub(crate) fn check_command_succeeds(world: &TestEnv, args: &[&str]) -> Result<(), String> {
    let seen = world.prodigy(args);
    if seen.code == Some(0) {
        return Ok(());
    }
    Err(format!("`prodigy {}` does not agree:\n{seen}", args.join(" ")))
}
