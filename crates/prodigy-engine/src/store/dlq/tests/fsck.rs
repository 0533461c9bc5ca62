//! Withdrawing entries, and finding out what is wrong with the files.

use std::fs;

use prodigy_core::{
    audit::IdentityKind,
    ids::{ItemId, JobId},
};

use super::fixture::{DlqHarness, completed, died, failed, replayed, started};
use crate::{
    run::control::{DeadLetterAction, DeadLetterEditor, EditorError},
    store::{
        JobLock,
        dlq::{FsckReport, fsck},
        fixture::at,
        write_atomic,
    },
};

/// Returns a job with an open entry, one that is being replayed, a resolved one, and an item
/// that has none.
fn world() -> DlqHarness {
    let world = DlqHarness::new(&["1", "2", "3", "4"]);
    let mut run = world.begin();
    run.happen(1, &[started(1), failed(1), died(1)]);
    run.happen(2, &[started(1), failed(1), died(1), replayed(1), started(2)]);
    run.happen(3, &[started(1), failed(1), died(1), replayed(1), started(2), completed(2, false)]);
    run.happen(4, &[started(1), completed(1, false)]);
    run.finish();
    world
}

fn all(world: &DlqHarness) -> Vec<ItemId> {
    let mut all: Vec<ItemId> = (1..=4).map(|number| world.item(number)).collect();
    all.push("nobody".parse().unwrap());
    all.push(world.item(1));
    all
}

fn take(world: &DlqHarness, amendment: &DeadLetterAction) -> Vec<ItemId> {
    amended(world, &world.home.job, amendment).unwrap()
}

fn amended(
    world: &DlqHarness,
    job: &JobId,
    amendment: &DeadLetterAction,
) -> Result<Vec<ItemId>, EditorError> {
    let amending = DeadLetterEditor {
        layout: &world.home.layout,
        job,
        by: "ann",
        identity: IdentityKind::Asserted,
        reason: "done by hand",
        now: at(100),
    };
    amending.apply(&all(world), amendment, &mut |_| Ok(()))
}

#[test]
fn open_entries_can_be_dropped_and_stay_to_be_read() {
    let world = world();
    assert_eq!(take(&world, &DeadLetterAction::Drop), [world.item(1)]);
    insta::assert_snapshot!(world.list(), @"
        item-001 dropped command_failed after 1, 0 replays
        item-003 resolved command_failed after 2, 1 replays
        item-002 replaying command_failed after 1, 1 replays, eligible
        0 open
        ");
    let entry = world.queue().entry(&world.item(1)).unwrap().unwrap();
    insta::assert_debug_snapshot!(entry.closed, @r#"
    Some(
        EntryClosure {
            at: 2026-01-02T03:05:45Z,
            reason: Some(
                "done by hand",
            ),
            by: Some(
                "ann",
            ),
        },
    )
    "#);
    assert_eq!(take(&world, &DeadLetterAction::Drop), []);
}

#[test]
fn entries_that_are_cleared_are_gone_unless_they_are_being_replayed() {
    let world = world();
    assert_eq!(take(&world, &DeadLetterAction::Clear), [world.item(1), world.item(3)]);
    insta::assert_snapshot!(world.list(), @"
        item-002 replaying command_failed after 1, 1 replays, eligible
        0 open
        ");
    assert!(!world.file(1).exists() && world.file(2).exists() && !world.file(3).exists());
    assert_eq!(take(&world, &DeadLetterAction::Clear), []);
    // What was cleared does not come back.
    fs::remove_dir_all(world.home.layout.dlq_dir(&world.home.job)).unwrap();
    insta::assert_snapshot!(world.list(), @"
        item-002 replaying command_failed after 1, 1 replays, eligible
        0 open
        ");
    assert_eq!(
        world.home.records().iter().filter(|r| r.event.event_type() == "dlq_item_removed").count(),
        2
    );
}

#[test]
fn nothing_is_withdrawn_from_a_job_that_is_running() {
    let world = world();
    let (layout, job) = (&world.home.layout, &world.home.job);
    let _lock = JobLock::take(layout, job).unwrap();
    let error = amended(&world, job, &DeadLetterAction::Drop);
    let said = error.unwrap_err().to_string();
    assert!(
        said.starts_with(&format!("job `job-1` is held by process {} on ", std::process::id())),
        "{said}"
    );
    let unknown = amended(&world, &"other".parse().unwrap(), &DeadLetterAction::Drop);
    insta::assert_snapshot!(unknown.unwrap_err(), @"there is no job `other`");
    assert!(!layout.state_dir(&"other".parse().unwrap()).exists());
}

#[test]
fn what_is_wrong_with_the_files_is_found_and_put_right() {
    let world = world();
    let check = |repair| fsck(&world.home.layout, &world.home.job, repair).unwrap();
    assert_eq!(check(false), FsckReport { entries: 3, ..FsckReport::default() });
    let written = world.files();
    let list = world.list();

    fs::remove_file(world.file(1)).unwrap();
    let text = fs::read_to_string(world.file(2)).unwrap();
    write_atomic(&world.file(2), text.replace("exit code 2", "exit code 3").as_bytes()).unwrap();
    let other = world.home.layout.dlq_items_dir(&world.home.job).join("item-9.json");
    write_atomic(&other, b"{}").unwrap();
    let index = world.home.layout.dlq_log(&world.home.job);
    let lines = fs::read_to_string(&index).unwrap();
    let without: Vec<&str> = lines.lines().filter(|line| !line.contains("item-003")).collect();
    write_atomic(&index, format!("{}\n", without.join("\n")).as_bytes()).unwrap();
    // The file of the third entry is from before its replay.
    let mut old = world.queue().entry(&world.item(3)).unwrap().unwrap();
    old.status = prodigy_core::dlq::EntryStatus::Open;
    old.update_hash();
    write_atomic(&world.file(3), format!("{}\n", serde_json::to_string(&old).unwrap()).as_bytes())
        .unwrap();

    let report = check(false);
    insta::assert_snapshot!(world.show(&format!("{report:#?}")), @r#"
    FsckReport {
        entries: 3,
        missing: [
            ItemId(
                "item-001",
            ),
        ],
        damaged: [
            (
                "$HOME/dlq/repo/job-1/mapreduce/dlq/job-1/items/item-002.json",
                "`$HOME/dlq/repo/job-1/mapreduce/dlq/job-1/items/item-002.json` cannot be used: it was changed since it was written",
            ),
        ],
        stale: [
            ItemId(
                "item-003",
            ),
        ],
        foreign: [
            "$HOME/dlq/repo/job-1/mapreduce/dlq/job-1/items/item-9.json",
        ],
        unlisted: [
            ItemId(
                "item-003",
            ),
        ],
        repaired: false,
    }
    "#);
    assert_eq!(check(false), report);
    assert_eq!(check(true), FsckReport { repaired: true, ..report });
    let now = check(false);
    assert!(now.is_clean() && now.foreign.len() == 2, "{now:?}");
    assert_eq!(world.list(), list);
    let ours = |(name, _): &(String, String)| written.iter().any(|(other, _)| other == name);
    assert_eq!(world.files().into_iter().filter(ours).collect::<Vec<_>>(), written);
}
