//! The circuit breaker, time limits, and when failures are told.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use std::{collections::BTreeSet, fs, time::Duration};

use insta::assert_snapshot;
use prodigy_core::Timestamp;
use prodigy_testkit::TestEnv;
use serde_json::Value;

use crate::{
    fixture::{
        map_job::{
            assert_code, beside, counts, go, has_told, letter, map_world, of_type, started, trace,
        },
        workflow::{records, stable},
    },
    process::{eventually, marked},
};

fn moment(value: &Value) -> Timestamp {
    value.as_str().unwrap().parse().unwrap()
}

/// Returns how many attempts that began among these records were under way at most.
fn busiest(records: &[Value]) -> usize {
    let (mut busy, mut most) = (BTreeSet::new(), 0);
    for record in records {
        let item = record["item_id"].as_str().unwrap_or_default();
        match record["event_type"].as_str().unwrap() {
            "agent_started" => drop(busy.insert(item)),
            "agent_completed" | "agent_failed" => drop(busy.remove(item)),
            _ => {}
        }
        most = most.max(busy.len());
    }
    most
}

/// Checks that no attempt began while the circuit was open, and that it was open long enough.
#[track_caller]
fn assert_gated(world: &TestEnv) {
    let mut open: Option<Timestamp> = None;
    for record in records(world) {
        match record["event_type"].as_str().unwrap() {
            "circuit_open" => open = Some(moment(&record["until"])),
            "circuit_half_open" => {
                let until = open.take().unwrap();
                assert!(moment(&record["timestamp"]) >= until, "too early: {record}");
            }
            "agent_started" => assert_eq!(open, None, "started while open: {record}"),
            _ => {}
        }
    }
}

#[test]
fn the_circuit_opens_after_failures_in_a_row_and_closes_after_successes() {
    let world = map_world(
        r#"
map:
  input: { items: [bad, bad, good, bad, bad, bad, good, good, good] }
  max_parallel: 1
  agent_template: [{ shell: 'test "${item}" = good' }]
error_policy:
  circuit_breaker: { failure_threshold: 3, success_threshold: 2, timeout: 200ms, half_open_requests: 2 }
"#,
    );
    assert_code(&go(&world), 0);
    // Two failures and a success are not three in a row.
    assert_snapshot!(trace(&world), @"
    item-001 agent_started 1
    item-001 agent_failed 1 command_failed then dead_letter
    item-001 item_dead_lettered 1 command_failed
    item-002 agent_started 1
    item-002 agent_failed 1 command_failed then dead_letter
    item-002 item_dead_lettered 1 command_failed
    item-003 agent_started 1
    item-003 agent_completed 1
    item-004 agent_started 1
    item-004 agent_failed 1 command_failed then dead_letter
    item-004 item_dead_lettered 1 command_failed
    item-005 agent_started 1
    item-005 agent_failed 1 command_failed then dead_letter
    item-005 item_dead_lettered 1 command_failed
    item-006 agent_started 1
    item-006 agent_failed 1 command_failed then dead_letter
    item-006 item_dead_lettered 1 command_failed
    job circuit_open after 3
    job circuit_half_open
    item-007 agent_started 1
    item-007 agent_completed 1
    item-008 agent_started 1
    item-008 agent_completed 1
    job circuit_closed
    item-009 agent_started 1
    item-009 agent_completed 1
    job job_completed completed_with_failures
    ");
    assert_gated(&world);
    assert_eq!(counts(&world), (4, 5, 0));
}

#[test]
fn a_failure_while_the_circuit_is_half_open_opens_it_again_and_items_only_wait() {
    let world = map_world(
        r#"
map:
  input: { items: [bad, bad, bad, good, good] }
  max_parallel: 1
  agent_template: [{ shell: 'test "${item}" = good' }]
circuit_breaker: { failure_threshold: 2, success_threshold: 1, timeout: 100ms, half_open_requests: 1 }
"#,
    );
    let seen = go(&world);
    assert_code(&seen, 0);
    assert_snapshot!(trace(&world), @"
    item-001 agent_started 1
    item-001 agent_failed 1 command_failed then dead_letter
    item-001 item_dead_lettered 1 command_failed
    item-002 agent_started 1
    item-002 agent_failed 1 command_failed then dead_letter
    item-002 item_dead_lettered 1 command_failed
    job circuit_open after 2
    job circuit_half_open
    item-003 agent_started 1
    item-003 agent_failed 1 command_failed then dead_letter
    item-003 item_dead_lettered 1 command_failed
    job circuit_open after 1
    job circuit_half_open
    item-004 agent_started 1
    item-004 agent_completed 1
    job circuit_closed
    item-005 agent_started 1
    item-005 agent_completed 1
    job job_completed completed_with_failures
    ");
    assert_gated(&world);
    assert_snapshot!(stable(&seen), @"
    ----- stderr -----
    · job job · workflow.yml · mapreduce
    · 5 items
    ✗ circuit open: 2 attempts in a row failed; the next may start in [time]
    · circuit half open: a few attempts are let through
    ✗ circuit open: an attempt failed; the next may start in [time]
    · circuit half open: a few attempts are let through
    ✓ item-004  [time]
    ✓ circuit closed
    ✓ item-005  [time]
    ~ map: 2/5 done · 3 failed · 3 in DLQ  [time]

    completed with failures · 2 of 5 items done · [time]
    items: 2 successful, 3 in the DLQ
    failures:
      3 × CommandFailed, e.g. test <q> = good failed with exit code <n>
          Review error logs for more details
    nothing to merge: the steps made no commit
    dead letters: $ROOT/home/dlq/repo/job/mapreduce/dlq/job/items
    next: prodigy dlq show job
    ");
}

#[test]
fn a_half_open_circuit_lets_only_a_few_attempts_run_at_once() {
    let world = map_world(
        r#"
map:
  input: { items: [bad, held, held, held, a, b, c, d, e, f, g, h] }
  max_parallel: 4
  agent_template:
    - shell: |
        case "${item}" in
          bad) exit 1 ;;
          held) while ! test -e ROOT/opened; do sleep 0.01; done ;;
          *) sleep 1 ;;
        esac
circuit_breaker: { failure_threshold: 1, success_threshold: 3, timeout: 300ms, half_open_requests: 3 }
"#,
    );
    let mut run = started(&world);
    run.until(&world, "the circuit is open", || has_told(&world, "circuit_open"));
    fs::write(world.root().join("opened"), "").unwrap();
    assert_code(&run.seen(&world), 0);
    let all = records(&world);
    let at = |kind: &str| all.iter().position(|record| record["event_type"] == kind).unwrap();
    let (open, half, closed) = (at("circuit_open"), at("circuit_half_open"), at("circuit_closed"));
    assert!(open < half && half < closed);
    assert_eq!(busiest(&all[half..closed]), 3, "{}", trace(&world));
    // Closed, it lets as many through as fit.
    assert!(busiest(&all[closed..]) > 3, "{}", trace(&world));
    assert_gated(&world);
    // What had begun before the circuit opened may finish.
    assert_eq!(counts(&world), (11, 1, 0));
}

#[test]
fn a_time_limit_ends_every_process_of_an_attempt() {
    let world = map_world(
        r#"
map:
  input: { items: [hangs, fine] }
  max_parallel: 2
  agent_timeout_secs: 3
  agent_template:
    - shell: |
        test "${item}" = hangs || exit 0
        trap '' TERM INT HUP
        setsid sh -c 'trap "" TERM HUP; touch ROOT/daemon; while :; do sleep 1; done' >/dev/null 2>&1 &
        while ! test -e ROOT/daemon; do sleep 0.01; done
        while :; do sleep 1; done
    - shell: touch ROOT/second.${item}
"#,
    );
    assert_code(&go(&world), 0);
    let failed = &of_type(&world, "agent_failed")[0];
    assert_eq!(failed["failure"]["message"], "the attempt took longer than 3s");
    assert_eq!(letter(&world, "item-001")["reason_code"], "timeout");
    assert!(world.root().join("daemon").exists());
    assert!(!world.root().join("second.hangs").exists());
    assert!(world.root().join("second.fine").exists());
    let root = world.root().display().to_string();
    eventually("nothing of it runs", Duration::from_secs(5), || marked(&root).is_empty());
    // It took its grace and no more.
    assert!(failed["duration_ms"].as_u64().unwrap() < 8000, "{failed}");
}

#[test]
fn a_time_limit_covers_all_steps_of_an_attempt_together() {
    let world = map_world(
        r"
map:
  input: { items: [x] }
  agent_timeout: 3s
  agent_template: [{ shell: sleep 2 }, { shell: sleep 2 }, { shell: touch ROOT/third }]
retry_config: { max_attempts: 2, retry_on: [timeout], backoff: { type: fixed, delay: 1ms } }
",
    );
    assert_code(&go(&world), 1);
    // Each attempt has the whole time; a timeout is worth another try.
    assert_snapshot!(trace(&world), @"
    item-001 agent_started 1
    item-001 agent_failed 1 timeout then retry
    item-001 agent_retrying 2 after 1ms
    item-001 agent_started 2
    item-001 agent_failed 2 timeout then dead_letter
    item-001 item_dead_lettered 2 timeout
    job job_completed completed_with_failures
    ");
    assert_eq!(of_type(&world, "agent_failed")[1]["step"], "2");
    assert!(!world.root().join("third").exists());
}

/// Runs three items that fail, and returns what is said before the summary.
fn told(collection: &str) -> String {
    let world = map_world(&format!(
        r#"
map:
  input: {{ items: [1, 2, 3] }}
  max_parallel: 1
  agent_template: [{{ shell: "exit ${{item}}" }}]
{collection}
retry_config: {{ max_attempts: 2, backoff: {{ type: fixed, delay: 0ms }} }}
"#
    ));
    let seen = go(&world);
    assert_code(&seen, 1);
    let seen = stable(&seen);
    let lines = seen.lines().skip(3).take_while(|line| !line.contains("map:"));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn failures_are_told_at_once_in_batches_or_at_the_end() {
    assert_snapshot!(told("error_collection: immediate"), @"
    ~ item-001 at step 1: `exit ${item}` failed with exit code 1; attempt 2 follows
    ✗ item-001 at step 1: `exit ${item}` failed with exit code 1; in the DLQ after 2 attempts
    ~ item-002 at step 1: `exit ${item}` failed with exit code 2; attempt 2 follows
    ✗ item-002 at step 1: `exit ${item}` failed with exit code 2; in the DLQ after 2 attempts
    ~ item-003 at step 1: `exit ${item}` failed with exit code 3; attempt 2 follows
    ✗ item-003 at step 1: `exit ${item}` failed with exit code 3; in the DLQ after 2 attempts
    ");
    let batched = told("error_collection: batched:2");
    assert_snapshot!(batched, @"
    ✗ item-001 at step 1: `exit ${item}` failed with exit code 1; in the DLQ after 2 attempts
    ✗ item-002 at step 1: `exit ${item}` failed with exit code 2; in the DLQ after 2 attempts
    ✗ item-003 at step 1: `exit ${item}` failed with exit code 3; in the DLQ after 2 attempts
    ");
    assert_eq!(told("error_collection: { batched: { size: 2 } }"), batched);
    assert_eq!(told("error_policy: { error_collection: { batched: { size: 2 } } }"), batched);
    assert_eq!(told("error_collection: aggregate"), "");
}

#[test]
fn settings_at_the_top_level_are_those_of_the_error_policy() {
    let items = "map: { input: { items: [a, b, c] }, max_parallel: 1, agent_template: [{ shell: exit 1 }] }\n";
    let settings = [
        "on_item_failure: skip",
        "continue_on_failure: false",
        "max_failures: 2",
        "failure_threshold: 0.5",
        "retry_config: { max_attempts: 2, backoff: { type: fixed, delay: 0ms } }",
        "circuit_breaker: { failure_threshold: 1, timeout: 50ms }",
    ];
    for setting in settings {
        let traces =
            [format!("{setting}\n"), format!("error_policy:\n  {setting}\n")].map(|policy| {
                let world = map_world(&format!("{items}{policy}"));
                let seen = go(&world);
                (seen.code, trace(&world), beside(&world, "none"))
            });
        assert_eq!(traces[0], traces[1]);
        let plain = map_world(items);
        go(&plain);
        let differs = traces[0].1 != trace(&plain);
        // The share is judged from the tenth item on: here it must change nothing.
        assert_eq!(differs, !setting.starts_with("failure_threshold"), "{setting}");
    }
}

#[test]
fn half_open_requests_bounds_the_trials_of_one_half_open_phase() {
    let world = map_world(
        r#"
map:
  input: { items: [bad, held, held, held, quick, slow, other, other, other] }
  max_parallel: 4
  agent_template:
    - shell: |
        case "${item}" in
          bad) exit 1 ;;
          held) while ! test -e ROOT/opened; do sleep 0.01; done ;;
          slow) sleep 2 ;;
        esac
circuit_breaker: { failure_threshold: 1, success_threshold: 2, timeout: 300ms, half_open_requests: 2 }
"#,
    );
    let mut run = started(&world);
    run.until(&world, "the circuit is open", || has_told(&world, "circuit_open"));
    fs::write(world.root().join("opened"), "").unwrap();
    assert_code(&run.seen(&world), 0);
    let all = records(&world);
    let at = |kind: &str| all.iter().position(|record| record["event_type"] == kind).unwrap();
    let phase = &all[at("circuit_half_open")..at("circuit_closed")];
    let trials = phase.iter().filter(|record| record["event_type"] == "agent_started").count();
    assert_eq!(trials, 2, "{}", trace(&world));
    assert_eq!(counts(&world), (8, 1, 0));
}

#[test]
fn a_trial_that_was_stopped_does_not_count() {
    let world = map_world(
        r#"
map:
  input: { items: [bad, held, other, other] }
  max_parallel: 1
  agent_template:
    - shell: |
        case "${item}" in
          bad) exit 1 ;;
          held) if ! test -e ROOT/opened; then touch ROOT/began; sleep 60; fi ;;
        esac
circuit_breaker: { failure_threshold: 1, success_threshold: 1, timeout: 100ms, half_open_requests: 1 }
"#,
    );
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::KILL] {
        let mut run = if world.root().join("began").exists() {
            fs::remove_file(world.root().join("began")).unwrap();
            crate::fixture::workflow::SpawnedProdigy::new(
                &world,
                &["resume", "job", "-y", "--no-dlq"],
            )
        } else {
            started(&world)
        };
        run.until(&world, "the trial is under way", || world.root().join("began").exists());
        run.signal(signal);
        drop(run.seen(&world));
    }
    fs::write(world.root().join("opened"), "").unwrap();
    let seen = world.prodigy(&["resume", "job", "-y", "--no-dlq"]);
    assert_code(&seen, 0);
    assert_eq!(of_type(&world, "circuit_open").len(), 1, "{}", trace(&world));
    assert_eq!(of_type(&world, "circuit_closed").len(), 1, "{}", trace(&world));
    assert_eq!(counts(&world), (3, 1, 0));
}

#[test]
fn the_advice_about_timeouts_names_a_key_that_exists() {
    let world = map_world(
        r"
map:
  input: { items: [a, b, c] }
  timeout_per_agent: 500ms
  agent_template: [{ shell: sleep 60 }]
",
    );
    let seen = go(&world);
    assert_code(&seen, 1);
    assert!(seen.stderr.contains("3 \u{d7} Timeout"), "{seen}");
    assert!(seen.stderr.contains("Consider increasing timeout_per_agent"), "{seen}");
    assert!(letter(&world, "item-001")["reason"].as_str().unwrap().contains("500ms"));
}
