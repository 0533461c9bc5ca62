//! What must be in the repository and on the machine once a job is done.

use std::{collections::BTreeMap, fs, path::PathBuf};

use super::{journal::Account, ledger, workflow::Work};
use crate::{
    World,
    killing::{Trial, check_processes},
};

/// Checks everything that must hold once the job is done.
pub(super) fn check(
    trial: &Trial,
    job: &str,
    base: &str,
    works: &[Work],
) -> Result<Account, String> {
    let world = &trial.world;
    let account = Account::read(&trial.records(job))?;
    account.check(works)?;
    check_branch(world, works, &account)?;
    check_reduce(world, works.len(), &account)?;
    let ledger = fs::read_to_string(super::trial::ledger(world).join("ledger"));
    ledger::check(&ledger.unwrap_or_default(), trial.kills)?;
    check_checkout(world, base)?;
    let own = format!("{job}/");
    check_refs(world, |branch| {
        branch.strip_prefix(&own).is_some_and(|item| names_dead(item, &account, works))
    })?;
    check_worktrees(world, |name| names_dead(name, &account, works))?;
    check_processes(world)?;
    let verified = world.prodigy(&["verify", job]);
    if verified.code != Some(0) {
        return Err(format!("`prodigy verify {job}` does not agree:\n{verified}"));
    }
    Ok(account)
}

/// Checks that the work of every successful item is in `main` exactly once, and no other.
pub(super) fn check_branch(world: &World, works: &[Work], account: &Account) -> Result<(), String> {
    let counts = subjects(world);
    let count = |subject: &str| counts.get(subject).copied().unwrap_or_default();
    for work in works {
        let is_dead = account.is_dead(&work.id());
        let expected = (!is_dead).then(|| work.content());
        let found = shown(world, &work.file());
        if found != expected {
            let (file, id) = (work.file(), work.id());
            return Err(format!("`{file}` of {id} in `main` is {found:?} instead of {expected:?}"));
        }
        let commits = count(&work.subject());
        if commits != u32::from(!is_dead) {
            return Err(format!("`main` has {commits} commits of {}", work.id()));
        }
    }
    world.git(&["fsck", "--no-dangling"]);
    check_commits(world, works)
}

/// Checks that the commit of each item changes the item's own file and nothing else.
fn check_commits(world: &World, works: &[Work]) -> Result<(), String> {
    let log = world.git(&["log", "--no-merges", "--format=%x00%s", "--name-only", "main"]);
    let files: BTreeMap<String, String> =
        works.iter().map(|work| (work.subject(), work.file())).collect();
    for commit in log.split('\0') {
        let (subject, names) = commit.split_once('\n').unwrap_or((commit, ""));
        if files.get(subject).is_some_and(|file| names.trim() != file) {
            return Err(format!("the commit `{subject}` changes {:?}", names.trim()));
        }
    }
    Ok(())
}

/// Checks that the reduce phase ran once and was told the truth.
fn check_reduce(world: &World, items: usize, account: &Account) -> Result<(), String> {
    let (successful, _, _) = account.totals();
    let expected = format!("{successful} of {items}\n");
    let found = shown(world, "reduced.txt").unwrap_or_default();
    let commits = subjects(world).get("reduced").copied().unwrap_or_default();
    if found == expected && commits == 1 {
        return Ok(());
    }
    Err(format!("`reduce` left {found:?} in {commits} commits instead of {expected:?}"))
}

/// Returns the subjects of the commits in `main`, and how often each is there.
fn subjects(world: &World) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for subject in world.git(&["log", "--format=%s", "main"]).lines() {
        *counts.entry(subject.to_owned()).or_default() += 1;
    }
    counts
}

/// Returns a file of `main`, if there is one.
fn shown(world: &World, file: &str) -> Option<String> {
    let output = world.command("git").args(["show", &format!("main:{file}")]).output().unwrap();
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Checks that nothing but the final merge ever moved the user's branch.
fn check_checkout(world: &World, base: &str) -> Result<(), String> {
    let status = world.git(&["status", "--porcelain"]);
    if !status.is_empty() {
        return Err(format!("the user's checkout is not clean:\n{status}"));
    }
    let moves = world.git(&["reflog", "show", "--format=%H %gs", "HEAD"]);
    let since = moves.lines().take_while(|line| !line.starts_with(base)).count();
    if since != 1 || world.git(&["symbolic-ref", "HEAD"]) != "refs/heads/main" {
        return Err(format!("the user's HEAD was moved {since} times:\n{moves}"));
    }
    Ok(())
}

/// Checks that the checkout is as it was, for as long as the final merge has not begun.
pub(super) fn check_untouched(trial: &Trial, job: &str, base: &str) -> Result<(), String> {
    let world = &trial.world;
    if Account::read(&trial.records(job))?.is_merging {
        return Ok(());
    }
    let (head, status) = (world.git(&["rev-parse", "HEAD"]), world.git(&["status", "--porcelain"]));
    if head == base && status.is_empty() {
        return Ok(());
    }
    Err(format!("the user's checkout changed before the merge: HEAD is {head}\n{status}"))
}

/// Checks that only allowed branches of prodigy are left; they are named as `JOB/ITEM`.
pub(super) fn check_refs(world: &World, is_allowed: impl Fn(&str) -> bool) -> Result<(), String> {
    let root = "refs/heads/prodigy/";
    let branches = world.git(&["for-each-ref", "--format=%(refname)", root]);
    let is_left = |branch: &&str| !branch.strip_prefix(root).is_some_and(&is_allowed);
    let left: Vec<_> = branches.lines().filter(is_left).collect();
    if left.is_empty() { Ok(()) } else { Err(format!("branches are left:\n{}", left.join("\n"))) }
}

/// Checks that only allowed worktrees are left, and that git knows each of them.
pub(super) fn check_worktrees(
    world: &World,
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

/// Returns whether a name is that of a failed item; what was put aside may have a suffix.
fn names_dead(name: &str, account: &Account, works: &[Work]) -> bool {
    let ids = works.iter().map(|work| work.id()).filter(|id| account.is_dead(id));
    ids.into_iter().any(|id| name.contains(&id))
}
