//! How fast dead letters are replayed, and when their replays stop by themselves.

use std::time::Duration;

use insta::assert_snapshot;
use prodigy_core::Timestamp;
use prodigy_testkit::TestEnv;
use rustix::process::Signal;

use crate::{
    dlq::retry::{assert_whole, does, mend, replayed, retry},
    fixture::{
        map_job::{assert_code, of_type},
        replay::{died_of, dlq, write_policy},
        workflow::{SpawnedProdigy, stable},
    },
};

/// Returns when dead letters were claimed.
fn claims(world: &TestEnv) -> Vec<Timestamp> {
    let records = of_type(world, "replay_started");
    records.iter().map(|record| record["timestamp"].as_str().unwrap().parse().unwrap()).collect()
}

const ALL: [(&str, &str); 3] =
    [("a", "network_error"), ("b", "network_error"), ("c", "network_error")];

#[test]
fn no_more_replays_start_than_the_rate_allows() {
    let world = died_of("", &ALL);
    assert_code(&retry(&world, &["--rate", "5/s", "--max-parallel", "3"]), 3);
    let claims = claims(&world);
    assert_eq!(claims.len(), 3);
    for pair in claims.windows(2) {
        let gap = pair[1].duration_since(pair[0]);
        assert!(gap.unsigned_abs() >= Duration::from_millis(200), "{gap:?}");
    }
    assert_snapshot!(retry(&world, &["--rate", "fast"]), @"
    ----- stderr -----
    error: invalid value 'fast' for '--rate <N/TIME>': `fast` is not a rate; write for example `6/min` or `1/s`

    For more information, try '--help'.
    [exit 2]
    ");
}

#[test]
fn flags_make_replays_slower_than_the_policy_and_never_faster() {
    let policy = "version: v1\nvelocity: { rate: 5/s, concurrency: 1 }\n";
    let world = died_of(policy, &ALL);
    let seen = retry(&world, &["--rate", "100/s", "--max-parallel", "3"]);
    assert_code(&seen, 3);
    assert!(seen.stderr.contains("note: the policy allows 5/s, not 100/s"), "{seen}");
    assert!(seen.stderr.contains("note: the policy allows 1 at once, not 3"), "{seen}");
    for pair in claims(&world).windows(2) {
        assert!(pair[1].duration_since(pair[0]).unsigned_abs() >= Duration::from_millis(200));
    }
}

#[test]
fn a_canary_that_fails_as_before_stops_the_others() {
    let world = died_of("", &ALL);
    does(
        &world,
        "a",
        "echo '{\"reason_code\": \"network_error\"}' > \"$PRODIGY_RESULT_FILE\"; exit 1",
    );
    mend(&world, "b");
    mend(&world, "c");
    let seen = stable(&retry(&world, &["--canary"]));
    assert_snapshot!(seen, @"
    ----- stderr -----
    · job job resumed · 0 of 3 items done
    ~ map: 0/3 done · 3 failed · 3 in DLQ  [time]
    stopped: 2 entries of cause `NetworkError::work failed with exit code <n>`: one that went first failed with the same error; nothing was changed about them

    failed: no item succeeded · [time]
    replayed: 0 resolved, 1 back in the DLQ
    job: 0 successful, 3 in the DLQ, 1 tried more than once
    failures:
      network_error: `work` failed with exit code 1  item-001
    nothing to merge: the steps made no commit
    dead letters: $ROOT/home/dlq/repo/job/mapreduce/dlq/job/items
    next: prodigy dlq show job
    [exit 3]
    ");
    assert_eq!(replayed(&world), "item-001");
    mend(&world, "a");
    assert_code(&retry(&world, &["--canary"]), 0);
    assert_eq!(replayed(&world), "item-001 item-001 item-002 item-003");
    assert_whole(&world);
}

#[test]
fn too_many_failures_stop_a_wave() {
    let policy = "version: v1\nvelocity: { canary: [2], abort_failure_ratio: 0.5 }\n";
    let world = died_of(policy, &ALL);
    for item in ["a", "b"] {
        does(&world, item, "exit 3");
    }
    let seen = retry(&world, &[]);
    assert!(seen.stderr.contains("2 of 2 failed, and `abort_failure_ratio` is 0.5"), "{seen}");
    assert_eq!(replayed(&world), "item-001 item-002");
}

#[test]
fn who_waits_for_the_next_replay_can_be_stopped() {
    let world = died_of("", &ALL);
    for item in ["a", "b", "c"] {
        mend(&world, item);
    }
    for signal in [Signal::INT, Signal::TERM] {
        let before = claims(&world).len();
        let mut run = SpawnedProdigy::new(&world, &["dlq", "retry", "job", "--rate", "1/h"]);
        // The rate holds over runs, so only the first of them claims one.
        if before == 0 {
            run.until(&world, "one is done", || of_type(&world, "agent_completed").len() == 1);
        } else {
            run.until(&world, "it waits", || of_type(&world, "job_resumed").len() == 2);
        }
        run.signal(signal);
        let seen = run.seen(&world);
        assert_code(&seen, if signal == Signal::INT { 130 } else { 143 });
    }
    assert_eq!(replayed(&world), "item-001");
    assert_code(&retry(&world, &[]), 0);
    assert_eq!(replayed(&world), "item-001 item-002 item-003");
    assert_whole(&world);
}

#[test]
fn what_the_policy_says_at_the_moment_of_the_claim_counts() {
    let world = died_of("", &ALL);
    let mut run = SpawnedProdigy::new(&world, &["dlq", "retry", "job", "--rate", "1/2s"]);
    run.until(&world, "one is claimed", || !claims(&world).is_empty());
    write_policy(&world, "version: v1\ndefaults: { action: manual_review }\n");
    world.commit_all("Leave all to people");
    let seen = run.seen(&world);
    assert_code(&seen, 3);
    assert!(
        seen.stderr.contains("not replayed: item-002: the replay policy was changed meanwhile"),
        "{seen}"
    );
    assert_eq!(claims(&world).len(), 1);
    assert_code(&dlq(&world, "ben", &["plan", "job"]), 10);
}
