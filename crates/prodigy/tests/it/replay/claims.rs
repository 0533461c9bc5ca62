//! Claims of governed replays: each once, whoever asks and whatever is killed.

use std::fs;

use insta::assert_snapshot;
use rustix::process::Signal;

use crate::{
    dlq::retry::{assert_whole, does, mend, replayed, retry, statuses},
    fixture::{
        map_job::{assert_code, letter, of_type, resume},
        replay::{died_of, dlq, trail},
        workflow::SpawnedProdigy,
    },
};

const ALL: [(&str, &str); 3] =
    [("a", "network_error"), ("b", "network_error"), ("c", "network_error")];

#[test]
fn of_two_that_are_asked_for_at_once_each_entry_is_claimed_once() {
    let world = died_of("", &ALL);
    for item in ["a", "b", "c"] {
        mend(&world, item);
    }
    let runs = [
        SpawnedProdigy::new(&world, &["dlq", "retry", "job"]),
        SpawnedProdigy::new(&world, &["dlq", "retry", "job"]),
    ];
    for run in runs {
        assert_code(&run.seen(&world), 0);
    }
    assert_eq!(replayed(&world), "item-001 item-002 item-003");
    let intended = trail(&world).lines().filter(|line| line.contains("intended")).count();
    assert_eq!(intended, 3);
    assert_whole(&world);
}

#[test]
fn a_replay_that_is_killed_is_finished_and_its_end_is_recorded() {
    let world = died_of("", &[("a", "network_error")]);
    fs::write(world.root().join("hold"), "").unwrap();
    does(&world, "a", "touch ROOT/begun; while test -e ROOT/hold; do sleep 0.02; done");
    let mut run = SpawnedProdigy::new(&world, &["dlq", "retry", "job"]);
    let begun = world.root().join("begun");
    run.until(&world, "it begins", || begun.exists());
    run.signal(Signal::KILL);
    run.seen(&world);
    assert_snapshot!(trail(&world), @"ann replay intended item-001 [replay built-in:network_error]");
    fs::remove_file(world.root().join("hold")).unwrap();
    assert_code(&resume(&world), 0);
    assert_eq!(statuses(&world), "item-001 resolved");
    assert_eq!(replayed(&world), "item-001", "it was claimed before");
    assert_snapshot!(trail(&world), @"
    ann replay intended item-001 [replay built-in:network_error]
    ann replay done item-001 [- -]
    ");
    assert_whole(&world);
}

#[test]
fn an_entry_that_was_tampered_with_is_not_replayed() {
    let world = died_of("", &[("a", "network_error"), ("b", "network_error")]);
    let path = world.home().join("dlq/repo/job/mapreduce/dlq/job/items/item-001.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"attempts\": 1", "\"attempts\": 0")).unwrap();
    mend(&world, "b");
    let seen = retry(&world, &[]);
    assert_code(&seen, 0);
    assert!(seen.stderr.contains("not replayed: item-001:"), "{seen}");
    assert_eq!(replayed(&world), "item-002");
    assert_code(&dlq(&world, "ben", &["fsck", "job"]), 0);
    assert_code(&retry(&world, &[]), 3);
    assert_eq!(replayed(&world), "item-002 item-001");
}

#[test]
fn the_claim_says_who_asked_by_which_rule_and_what_it_waits_if_it_fails() {
    let world = died_of("", &[("a", "network_error")]);
    assert_code(&dlq(&world, "ben", &["retry", "job", "--reason", "the net is back"]), 3);
    let claim = &of_type(&world, "replay_started")[0];
    assert_eq!(
        (&claim["by"], &claim["reason"]),
        (&"ben@example.com".into(), &"the net is back".into())
    );
    assert_eq!(claim["allowed"]["rule"], "built-in:network_error");
    assert!(claim["allowed"]["wait_ms"].as_u64().unwrap() >= 15_000, "{claim}");
    assert!(letter(&world, "item-001")["not_before"].is_string());
    assert_snapshot!(trail(&world), @"
    ben replay intended item-001 [replay built-in:network_error]
    ben replay failed item-001 [replay built-in:network_error]
    ");
}
