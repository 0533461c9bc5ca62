//! Handlers in the map phase: an item counts as successful only if its failed steps were recovered.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use std::fmt::Write as _;

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;
use serde_json::Value;

use crate::fixture::map_job::{assert_code, go, map_world, of_type, trace_of};

/// Returns how an item ended: dead with its reason code, recovered, or successful.
fn end(world: &TestEnv, item: &str) -> String {
    let of_item = |kind: &str| -> Option<Value> {
        of_type(world, kind).into_iter().find(|record| record["item_id"] == item)
    };
    if let Some(dead) = of_item("item_dead_lettered") {
        return format!("dead: {}", dead["failure"]["kind"].as_str().unwrap());
    }
    let done = of_item("agent_completed").unwrap();
    let count = |field: &str| done[field].as_u64().unwrap_or_default();
    match (count("recovered"), count("ignored")) {
        (0, 0) => "successful".to_owned(),
        (recovered, ignored) => format!("recovered {recovered}, ignored {ignored}"),
    }
}

#[test]
fn items_of_the_combined_strategies_fail_when_every_try_fails() {
    // The documents' example, with quicker waits, two items whose agent always fails and one whose does not.
    let world = map_world(
        r#"
agents:
  claude:
    type: simulated
    rules:
      - { prompt: "^/process-endpoint good", answer: done }
      - { prompt: "^/diagnose-api-error", answer: looked }
      - { fault: error }
error_policy:
  on_item_failure: retry
  continue_on_failure: true
  max_failures: 50
  failure_threshold: 0.99
  retry_config:
    max_attempts: 3
    backoff:
      type: exponential
      initial: 2ms
      multiplier: 2
  circuit_breaker:
    failure_threshold: 10
    success_threshold: 3
    timeout: 60s
    half_open_requests: 5
  error_collection:
    batched:
      size: 10
map:
  input: { items: [{ path: a }, { path: b }, { path: good }] }
  item_key: item.path
  agent_template:
    - claude: "/process-endpoint ${item.path}"
      on_failure:
        # Item-level recovery before workflow-level retry
        claude: "/diagnose-api-error ${shell.output}"
        max_attempts: 2
"#,
    );
    assert_code(&go(&world), 0);
    assert_snapshot!(trace_of(&world, "a"), @"
    a agent_started 1
    a agent_failed 1 agent_error then retry
    a agent_retrying 2 after 2ms
    a agent_started 2
    a agent_failed 2 agent_error then retry
    a agent_retrying 3 after 4ms
    a agent_started 3
    a agent_failed 3 agent_error then dead_letter
    a item_dead_lettered 3 agent_error
    ");
    assert_eq!(end(&world, "b"), "dead: agent_error");
    assert_eq!(end(&world, "good"), "successful");
}

/// Runs one item for each step and returns how they ended.
fn ends(steps: &[&str]) -> String {
    let mut template = String::new();
    let mut items = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let item = format!("i{number}");
        let step = step.trim_start_matches('{');
        writeln!(template, "    - {{ when: \"item == '{item}'\", {step}").unwrap();
        items.push(item);
    }
    let world = map_world(&format!(
        "map:\n  input: {{ items: [{}, other] }}\n  item_key: item\n  max_parallel: 2\n  agent_template:\n{template}    - shell: echo done\n",
        items.join(", ")
    ));
    assert_code(&go(&world), 0);
    assert_code(&world.prodigy(&["verify", "job"]), 0);
    let line = |(item, step): (&String, &&str)| format!("{step}\n  {}", end(&world, item));
    items.iter().zip(steps).map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_step_is_recovered_by_a_new_try_or_by_a_handler_without_one() {
    assert_snapshot!(ends(&[
        "{ shell: exit 1, on_failure: 'true' }",
        "{ shell: exit 1, on_failure: ['true', 'true'] }",
        "{ shell: exit 1, on_failure: { shell: 'true' } }",
        "{ shell: test -e mended, on_failure: { shell: touch mended, max_attempts: 2 } }",
        "{ shell: exit 1, on_failure: { shell: 'true', strategy: fallback } }",
        "{ shell: exit 7, on_exit_code: { 7: { shell: 'true' } } }",
        "{ shell: exit 1, on_failure: { commands: [{ shell: exit 1, continue_on_error: true }, { shell: 'true' }] } }",
    ]), @"
    { shell: exit 1, on_failure: 'true' }
      recovered 1, ignored 0
    { shell: exit 1, on_failure: ['true', 'true'] }
      recovered 1, ignored 0
    { shell: exit 1, on_failure: { shell: 'true' } }
      recovered 1, ignored 0
    { shell: test -e mended, on_failure: { shell: touch mended, max_attempts: 2 } }
      recovered 1, ignored 0
    { shell: exit 1, on_failure: { shell: 'true', strategy: fallback } }
      recovered 1, ignored 0
    { shell: exit 7, on_exit_code: { 7: { shell: 'true' } } }
      recovered 1, ignored 0
    { shell: exit 1, on_failure: { commands: [{ shell: exit 1, continue_on_error: true }, { shell: 'true' }] } }
      recovered 1, ignored 0
    ");
}

#[test]
fn a_step_that_nothing_recovered_fails_its_item() {
    assert_snapshot!(ends(&[
        "{ shell: exit 1, on_failure: 'false' }",
        "{ shell: exit 1, on_failure: { shell: 'true', max_attempts: 2 } }",
        "{ shell: exit 1, on_failure: { shell: 'false', max_attempts: 2 } }",
        "{ shell: exit 1, on_failure: 'true', max_attempts: 3 }",
        "{ shell: exit 1, on_failure: { shell: 'true', strategy: cleanup } }",
        "{ shell: exit 1, on_failure: { shell: 'true', strategy: custom } }",
        "{ shell: exit 1, on_failure: { shell: 'false', strategy: fallback } }",
        "{ shell: exit 1, on_failure: { shell: 'true', fail_workflow: true } }",
        "{ shell: exit 1, on_failure: { commands: [{ shell: exit 1, continue_on_error: true }] } }",
        "{ shell: exit 1, on_failure: { commands: [{ shell: 'true', when: 'false' }] } }",
        "{ shell: exit 7, on_exit_code: { 7: { shell: 'false' } } }",
        "{ shell: exit 7, on_exit_code: { 7: { shell: 'false' } }, on_failure: { shell: 'true', strategy: cleanup } }",
        "{ foreach: { input: [x], do: [{ shell: exit 1, on_failure: 'false' }] } }",
    ]), @"
    { shell: exit 1, on_failure: 'false' }
      dead: command_failed
    { shell: exit 1, on_failure: { shell: 'true', max_attempts: 2 } }
      dead: command_failed
    { shell: exit 1, on_failure: { shell: 'false', max_attempts: 2 } }
      dead: command_failed
    { shell: exit 1, on_failure: 'true', max_attempts: 3 }
      dead: command_failed
    { shell: exit 1, on_failure: { shell: 'true', strategy: cleanup } }
      dead: command_failed
    { shell: exit 1, on_failure: { shell: 'true', strategy: custom } }
      dead: command_failed
    { shell: exit 1, on_failure: { shell: 'false', strategy: fallback } }
      dead: command_failed
    { shell: exit 1, on_failure: { shell: 'true', fail_workflow: true } }
      dead: command_failed
    { shell: exit 1, on_failure: { commands: [{ shell: exit 1, continue_on_error: true }] } }
      dead: command_failed
    { shell: exit 1, on_failure: { commands: [{ shell: 'true', when: 'false' }] } }
      dead: command_failed
    { shell: exit 7, on_exit_code: { 7: { shell: 'false' } } }
      dead: command_failed
    { shell: exit 7, on_exit_code: { 7: { shell: 'false' } }, on_failure: { shell: 'true', strategy: cleanup } }
      dead: command_failed
    { foreach: { input: [x], do: [{ shell: exit 1, on_failure: 'false' }] } }
      dead: command_failed
    ");
}

#[test]
fn a_failure_is_ignored_only_where_that_is_written() {
    assert_snapshot!(ends(&[
        "{ shell: exit 1, on_failure: true }",
        "{ shell: exit 1, on_failure: { shell: 'false', fail_workflow: false } }",
        "{ shell: exit 1, on_failure: { shell: 'true', max_attempts: 2 }, fail_workflow: false }",
        "{ shell: exit 1, on_failure: { shell: 'true', strategy: cleanup, fail_workflow: false } }",
        "{ shell: exit 1, on_failure: 'false', continue_on_error: true }",
        "{ shell: exit 1, continue_on_error: true }",
        "{ shell: 'true', validate: { shell: 'false', on_incomplete: { shell: 'true', fail_workflow: false } } }",
        "{ shell: exit 7, on_exit_code: { 7: { shell: 'false' } }, on_failure: true }",
    ]), @"
    { shell: exit 1, on_failure: true }
      recovered 0, ignored 1
    { shell: exit 1, on_failure: { shell: 'false', fail_workflow: false } }
      recovered 0, ignored 1
    { shell: exit 1, on_failure: { shell: 'true', max_attempts: 2 }, fail_workflow: false }
      recovered 0, ignored 1
    { shell: exit 1, on_failure: { shell: 'true', strategy: cleanup, fail_workflow: false } }
      recovered 0, ignored 1
    { shell: exit 1, on_failure: 'false', continue_on_error: true }
      recovered 0, ignored 1
    { shell: exit 1, continue_on_error: true }
      recovered 0, ignored 1
    { shell: 'true', validate: { shell: 'false', on_incomplete: { shell: 'true', fail_workflow: false } } }
      successful
    { shell: exit 7, on_exit_code: { 7: { shell: 'false' } }, on_failure: true }
      recovered 0, ignored 1
    ");
}

#[test]
fn an_item_with_a_recovered_step_says_so() {
    let world = map_world(
        "map:\n  input: { items: [fine, mended, ignored] }\n  item_key: item\n  max_parallel: 1\n  agent_template:\n    - { shell: 'test ${item} != mended', on_failure: 'true' }\n    - { shell: 'test ${item} != ignored', on_failure: true }\n",
    );
    let seen =
        world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "job", "--junit", "../junit.xml"]);
    assert_code(&seen, 0);
    assert_eq!(
        ["fine", "mended", "ignored"].map(|item| end(&world, item)),
        ["successful", "recovered 1, ignored 0", "recovered 0, ignored 1"]
    );
    assert_snapshot!(crate::fixture::workflow::stable(&seen), @"
    ----- stderr -----
    · job job · workflow.yml · mapreduce
    · 3 items
    ✓ fine  [time]
    ~ mended (1 step recovered)  [time]
    ~ ignored (1 step failed and ignored)  [time]
    ✓ map: 3/3 done  [time]

    completed with failures · 3 of 3 items done · [time]
    items: 3 successful, 1 of them recovered from a failed step, 1 of them with an ignored failure
    nothing to merge: the steps made no commit
    next: prodigy events job
    ");
    let junit = std::fs::read_to_string(world.root().join("junit.xml")).unwrap();
    assert!(junit.contains("<system-out>1 step recovered</system-out>"), "{junit}");
    assert!(junit.contains("<system-out>1 step failed and ignored</system-out>"), "{junit}");
}

#[test]
fn a_job_whose_steps_were_all_recovered_is_completed() {
    let world = map_world(
        "map:\n  input: { items: [a, b] }\n  agent_template:\n    - { shell: exit 1, on_failure: 'true' }\n",
    );
    let seen = go(&world);
    assert_code(&seen, 0);
    assert!(seen.stderr.contains("\ncompleted \u{b7} 2 of 2 items done"), "{seen}");
    assert!(
        seen.stderr.contains("items: 2 successful, 2 of them recovered from a failed step\n"),
        "{seen}"
    );
    assert_eq!(of_type(&world, "job_completed")[0]["status"], "completed");
    let listed = world.prodigy(&["jobs", "show", "job"]).stdout;
    assert!(listed.contains("status      completed\n"), "{listed}");
}

#[test]
fn an_ignored_failure_is_told_apart_from_a_recovered_one_of_the_same_item() {
    let world = map_world(
        "map:\n  input: { items: [a, b] }\n  agent_template:\n    - { shell: exit 1, on_failure: true }\n    - { shell: 'test ${item} = a', on_failure: 'true' }\n",
    );
    let seen = go(&world);
    assert_code(&seen, 0);
    assert!(
        seen.stderr.contains(
            "items: 2 successful, 1 of them recovered from a failed step, 2 of them with an ignored failure\n"
        ),
        "{seen}"
    );
    assert!(seen.stderr.contains("\ncompleted with failures \u{b7} 2 of 2 items done"), "{seen}");
    let listed = world.prodigy(&["jobs", "show", "job"]).stdout;
    assert!(listed.contains("2 of 2 done, 1 recovered, 2 with an ignored failure\n"), "{listed}");
}

#[test]
fn a_handler_of_a_sequential_step_lets_the_run_go_on() {
    let world = crate::fixture::workflow::world(
        "- { shell: exit 1, on_failure: 'false' }\n- { shell: exit 1, on_failure: { shell: 'true', max_attempts: 2 } }\n- shell: echo done\n",
    );
    let seen = crate::fixture::workflow::run(&world);
    assert!(seen.contains("completed with failures: 2 steps failed"), "{seen}");
}
