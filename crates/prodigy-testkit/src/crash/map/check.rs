//! Checks of the repository and the machine once a job is done.

use std::{collections::BTreeMap, fs};

use super::{
    journal::MapJournal,
    workflow::{ATTEMPTS, MapCase},
};
use crate::{
    TestEnv,
    crash::{
        CrashTrial,
        attempt_log::{self, AttemptLog},
        check_processes,
        failed_work::{check_failed_work, check_kept_work},
        repository_checks::{
            ItemCommit, check_branch, check_checkout, check_command_succeeds, check_refs,
            check_worktrees, commit_subjects, file_on_main,
        },
    },
};

/// Checks everything that must hold once the job is done.
pub(crate) fn check(
    trial: &CrashTrial,
    job: &str,
    base: &str,
    works: &[MapCase],
) -> Result<MapJournal, String> {
    let world = &trial.world;
    let account = MapJournal::read(&trial.records(job))?;
    account.check(works)?;
    check_lost(trial, job, works)?;
    check_branch(world, &item_commits(works, &account))?;
    check_reduce(world, works.len(), &account)?;
    let ledger = fs::read_to_string(super::trial::attempt_log_dir(world).join("ledger"));
    check_ledger(&attempt_log::read(&ledger.unwrap_or_default())?, trial.kills)?;
    check_checkout(world, base, 1)?;
    let own = format!("{job}/");
    check_refs(world, |branch| {
        branch.strip_prefix(&own).is_some_and(|item| is_failed_item_name(item, &account, works))
    })?;
    check_worktrees(world, |name| is_failed_item_name(name, &account, works))?;
    check_processes(world)?;
    check_command_succeeds(world, &["verify", job])?;
    Ok(account)
}

/// Checks that nothing is lost of what failed items left, and of what successful ones left
/// uncommitted.
fn check_lost(trial: &CrashTrial, job: &str, works: &[MapCase]) -> Result<(), String> {
    let journal = trial.records(job);
    let of = |item: &str| works.iter().find(|work| work.id() == item);
    check_failed_work(&trial.world, &journal, |item| {
        of(item).and_then(|work| work.failed_item_work())
    })?;
    check_kept_work(&trial.world, &journal, |item| {
        of(item).and_then(|work| work.uncommitted_file())
    })
}

/// Returns what of the items must be in `main`.
pub(crate) fn item_commits(works: &[MapCase], account: &MapJournal) -> Vec<ItemCommit> {
    works.iter().map(|work| work.item_commit(!account.is_dead(&work.id()))).collect()
}

/// Checks that no attempt ran too often. A kill may cut off an attempt and so allow one more.
fn check_ledger(items: &BTreeMap<String, AttemptLog>, kills: u32) -> Result<(), String> {
    for (item, traces) in items {
        let (starts, ends) = (traces.starts.len(), traces.ends);
        if u32::try_from(starts).is_ok_and(|starts| starts > ATTEMPTS + kills) || ends > 1 + kills {
            return Err(format!(
                "{item} started {starts} and ended {ends} times with {kills} kills"
            ));
        }
    }
    Ok(())
}

/// Checks that the reduce phase ran once and was told the truth.
fn check_reduce(world: &TestEnv, items: usize, account: &MapJournal) -> Result<(), String> {
    let (successful, _, _) = account.totals();
    let expected = format!("{successful} of {items}\n");
    let found = file_on_main(world, "reduced.txt").unwrap_or_default();
    let commits = commit_subjects(world).get("reduced").copied().unwrap_or_default();
    if found == expected && commits == 1 {
        return Ok(());
    }
    Err(format!("`reduce` left {found:?} in {commits} commits instead of {expected:?}"))
}

/// Checks what must hold after each kill: nothing of failed items is lost, and the checkout is as
/// it was, for as long as the final merge has not begun.
pub(crate) fn check_killed(
    trial: &CrashTrial,
    job: &str,
    base: &str,
    works: &[MapCase],
) -> Result<(), String> {
    let world = &trial.world;
    check_lost(trial, job, works)?;
    if MapJournal::read(&trial.records(job))?.is_merging {
        return Ok(());
    }
    let (head, status) = (world.git(&["rev-parse", "HEAD"]), world.git(&["status", "--porcelain"]));
    if head == base && status.is_empty() {
        return Ok(());
    }
    Err(format!("the user's checkout changed before the merge: HEAD is {head}\n{status}"))
}

/// Returns whether a name is that of a failed item; what was put aside may have a suffix.
fn is_failed_item_name(name: &str, account: &MapJournal, works: &[MapCase]) -> bool {
    let ids = works.iter().map(|work| work.id()).filter(|id| account.is_dead(id));
    ids.into_iter().any(|id| name.contains(&id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(lines: &[&str], kills: u32) -> String {
        let items = attempt_log::read(&lines.join("\n")).unwrap();
        check_ledger(&items, kills).err().unwrap_or_else(|| "fine".to_owned())
    }

    #[test]
    fn attempts_that_repeat_are_noticed() {
        let twice = ["start a 1", "end a 1", "start a 1", "end a 1"];
        assert_eq!(said(&twice, 1), "fine");
        assert_eq!(said(&twice, 0), "a started 2 and ended 2 times with 0 kills");
        let often = ["start a 1", "start a 2", "start a 3", "start a 3"];
        assert_eq!(said(&often, 1), "fine");
        assert_eq!(said(&often, 0), "a started 4 and ended 0 times with 0 kills");
    }
}
