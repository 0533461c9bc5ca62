//! What becomes of items whose attempts fail: the actions, the retries, the limits.

use insta::assert_snapshot;
use serde_json::json;

use crate::fixture::{
    map_job::{
        assert_code, beside, counts, go, has_told, letter, map_world, of_type, sorted, started,
        trace, trace_of,
    },
    workflow::stable,
};

/// Returns a workflow of four items, of which `bad` fails, one at a time.
fn one_bad(policy: &str) -> String {
    format!(
        r#"
map:
  input: {{ items: [one, bad, three, four] }}
  max_parallel: 1
  agent_template:
    - name: work
      shell: 'echo ran >> ROOT/ran.${{item}}; test "${{item}}" != bad || {{ echo no good >&2; exit 7; }}'
{policy}
reduce:
  - name: count
    shell: echo "${{map.successful}} ${{map.failed}} ${{map.skipped}}" > ROOT/reduced
"#
    )
}

#[test]
fn a_failed_item_goes_to_the_dead_letter_queue_and_the_others_go_on() {
    let world = map_world(&one_bad(""));
    assert_snapshot!(stable(&go(&world)), @r#"
    ----- stderr -----
    · job job · workflow.yml · mapreduce
    · 4 items
    ✓ item-001  [time]
    ✓ item-003  [time]
    ✓ item-004  [time]
    ~ map: 3/4 done · 1 failed · 1 in DLQ  [time]
    ✓ reduce.1 count  [time]

    completed with failures · 3 of 4 items done · [time]
    items: 3 successful, 1 in the DLQ
    failures:
      command_failed: `work` failed with exit code 7: no good  item-002
    nothing to merge: the steps made no commit
    dead letters: $ROOT/home/dlq/repo/job/mapreduce/dlq/job/items
    next: prodigy dlq show job
    "#);
    assert_snapshot!(trace(&world), @"
    item-001 agent_started 1
    item-001 agent_completed 1
    item-002 agent_started 1
    item-002 agent_failed 1 command_failed then dead_letter
    item-002 item_dead_lettered 1 command_failed
    item-003 agent_started 1
    item-003 agent_completed 1
    item-004 agent_started 1
    item-004 agent_completed 1
    job job_completed completed_with_failures
    ");
    assert_eq!(beside(&world, "reduced"), "3 1 0\n");
    let letter = letter(&world, "item-002");
    let told = ["item_id", "item_data", "status", "topic", "reason_code", "reason", "attempts"];
    let told: Vec<_> = told.iter().map(|name| format!("{name} {}", letter[name])).collect();
    assert_snapshot!(told.join("\n"), @r#"
        item_id "item-002"
        item_data "bad"
        status "open"
        topic "map.1"
        reason_code "command_failed"
        reason "`work` failed with exit code 7: no good"
        attempts 1
        "#);
    let attempt = &letter["failure_history"][0];
    assert_eq!((&attempt["exit_code"], &attempt["output_tail"]), (&json!(7), &json!("no good")));
    let log = attempt["json_log_location"].as_str().unwrap();
    assert_eq!(std::fs::read_to_string(log).unwrap(), "no good\n");
}

#[test]
fn retry_without_a_retry_config_tries_three_times() {
    let world = map_world(&one_bad("error_policy: { on_item_failure: retry }"));
    assert_code(&go(&world), 0);
    assert_snapshot!(trace_of(&world, "item-002"), @"
        item-002 agent_started 1
        item-002 agent_failed 1 command_failed then retry
        item-002 agent_retrying 2 after 1000ms
        item-002 agent_started 2
        item-002 agent_failed 2 command_failed then retry
        item-002 agent_retrying 3 after 2000ms
        item-002 agent_started 3
        item-002 agent_failed 3 command_failed then dead_letter
        item-002 item_dead_lettered 3 command_failed
        ");
}

#[test]
fn a_skipped_item_is_no_dead_letter() {
    let world = map_world(&one_bad("error_policy: { on_item_failure: skip }"));
    assert_snapshot!(stable(&go(&world)), @r#"
    ----- stderr -----
    · job job · workflow.yml · mapreduce
    · 4 items
    ✓ item-001  [time]
    ✓ item-003  [time]
    ✓ item-004  [time]
    ~ map: 3/4 done · 1 failed  [time]
    ✓ reduce.1 count  [time]

    completed with failures · 3 of 4 items done · [time]
    items: 3 successful, 1 left out
    failures:
      command_failed: `work` failed with exit code 7: no good  item-002
    nothing to merge: the steps made no commit
    next: prodigy events job
    "#);
    assert_snapshot!(trace_of(&world, "item-002"), @"
    item-002 agent_started 1
    item-002 agent_failed 1 command_failed then skip
    item-002 item_skipped `on_item_failure` is `skip`
    ");
    assert_eq!(beside(&world, "reduced"), "3 0 1\n");
    assert!(!world.home().join("dlq/repo/job/mapreduce").exists());
}

/// What stops the job at the second item, in three ways of saying so and one at the top level.
#[test]
fn a_job_that_the_policy_stops_leaves_the_rest_pending_and_goes_on_when_resumed() {
    let ways = [
        (
            "error_policy: { on_item_failure: stop }",
            "an item failed, and `on_item_failure` is `stop`",
        ),
        (
            "error_policy: { continue_on_failure: false }",
            "an item failed, and `continue_on_failure` is false",
        ),
        ("error_policy: { max_failures: 1 }", "1 item failed, and `max_failures` is 1"),
        ("max_failures: 1", "1 item failed, and `max_failures` is 1"),
        (
            "failure_threshold: 0.4\nerror_policy: { min_items: 2 }",
            "1 of 2 items failed, and `failure_threshold` is 0.4",
        ),
    ];
    for (policy, why) in ways {
        let world = map_world(&one_bad(policy));
        assert_code(&go(&world), 5);
        let paused = of_type(&world, "job_paused");
        assert_eq!(paused.last().unwrap()["message"], why, "{policy}");
        assert_eq!(paused.last().unwrap()["reason"], "policy");
        assert_eq!(counts(&world), (1, 1, 0), "{policy}");
        assert_eq!(beside(&world, "ran.three"), "", "{policy}");
        assert_code(&world.prodigy(&["resume", "job", "-y", "--no-dlq"]), 0);
        // What had failed before is not held against the rest.
        assert_eq!(counts(&world), (3, 1, 0), "{policy}");
        assert_eq!(beside(&world, "ran.one"), "ran\n");
        assert_eq!(beside(&world, "reduced"), "3 1 0\n");
    }
}

#[test]
fn a_failure_threshold_waits_until_enough_items_have_finished() {
    let world = map_world(&one_bad("failure_threshold: 0.2\nerror_policy: { min_items: 4 }"));
    assert_code(&go(&world), 5);
    assert_eq!(beside(&world, "ran.four"), "ran\n");
    assert_eq!(
        of_type(&world, "job_paused").last().unwrap()["message"],
        "1 of 4 items failed, and `failure_threshold` is 0.2"
    );
    // Exactly the share that is allowed is allowed.
    let world = map_world(&one_bad("failure_threshold: 0.5\nerror_policy: { min_items: 2 }"));
    assert_code(&go(&world), 0);
}

#[test]
fn items_that_run_when_the_policy_stops_the_job_may_finish() {
    let world = map_world(
        r#"
map:
  input: { items: [slow, bad, later] }
  max_parallel: 2
  agent_template:
    - shell: |
        case "${item}" in
          bad) while ! test -e ROOT/slow; do sleep 0.01; done; exit 1 ;;
          slow) touch ROOT/slow; while ! test -e ROOT/go; do sleep 0.01; done ;;
        esac
on_item_failure: stop
"#,
    );
    let mut run = started(&world);
    run.until(&world, "the bad one has failed", || has_told(&world, "item_dead_lettered"));
    std::fs::write(world.root().join("go"), "").unwrap();
    assert_code(&run.seen(&world), 5);
    assert_eq!(counts(&world), (1, 1, 0));
    assert_snapshot!(trace_of(&world, "item-003"), @"");
}

#[test]
fn a_custom_handler_sees_the_item_and_the_error_and_settles_the_item() {
    let world = map_world(&one_bad(
        r#"error_policy:
  on_item_failure: custom:rescue
  handlers:
    rescue:
      - shell: 'echo "${item}|${item_id}|${error.exit_code}|${error.reason}|${error.message}" > ROOT/handled; pwd > ROOT/where'
      - write_file: { path: rescued.txt, content: "${item}" }
"#,
    ));
    assert_code(&go(&world), 0);
    assert_snapshot!(beside(&world, "handled"), @"bad|item-002|7|command_failed|`work` failed with exit code 7: no good");
    assert_snapshot!(trace_of(&world, "item-002"), @"
    item-002 agent_started 1
    item-002 agent_failed 1 command_failed then handler
    item-002 item_skipped it was left to `rescue`
    ");
    assert_eq!(beside(&world, "reduced"), "3 0 1\n");
    assert!(beside(&world, "where").ends_with("/worktrees/repo/job/agent-1\n"));
}

#[test]
fn an_item_whose_handler_fails_is_a_dead_letter() {
    let world = map_world(&one_bad(
        r#"error_policy:
  on_item_failure: custom:rescue
  handlers: { rescue: [{ shell: "exit 9" }, { shell: "touch ROOT/never" }] }
"#,
    ));
    assert_code(&go(&world), 0);
    assert_snapshot!(trace_of(&world, "item-002"), @"
    item-002 agent_started 1
    item-002 agent_failed 1 command_failed then handler
    item-002 item_dead_lettered 1 command_failed
    ");
    assert_snapshot!(letter(&world, "item-002")["reason"].as_str().unwrap(), @"`work` failed with exit code 7: no good; its handler failed too: exit code 9");
    assert!(!world.root().join("never").exists());
}

#[test]
fn retries_come_first_whatever_becomes_of_the_item_then() {
    let handlers = "handlers: { rescue: [{ shell: 'true' }] }, ";
    for (action, more, ending) in [
        ("dlq", "", "item-002 item_dead_lettered 2 command_failed"),
        ("retry", "", "item-002 item_dead_lettered 2 command_failed"),
        ("stop", "", "item-002 item_dead_lettered 2 command_failed"),
        ("skip", "", "item-002 item_skipped `on_item_failure` is `skip`"),
        ("custom:rescue", handlers, "item-002 item_skipped it was left to `rescue`"),
    ] {
        let policy = format!(
            "error_policy: {{ on_item_failure: {action}, {more}retry_config: {{ max_attempts: 2, backoff: {{ type: fixed, delay: 10ms }} }} }}"
        );
        let world = map_world(&one_bad(&policy));
        assert_code(&go(&world), if action == "stop" { 5 } else { 0 });
        assert_eq!(beside(&world, "ran.bad"), "ran\nran\n", "{action}");
        let trace = trace_of(&world, "item-002");
        assert_eq!(trace.lines().last(), Some(ending), "{trace}");
        let retry = "item-002 agent_retrying 2 after 10ms";
        assert!(trace.lines().any(|line| line == retry), "{trace}");
    }
}

/// Returns the waits between the attempts of an item that fails each time.
fn waits(retry: &str) -> Vec<u64> {
    let world = map_world(&format!(
        "map: {{ input: {{ items: [x] }}, agent_template: [{{ shell: exit 1 }}] }}\nretry_config: {retry}\n"
    ));
    assert_code(&go(&world), 1);
    let retries = of_type(&world, "agent_retrying");
    let at = |record: &serde_json::Value, name: &str| -> prodigy_core::Timestamp {
        record[name].as_str().unwrap().parse().unwrap()
    };
    // No attempt begins before its time, which counts from when the last one failed.
    let starts = of_type(&world, "agent_started");
    for (retry, start) in retries.iter().zip(starts.iter().skip(1)) {
        assert!(at(start, "timestamp") >= at(retry, "retry_at"), "{retry} {start}");
        let wait = at(retry, "retry_at").as_millisecond() - at(retry, "timestamp").as_millisecond();
        assert!(wait <= retry["delay_ms"].as_i64().unwrap() + 1, "{retry}");
    }
    retries.iter().map(|retry| retry["delay_ms"].as_u64().unwrap()).collect()
}

#[test]
fn the_waits_between_attempts_are_the_documented_series() {
    assert_eq!(waits("{ max_attempts: 4, backoff: { type: fixed, delay: 15ms } }"), [15, 15, 15]);
    assert_eq!(
        waits("{ max_attempts: 4, backoff: { type: linear, initial: 10ms, increment: 5ms } }"),
        [15, 20, 25]
    );
    assert_eq!(
        waits("{ max_attempts: 5, backoff: { type: exponential, initial: 5ms } }"),
        [5, 10, 20, 40]
    );
    assert_eq!(
        waits("{ max_attempts: 4, backoff: { type: exponential, initial: 4ms, multiplier: 3 } }"),
        [4, 12, 36]
    );
    assert_eq!(
        waits("{ max_attempts: 6, backoff: { type: fibonacci, initial: 4ms } }"),
        [4, 4, 8, 12, 20]
    );
}

#[test]
fn waits_have_a_limit_and_may_vary() {
    assert_eq!(
        waits(
            "{ max_attempts: 5, max_delay: 25ms, backoff: { type: exponential, initial: 10ms } }"
        ),
        [10, 20, 25, 25]
    );
    let waits = waits("{ max_attempts: 9, jitter: true, backoff: { type: fixed, delay: 40ms } }");
    assert_eq!(waits.len(), 8);
    assert!(waits.iter().all(|wait| (20..=40).contains(wait)), "{waits:?}");
    assert!(waits.iter().any(|wait| *wait != waits[0]), "{waits:?}");
}

#[test]
fn an_item_that_succeeds_at_last_is_no_failure() {
    let world = map_world(
        r#"
map:
  input: { items: [x] }
  agent_template: [{ shell: "echo $PRODIGY_ATTEMPT >> ROOT/tries; test $PRODIGY_ATTEMPT = 3" }]
retry_config: { max_attempts: 5, backoff: { type: fixed, delay: 1ms } }
"#,
    );
    assert_code(&go(&world), 0);
    assert_eq!(beside(&world, "tries"), "1\n2\n3\n");
    assert_eq!(of_type(&world, "job_completed")[0]["status"], "completed");
}

#[test]
fn only_the_failures_named_in_retry_on_are_tried_again() {
    let world = map_world(
        r#"
map:
  input: { items: [said, plain, unknown] }
  max_parallel: 1
  agent_template:
    - shell: |
        echo "${item}" >> ROOT/tries
        case "${item}" in
          said) echo '{"reason_code": "network_error"}' > "$PRODIGY_RESULT_FILE" ;;
          unknown) echo '{"reason_code": "nonsense"}' > "$PRODIGY_RESULT_FILE" ;;
        esac
        exit 3
retry_config: { max_attempts: 2, retry_on: [network_error, timeout], backoff: { type: fixed, delay: 1ms } }
"#,
    );
    assert_code(&go(&world), 1);
    assert_snapshot!(sorted(&world, "tries"), @"
    plain
    said
    said
    unknown
    ");
    assert_eq!(letter(&world, "item-001")["reason_code"], "network_error");
    assert_eq!(letter(&world, "item-002")["reason_code"], "command_failed");
    assert_eq!(letter(&world, "item-003")["reason_code"], "unclassified");
}

#[test]
fn a_handler_can_be_named_without_a_prefix() {
    let world = map_world(
        r"
map:
  input: { items: [a] }
  agent_template: [{ shell: exit 1 }]
error_policy:
  on_item_failure: explain
  handlers: { explain: [{ shell: touch ROOT/explained }] }
",
    );
    assert_code(&go(&world), 1);
    assert!(world.root().join("explained").exists());
    assert_eq!(of_type(&world, "item_skipped")[0]["reason"], "it was left to `explain`");
}

#[test]
fn a_handler_that_does_not_exist_is_refused_with_the_nearest_name() {
    for (action, message) in [
        ("explian", "there is no handler `explian` in `error_policy.handlers`"),
        ("custom:explian", "there is no handler `explian` in `error_policy.handlers`"),
    ] {
        let world = map_world(&format!(
            "map:\n  input: {{ items: [a] }}\n  agent_template: [{{ shell: exit 1 }}]\non_item_failure: {action}\nerror_policy: {{ handlers: {{ explain: [{{ shell: 'true' }}] }} }}\n"
        ));
        let seen = world.prodigy(&["validate", "workflow.yml"]);
        assert_code(&seen, 9);
        assert!(seen.stderr.contains(message), "{seen}");
        assert!(seen.stderr.contains("did you mean `explain`?"), "{seen}");
    }
}
