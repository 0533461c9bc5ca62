//! Checks after each kill, and once nothing is left to replay.

use std::fs;

use super::{
    entry_snapshot,
    journal::{DlqItemHistory, DlqJournal},
    workflow::{DlqCase, DlqFault},
};
use crate::{
    TestEnv,
    crash::{
        CrashTrial, attempt_log, check_processes,
        failed_work::check_failed_work,
        repository_checks::{
            check_branch, check_checkout, check_command_succeeds, check_refs, check_worktrees,
            commit_subjects, file_on_main,
        },
    },
};

/// Checks what must hold at any moment, and returns what the journal says.
pub(crate) fn check_now(
    trial: &CrashTrial,
    job: &str,
    cases: &[DlqCase],
) -> Result<DlqJournal, String> {
    let world = &trial.world;
    let journal = trial.records(job);
    let story = DlqJournal::read(&journal)?;
    check_failed_work(world, &journal, |item| {
        cases.iter().find(|case| case.id() == item).map(|case| case.failed_item_work())
    })?;
    entry_snapshot::check(&entry_snapshot::read(world, job)?, &story)?;
    check_ledger(world, &story)?;
    for case in cases {
        if let Some(life) = story.items.get(&case.id()) {
            check_failures(*case, life)
                .map_err(|what| format!("{}: {what}: {life:?}", case.id()))?;
        }
    }
    let status = world.git(&["status", "--porcelain"]);
    if !story.is_merging && !status.is_empty() {
        return Err(format!("the user's checkout is not clean:\n{status}"));
    }
    Ok(story)
}

/// Checks that everything that ran is in the journal.
fn check_ledger(world: &TestEnv, story: &DlqJournal) -> Result<(), String> {
    let text =
        fs::read_to_string(super::trial::attempt_log_dir(world).join("ledger")).unwrap_or_default();
    for (item, traces) in attempt_log::read(&text)? {
        let known = story.items.get(&item).map(|life| &life.attempts);
        for attempt in traces.starts {
            if !known.is_some_and(|known| known.contains(&attempt)) {
                return Err(format!("attempt {attempt} at {item} ran without a record"));
            }
        }
    }
    Ok(())
}

/// Checks that the attempts failed that must fail, and no others.
fn check_failures(case: DlqCase, life: &DlqItemHistory) -> Result<(), &'static str> {
    let late = life.failed.iter().any(|attempt| *attempt >= case.from);
    if late && case.fault != DlqFault::Slow {
        return Err("failed although it works");
    }
    if life.is_done() && (1..case.from).any(|attempt| !life.failed.contains(&attempt)) {
        return Err("succeeded too early");
    }
    if life.replays > 0 && case.stays_dead() {
        return Err("was replayed although nobody insisted");
    }
    Ok(())
}

/// Checks everything that must hold once nothing is left to replay.
pub(crate) fn check_end(
    trial: &CrashTrial,
    job: &str,
    base: &str,
    cases: &[DlqCase],
) -> Result<DlqJournal, String> {
    let world = &trial.world;
    let story = check_now(trial, job, cases)?;
    for case in cases {
        let life = story.items.get(&case.id());
        let is_right = life
            .is_some_and(|life| if case.stays_dead() { life.is_dead() } else { life.is_done() });
        if !is_right {
            return Err(format!("{} ended wrong: {life:?}", case.id()));
        }
    }
    let pieces: Vec<_> = cases.iter().map(|case| case.item_commit(!case.stays_dead())).collect();
    check_branch(world, &pieces)?;
    check_reduce(world, cases.len(), &story)?;
    let moves = world.git(&["reflog", "show", "--format=%H", "HEAD"]);
    let cut_off = story.cut_off_updates.iter();
    let cut_off = cut_off.filter(|new| moves.lines().any(|moved| moved == new.as_str())).count();
    check_checkout(world, base, story.merges + cut_off)?;
    check_processes(world)?;
    let own = format!("{job}/");
    // A branch is left of an item that is dead now, a worktree of one that ever was.
    check_refs(world, |branch| {
        let item = branch.strip_prefix(&own);
        item.is_some_and(|item| matches_item_name(&story, item, DlqItemHistory::is_dead))
    })?;
    check_worktrees(world, |name| matches_item_name(&story, name, |life| life.deaths > 0))?;
    check_command_succeeds(world, &["verify", job])?;
    check_command_succeeds(world, &["dlq", "fsck", job, "--dry-run"])?;
    Ok(story)
}

/// Returns whether a name is that of an item that is so; what was put aside may have a suffix.
fn matches_item_name(
    story: &DlqJournal,
    name: &str,
    is_so: impl Fn(&DlqItemHistory) -> bool,
) -> bool {
    let items = story.items.iter();
    items.filter(|(_, life)| is_so(life)).any(|(id, _)| name.contains(id.as_str()))
}

/// Checks that the reduce phase ran as often as the journal says, and was told the truth.
fn check_reduce(world: &TestEnv, items: usize, story: &DlqJournal) -> Result<(), String> {
    let lines = story.reduced.iter().map(|successful| format!("{successful} of {items}\n"));
    let expected: String = lines.collect();
    let found = file_on_main(world, "reduced.txt").unwrap_or_default();
    let commits = commit_subjects(world).get("reduced").copied().unwrap_or_default();
    if found == expected && usize::try_from(commits) == Ok(story.reduced.len()) {
        return Ok(());
    }
    Err(format!("`reduce` left {found:?} in {commits} commits instead of {expected:?}"))
}
