//! Files that cannot be written.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::fixture::{DlqHarness, died, failed, started};
use crate::store::{fixture as process, write_atomic};

#[test]
fn a_directory_that_cannot_be_written_is_one_warning_and_the_rest_comes_later() {
    let world = DlqHarness::new(&["1", "2", "3"]);
    let blocked = world.home.layout.home().join("dlq");
    write_atomic(&blocked, b"in the way").unwrap();
    let mut run = world.begin();
    run.happen(1, &[started(1), failed(1), died(1)]);
    run.settle();
    let problem = run.problem().unwrap();
    insta::assert_snapshot!(world.show(&problem), @"cannot open `$HOME/dlq/repo/job-1/mapreduce/dlq/job-1/index.jsonl`: Not a directory (os error 20)");
    run.happen(2, &[started(1), failed(1), died(1)]);
    run.settle();
    assert_eq!(run.problem(), None);
    fs::remove_file(&blocked).unwrap();
    run.happen(3, &[started(1), failed(1), died(1)]);
    run.finish();
    assert_eq!(world.files().len(), 3);
    insta::assert_snapshot!(world.list(), @"
        item-003 open command_failed after 1, 0 replays, eligible
        item-002 open command_failed after 1, 0 replays, eligible
        item-001 open command_failed after 1, 0 replays, eligible
        3 open
        ");
}

#[test]
fn what_was_missing_at_the_end_of_a_run_is_written_when_it_is_looked_for() {
    let world = DlqHarness::new(&["1", "2"]);
    let blocked = world.home.layout.home().join("dlq");
    write_atomic(&blocked, b"in the way").unwrap();
    let mut run = world.begin();
    run.happen(1, &[started(1), failed(1), died(1)]);
    run.finish();
    // It is looked for while it still cannot be written.
    let seen = crate::store::dlq::DeadLetterStore::open(&world.home.layout, &world.home.job);
    let seen = seen.unwrap();
    assert_eq!((seen.open_entries(), seen.read_error().is_some()), (1, true));
    fs::remove_file(&blocked).unwrap();
    assert_eq!(world.queue().open_entries(), 1);
    assert_eq!(world.files().len(), 1);
}

#[test]
fn a_full_disk_leaves_whole_files_and_the_rest_comes_when_there_is_room() {
    const ITEMS: usize = 40;
    if process::in_child().is_none() {
        let directory = tempfile::tempdir().unwrap();
        let name = "a_full_disk_leaves_whole_files_and_the_rest_comes_when_there_is_room";
        let name = format!("store::dlq::tests::unwritable::{name}");
        process::run_child(&name, "trap '' XFSZ; exec \"$@\"", &directory);
        return;
    }
    let world = DlqHarness::sized(ITEMS);
    let mut run = world.begin();
    let records: Vec<_> =
        (1..=ITEMS).flat_map(|item| run.record(item, &[started(1), failed(1), died(1)])).collect();
    // No file can become longer than this: entries are shorter, the list is not.
    let before = getrlimit(Resource::Fsize);
    setrlimit(Resource::Fsize, Rlimit { current: Some(8192), ..before }).unwrap();
    for record in &records {
        run.hear(std::slice::from_ref(record));
        run.settle();
    }
    let problem = run.problem().unwrap();
    assert!(problem.contains("index.json"), "{problem}");
    assert!(world.index().len() <= 8192 && world.index().ends_with('\n'));
    let listed = world.index().lines().count();
    assert!((10..ITEMS).contains(&listed), "{listed}");
    setrlimit(Resource::Fsize, before).unwrap();
    run.finish();
    assert_eq!(world.files().len(), ITEMS);
    let queue = world.queue();
    assert_eq!((queue.summaries().count(), queue.open_entries()), (ITEMS, ITEMS as u64));
    assert_eq!(world.index().lines().count(), ITEMS + 1);
}
