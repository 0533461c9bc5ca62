//! Dead letters with real files.

pub(crate) mod fixture;
mod fsck;
mod interrupted_replay;
mod legacy_files;
mod random_histories;
mod unwritable;

use std::{fs, thread, time::Duration};

use prodigy_core::{
    dlq::EntryStatus,
    ids::{ItemId, JobId},
    mask::Mask,
};
use serde_json::json;

use crate::store::LogFile;
use fixture::{DlqHarness, Doing, completed, died, failed, kept, replayed, started};

use super::*;

#[test]
fn a_dead_letter_is_written_once_with_all_that_is_known_about_it() {
    let world = DlqHarness::new(&["{\"n\":1.10}", "2"]);
    let mut run = world.begin();
    run.happen(1, &[started(1), failed(1), died(1), kept()]);
    run.finish();
    let text = fs::read_to_string(world.file(1)).unwrap();
    // The directory is different every time, so the hash is, too.
    let (text, _) = text.split_once("  \"record_hash\"").unwrap();
    insta::assert_snapshot!(world.show(text), @r#"
        {
          "schema_version": 2,
          "revision": 2,
          "job_id": "job-1",
          "item_id": "item-001",
          "correlation_id": "agent-1-item",
          "topic": "map.1",
          "status": "open",
          "replay_status": "pending",
          "reason_code": "command_failed",
          "class": "agent",
          "cause_code": null,
          "reason": "exit code 2",
          "attempts": 1,
          "replays": 0,
          "item_data": {"n":1.10},
          "input_hash": "972785b8a55d9391ca089ec53056845713de41dfbd2429135c001429598d929e",
          "workflow_hash": "abababababababababababababababababababababababababababababababab",
          "idempotency_key": "job-1:item-001",
          "policy_snapshot": "sha256:221d2e88122fd5c3710a57225be30a2fe1991d395ff16b07ad044a73a0fe6702",
          "first_attempt": "2026-01-02T03:04:06Z",
          "last_attempt": "2026-01-02T03:04:06Z",
          "failure_count": 1,
          "failure_history": [
            {
              "attempt_number": 1,
              "timestamp": "2026-01-02T03:04:06Z",
              "error_type": {
                "CommandFailed": {
                  "command": "shell: make",
                  "exit_code": 2
                }
              },
              "error_message": "exit code 2",
              "error_context": [
                "processing item-001",
                "attempt 1 by agent-1",
                "step 1: shell: make"
              ],
              "stack_trace": null,
              "agent_id": "agent-1",
              "step_failed": "shell: make",
              "duration_ms": 900,
              "json_log_location": "$HOME/logs/repo/job-1/item-001/attempt-1.out",
              "reason_code": "command_failed",
              "exit_code": 2,
              "cost_usd": 0.0,
              "session_id": null
            }
          ],
          "error_signature": "3020bab71cea5fc4",
          "error_pattern": "CommandFailed::exit code <n>",
          "reprocess_eligible": true,
          "manual_review_required": false,
          "worktree_artifacts": {
            "worktree_path": "/w/item",
            "branch_name": "prodigy/job-1/item-001",
            "uncommitted_changes": "none",
            "patch_file": null,
            "commits": 0,
            "error_logs": null,
            "preserved": true
          },
          "commit_state": "local",
          "effects": [],
          "not_before": null,
          "owner": null,
          "journal_seq": 8,
        "#);
    insta::assert_snapshot!(world.index(), @r#"
    {"seq":8,"item_id":"item-001","status":"open","reason_code":"command_failed","class":"agent","signature":"3020bab71cea5fc4","pattern":"CommandFailed::exit code <n>","attempts":1,"replays":0,"last_attempt":"2026-01-02T03:04:06Z","eligible":true,"review":false,"standing":{"topic":"map.1","step":"shell: make","commit_state":"local","ran_with":"bdddb551971d2aa6","replay_cost_usd":0.0},"open":1}
    {"seq":8,"open":1}
    "#);
    let queue = world.queue();
    assert_eq!(queue.open_entries(), 1);
    let entry = queue.entry(&world.item(1)).unwrap().unwrap();
    assert_eq!(entry.item_data.get(), "{\"n\":1.10}");
    assert!(queue.entry(&world.item(2)).unwrap().is_none());
    assert_eq!(queue.entry_path(&world.item(1)), world.file(1));
    assert_eq!(
        DeadLetterStore::jobs(&world.home.layout).unwrap(),
        std::slice::from_ref(&world.home.job)
    );
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the logs are those of a test")]
fn an_entry_names_the_transcript_of_an_attempt_that_has_one() {
    let world = DlqHarness::new(&["1"]);
    let item = ItemId::from_position(1, 1);
    let file = |which| world.home.layout.log_file(&world.home.job, Some(&item), 1, 0, which);
    fs::create_dir_all(file(LogFile::Output).parent().unwrap()).unwrap();
    for which in [LogFile::Errors, LogFile::Output, LogFile::Transcript] {
        fs::write(file(which), "{}\n").unwrap();
    }
    let mut run = world.begin();
    run.happen(1, &[started(1), failed(1), died(1)]);
    run.finish();
    let entry = fs::read_to_string(world.file(1)).unwrap();
    let entry: serde_json::Value = serde_json::from_str(&entry).unwrap();
    let location = &entry["failure_history"][0]["json_log_location"];
    assert_eq!(location, file(LogFile::Transcript).to_str().unwrap());
}

#[test]
fn items_that_succeed_leave_nothing() {
    let world = DlqHarness::new(&["1", "2"]);
    let mut run = world.begin();
    run.happen(1, &[started(1), failed(1), started(2), completed(2, false)]);
    run.happen(2, &[started(1), completed(1, false)]);
    run.finish();
    assert!(!world.home.layout.dlq_dir(&world.home.job).exists());
    let queue = world.queue();
    assert_eq!((queue.open_entries(), queue.summaries().count()), (0, 0));
    assert_eq!(DeadLetterStore::jobs(&world.home.layout).unwrap(), [] as [JobId; 0]);
    // Looking has not made anything either.
    assert!(!world.home.layout.dlq_dir(&world.home.job).exists());
}

#[test]
fn entries_are_listed_once_each_and_the_newest_first() {
    let world = DlqHarness::new(&["1", "2", "3"]);
    let mut run = world.begin();
    for item in [1, 2, 3] {
        run.happen(item, &[started(1), failed(1), died(1)]);
        run.settle();
    }
    run.happen(2, &[kept()]);
    run.settle();
    insta::assert_snapshot!(world.list(), @"
        item-002 open command_failed after 1, 0 replays, eligible
        item-003 open command_failed after 1, 0 replays, eligible
        item-001 open command_failed after 1, 0 replays, eligible
        3 open
        ");
    run.happen(1, &[replayed(1), started(2)]);
    run.settle();
    insta::assert_snapshot!(world.list(), @"
        item-001 replaying command_failed after 1, 1 replays, eligible
        item-002 open command_failed after 1, 0 replays, eligible
        item-003 open command_failed after 1, 0 replays, eligible
        2 open
        ");
    run.happen(1, &[completed(2, false)]);
    run.happen(3, &[replayed(1), started(2), failed(2), died(2)]);
    run.finish();
    insta::assert_snapshot!(world.list(), @"
        item-003 open command_failed after 2, 1 replays, eligible
        item-001 resolved command_failed after 2, 1 replays
        item-002 open command_failed after 1, 0 replays, eligible
        2 open
        ");
    insta::assert_snapshot!(world.index(), @r#"
    {"seq":8,"item_id":"item-001","status":"open","reason_code":"command_failed","class":"agent","signature":"3020bab71cea5fc4","pattern":"CommandFailed::exit code <n>","attempts":1,"replays":0,"last_attempt":"2026-01-02T03:04:06Z","eligible":true,"review":false,"standing":{"topic":"map.1","step":"shell: make","commit_state":"local","ran_with":"bdddb551971d2aa6","replay_cost_usd":0.0},"open":1}
    {"seq":11,"item_id":"item-002","status":"open","reason_code":"command_failed","class":"agent","signature":"3020bab71cea5fc4","pattern":"CommandFailed::exit code <n>","attempts":1,"replays":0,"last_attempt":"2026-01-02T03:04:07Z","eligible":true,"review":false,"standing":{"topic":"map.1","step":"shell: make","commit_state":"local","ran_with":"bdddb551971d2aa6","replay_cost_usd":0.0},"open":2}
    {"seq":14,"item_id":"item-003","status":"open","reason_code":"command_failed","class":"agent","signature":"3020bab71cea5fc4","pattern":"CommandFailed::exit code <n>","attempts":1,"replays":0,"last_attempt":"2026-01-02T03:04:08Z","eligible":true,"review":false,"standing":{"topic":"map.1","step":"shell: make","commit_state":"local","ran_with":"bdddb551971d2aa6","replay_cost_usd":0.0},"open":3}
    {"seq":15,"item_id":"item-002","status":"open","reason_code":"command_failed","class":"agent","signature":"3020bab71cea5fc4","pattern":"CommandFailed::exit code <n>","attempts":1,"replays":0,"last_attempt":"2026-01-02T03:04:07Z","eligible":true,"review":false,"standing":{"topic":"map.1","step":"shell: make","commit_state":"local","ran_with":"bdddb551971d2aa6","replay_cost_usd":0.0},"open":3}
    {"seq":16,"item_id":"item-001","status":"replaying","reason_code":"command_failed","class":"agent","signature":"3020bab71cea5fc4","pattern":"CommandFailed::exit code <n>","attempts":1,"replays":1,"last_attempt":"2026-01-02T03:04:06Z","eligible":true,"review":false,"standing":{"topic":"map.1","step":"shell: make","commit_state":"local","ran_with":"bdddb551971d2aa6","replay_cost_usd":0.0},"open":2}
    {"seq":18,"item_id":"item-001","status":"resolved","reason_code":"command_failed","class":"agent","signature":"3020bab71cea5fc4","pattern":"CommandFailed::exit code <n>","attempts":2,"replays":1,"last_attempt":"2026-01-02T03:04:11Z","eligible":false,"review":false,"standing":{"topic":"map.1","step":"shell: make","commit_state":"local","ran_with":"bdddb551971d2aa6","replay_cost_usd":0.0},"open":2}
    {"seq":22,"item_id":"item-003","status":"open","reason_code":"command_failed","class":"agent","signature":"3020bab71cea5fc4","pattern":"CommandFailed::exit code <n>","attempts":2,"replays":1,"last_attempt":"2026-01-02T03:04:12Z","eligible":true,"review":false,"standing":{"topic":"map.1","step":"shell: make","commit_state":"local","ran_with":"bdddb551971d2aa6","replay_cost_usd":0.0},"open":2}
    {"seq":22,"open":2}
    "#);
}

#[test]
fn what_was_not_written_is_made_from_the_journal_when_it_is_looked_for() {
    let world = DlqHarness::new(&["1", "2", "3"]);
    let mut run = world.begin();
    run.happen(1, &[started(1), failed(1), started(2), failed(2), died(2), kept()]);
    run.happen(2, &[started(1), failed(1), died(1), replayed(1), started(2)]);
    run.happen(3, &[started(1), failed(1)]);
    run.finish();
    let written = world.files();
    let list = world.list();
    fs::remove_dir_all(world.home.layout.dlq_dir(&world.home.job)).unwrap();
    assert_eq!(world.list(), list);
    assert_eq!(world.files(), written);

    // The last line was cut off with the entry that it was about.
    fs::remove_file(world.file(1)).unwrap();
    let index = world.home.layout.dlq_log(&world.home.job);
    let text = fs::read_to_string(&index).unwrap();
    let cut = text.lines().next().unwrap().len() / 2;
    fs::File::options().write(true).open(&index).unwrap().set_len(cut as u64).unwrap();
    assert_eq!(world.list(), list);
    assert_eq!(world.files(), written);
    assert_eq!(world.queue().open_entries(), 1);
}

#[test]
fn looking_twice_writes_nothing_the_second_time() {
    let world = DlqHarness::new(&["1"]);
    let mut run = world.begin();
    run.happen(1, &[started(1), failed(1), died(1)]);
    run.finish();
    // Something follows in the journal that is not about an item.
    world.append(vec![fixture::fact(
        None,
        json!({
            "event_type": "job_completed", "status": "completed", "duration_ms": 1, "commits": 0,
        }),
    )]);
    world.queue();
    let index = world.index();
    world.queue();
    assert_eq!(world.index(), index);
    assert_eq!(index.lines().count(), 3, "{index}");
}

#[test]
fn a_job_that_is_running_is_read_and_left_alone() {
    let world = DlqHarness::new(&["1", "2"]);
    let mut run = world.begin();
    run.happen(1, &[started(1), failed(1), died(1)]);
    run.finish();
    let lock = crate::store::JobLock::take(&world.home.layout, &world.home.job).unwrap();
    world.append(vec![
        fixture::fact(Some(world.item(2)), started(1)),
        fixture::fact(Some(world.item(2)), failed(1)),
        fixture::fact(Some(world.item(2)), died(1)),
    ]);
    let index = world.index();
    assert_eq!(world.queue().summaries().count(), 2, "the journal tells of both");
    assert_eq!(world.index(), index, "the files are for the run to write");
    let held = DeadLetterStore::open_locked(&world.home.layout, &world.home.job, &lock).unwrap();
    assert_eq!((held.summaries().count(), held.open_entries()), (2, 2));
}

#[test]
fn a_resumed_run_goes_on_with_the_histories_of_the_runs_before() {
    // A run that died wrote nothing, or not all of it.
    for lost in ["nothing", "the list", "all"] {
        let world = DlqHarness::new(&["1", "2", "3", "4", "5"]);
        let mut run = world.begin();
        run.happen(1, &[started(1), failed(1)]);
        run.happen(2, &[started(1)]);
        run.happen(3, &[started(1), failed(1), died(1)]);
        run.happen(4, &[started(1), failed(1), died(1), replayed(1), started(2)]);
        run.finish();
        match lost {
            "nothing" => {}
            "the list" => fs::remove_file(world.home.layout.dlq_log(&world.home.job)).unwrap(),
            _ => fs::remove_dir_all(world.home.layout.dlq_dir(&world.home.job)).unwrap(),
        }
        let mut run = world.resume();
        run.happen(5, &[started(1), completed(1, false)]);
        run.happen(1, &[started(2), failed(2), died(2)]);
        run.happen(2, &[started(1), failed(1), died(1)]);
        run.happen(3, &[kept()]);
        run.happen(4, &[started(2), failed(2), died(2)]);
        run.finish();
        assert_eq!(run.problem(), None);
        insta::allow_duplicates! {
            insta::assert_snapshot!(world.histories(), @"
        item-001 open: 1 command_failed, 2 command_failed
        item-002 open: 1 interrupted, 1 command_failed
        item-003 open: 1 command_failed, left something
        item-004 open: 1 command_failed, 2 interrupted, 2 command_failed
        ");
        }
        assert_eq!(world.queue().open_entries(), 4, "{lost}");
        let written = world.files();
        fs::remove_dir_all(world.home.layout.dlq_dir(&world.home.job)).unwrap();
        world.queue();
        assert_eq!(world.files(), written, "{lost}");
    }
}

#[test]
fn a_replay_goes_on_from_the_stored_entry_without_reading_the_journal() {
    let world = DlqHarness::new(&["1"]);
    let mut run = world.begin();
    run.happen(1, &[started(1), failed(1), died(1)]);
    run.finish();
    let mut run = world.resume();
    let records = run.record(1, &[replayed(1), started(2), completed(2, true), fixture::merged()]);
    // If the journal were read, it would not be found.
    let events = world.home.layout.events_dir(&world.home.job);
    let hidden = events.with_extension("hidden");
    rename(&events, &hidden);
    run.hear(&records);
    run.settle();
    rename(&hidden, &events);
    assert_eq!(run.problem(), None);
    run.finish();
    let entry = world.queue().entry(&world.item(1)).unwrap().unwrap();
    assert_eq!((entry.status, entry.attempts), (EntryStatus::Resolved, 2));
    assert_eq!(entry.failure_history.len(), 1);
}

#[expect(clippy::disallowed_methods, reason = "the journal is put back at once")]
fn rename(from: &std::path::Path, to: &std::path::Path) {
    fs::rename(from, to).unwrap();
}

#[test]
fn a_secret_in_the_data_of_an_item_is_hidden_and_stays_hidden() {
    let world = DlqHarness::new(&["{\"key\": \"correct-horse\", \"n\": 1.10}", "{\"n\": 1.10}"]);
    let mut run = world.begin_with(Mask::new(["correct-horse".to_owned()]));
    run.happen(1, &[started(1), failed(1), died(1)]);
    run.happen(2, &[started(1), failed(1), died(1)]);
    run.finish();
    let data = || {
        let queue = world.queue();
        [1, 2].map(|item| {
            let entry = queue.entry(&world.item(item)).unwrap().unwrap();
            entry.item_data.get().to_owned()
        })
    };
    assert_eq!(data(), ["{\"key\":\"***\",\"n\":1.1}", "{\"n\": 1.10}"]);
    // Whoever completes the entry later does not know the secret.
    world.append(vec![fixture::fact(Some(world.item(1)), kept())]);
    assert_eq!(data(), ["{\"key\":\"***\",\"n\":1.1}", "{\"n\": 1.10}"]);
    assert_eq!(world.queue().entry(&world.item(1)).unwrap().unwrap().revision, 2);
}

#[test]
fn keys_that_are_paths_stay_in_the_directory() {
    let keys = ["../../etc/passwd", "/abs", "index", "a b\nc", "é", "..", "CON"];
    let world = DlqHarness::keyed(&keys);
    let mut run = world.begin();
    for item in 1..=keys.len() {
        run.happen(item, &[started(1), failed(1), died(1)]);
    }
    run.finish();
    let directory = world.home.layout.dlq_items_dir(&world.home.job);
    assert_eq!(fs::read_dir(directory).unwrap().count(), keys.len());
    let queue = world.queue();
    for key in keys {
        let item = ItemId::from_key(key);
        assert_eq!(queue.entry(&item).unwrap().unwrap().item_id, item);
    }
}

#[test]
fn two_readers_see_whole_entries_while_a_writer_is_at_work() {
    const ITEMS: usize = 300;
    let world = DlqHarness::sized(ITEMS);
    let mut run = world.begin();
    let (layout, job) = (&world.home.layout, &world.home.job);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut most = 0;
                while most < ITEMS {
                    let queue = DeadLetterStore::open(layout, job).unwrap();
                    let headings: Vec<_> = queue.summaries().map(Result::unwrap).collect();
                    let items: std::collections::HashSet<_> =
                        headings.iter().map(|heading| &heading.item_id).collect();
                    assert_eq!(items.len(), headings.len());
                    assert!(headings.len() >= most);
                    most = headings.len();
                    if let Some(newest) = headings.first() {
                        assert!(queue.entry(&newest.item_id).unwrap().is_some());
                    }
                }
            });
        }
        for item in 1..=ITEMS {
            run.happen(item, &[started(1), failed(1), died(1)]);
            if item % 7 == 0 {
                run.settle();
            }
        }
        run.finish();
    });
    assert_eq!(world.queue().open_entries(), ITEMS as u64);
}

/// Lets the next thousand items die, and returns how long that takes.
fn thousand(run: &mut Doing<'_>, number: usize) -> Duration {
    let items = (1..=1000).map(|item| number * 1000 + item);
    let records: Vec<_> =
        items.flat_map(|item| run.record(item, &[started(1), failed(1), died(1)])).collect();
    let start = std::time::Instant::now();
    run.hear(&records);
    run.settle();
    start.elapsed()
}

#[test]
fn the_ten_thousandth_entry_costs_what_the_first_did() {
    const THOUSANDS: usize = 10;
    let world = DlqHarness::sized(THOUSANDS * 1000);
    let mut run = world.begin();
    let (mut first, mut last) = (Duration::MAX, Duration::MAX);
    for number in 0..THOUSANDS {
        let took = thousand(&mut run, number);
        // Whatever else the machine does, it does to both.
        if number >= THOUSANDS - 5 {
            last = last.min(took);
            let fresh = DlqHarness::sized(1000);
            let mut begun = fresh.begin();
            first = first.min(thousand(&mut begun, 0));
            begun.finish();
        }
    }
    run.finish();
    assert!(last < first * 2, "{last:?} after {first:?}");
    let queue = world.queue();
    assert_eq!(queue.open_entries(), 10_000);
    let listed = (0..5).map(|_| {
        let start = std::time::Instant::now();
        assert_eq!(queue.summaries().take(20).map(Result::unwrap).count(), 20);
        start.elapsed()
    });
    let listed = listed.min().unwrap();
    assert!(listed.as_millis() < 200, "{listed:?}");
    assert_eq!(queue.summaries().map(Result::unwrap).count(), 10_000);
}

#[test]
fn a_job_that_never_was_has_no_queue() {
    let world = DlqHarness::new(&["1"]);
    let error = DeadLetterStore::open(&world.home.layout, &"other".parse().unwrap()).unwrap_err();
    insta::assert_snapshot!(error, @"there is no job `other`");
}
