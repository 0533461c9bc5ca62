//! A handler of the error policy that is stopped or killed runs once more, on the same files, and
//! its item is not tried again.

use std::fs;

use prodigy_testkit::TestEnv;
use rustix::process::Signal;

use crate::fixture::{
    map_job::{assert_code, beside, map_world, of_type, started},
    workflow::SpawnedProdigy,
};

const WORKFLOW: &str = r#"
error_policy:
  on_item_failure: custom:rescue
  handlers:
    rescue:
      - shell: |
          echo "$(cat draft.txt) $(cat done.txt) $PRODIGY_ATTEMPT" >> ROOT/handled
          echo more >> draft.txt
          if ! test -e ROOT/go; then touch ROOT/waits; sleep 60; fi
map:
  input: { items: [bad] }
  agent_template:
    - shell: |
        echo try >> ROOT/tries
        echo committed > done.txt; git add done.txt; git commit --quiet -m done
        echo uncommitted > draft.txt
        exit 3
"#;

/// Cuts a run off while the handler is at work.
fn cut_off(world: &TestEnv, mut run: SpawnedProdigy, signal: Signal) {
    let waits = world.root().join("waits");
    run.until(world, "the handler runs", || waits.exists());
    fs::remove_file(&waits).unwrap();
    run.signal(signal);
    drop(run.seen(world));
}

/// Cuts the handler off by signals, one run after the other, and lets it finish at last.
pub(crate) fn handled_after(signals: &[Signal]) -> TestEnv {
    let world = map_world(WORKFLOW);
    for (number, signal) in signals.iter().enumerate() {
        let run = match number {
            0 => started(&world),
            _ => SpawnedProdigy::new(&world, &["resume", "job", "-y"]),
        };
        cut_off(&world, run, *signal);
    }
    fs::write(world.root().join("go"), "").unwrap();
    let resumed = world.prodigy(&["resume", "job", "-y"]);
    assert!(resumed.code.is_some(), "{resumed}");
    world
}

#[track_caller]
fn assert_handled(world: &TestEnv, times: usize) {
    assert_eq!(beside(world, "tries"), "try\n", "the item is not tried again");
    assert_eq!(beside(world, "handled"), "uncommitted committed 1\n".repeat(times));
    let counts = ["agent_started", "agent_failed", "handler_restarted", "item_skipped"]
        .map(|kind| of_type(world, kind).len());
    assert_eq!(counts, [1, 1, times - 1, 1]);
    assert_code(&world.prodigy(&["verify", "job"]), 0);
}

#[test]
fn a_handler_that_is_stopped_again_and_again_is_all_that_runs_again() {
    let world = handled_after(&[Signal::TERM, Signal::INT, Signal::TERM, Signal::TERM]);
    assert_handled(&world, 5);
}

#[test]
fn a_handler_that_is_killed_is_all_that_runs_again() {
    let world = handled_after(&[Signal::KILL, Signal::KILL]);
    assert_handled(&world, 3);
}

#[test]
fn a_handler_that_is_killed_three_times_leaves_a_dead_letter_with_all_its_work() {
    let world = handled_after(&[Signal::KILL, Signal::KILL, Signal::KILL]);
    assert_eq!(beside(&world, "tries"), "try\n");
    let dead = of_type(&world, "item_dead_lettered");
    let kinds: Vec<_> =
        dead.iter().map(|record| record.pointer("/failure/kind").cloned().unwrap()).collect();
    assert_eq!(kinds, ["poison_repeat"]);
    let reference = "refs/prodigy/job/failed/item-001.handler";
    let show = |object: String| world.git(&["cat-file", "-p", &object]);
    assert_eq!(show(format!("{reference}:files/draft.txt")), "uncommitted");
    assert_eq!(show(format!("{reference}^:done.txt")), "committed");
    let entry = world.prodigy(&["dlq", "inspect", "job", "item-001"]);
    assert!(entry.stdout.contains(reference), "{entry}");
}
