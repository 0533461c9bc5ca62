//! A provider without room, outside of items: the agent is tried again after a while.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;

use crate::fixture::{
    map_job::{assert_code, go, map_world, of_type, started},
    workflow,
};

/// Returns the tries of the steps that failed, and what followed.
fn tries(world: &TestEnv) -> String {
    let line = |record: &serde_json::Value| {
        let text = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
        let kind = record["failure"]["kind"].as_str().unwrap_or_default();
        format!("{} {} {kind} then {}", text("step"), record["attempt"], text("then"))
    };
    of_type(world, "step_failed").iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Makes a world whose agent finds no room so often, and whose items are tried again quickly.
fn world(times: u32, most: u32, workflow: &str) -> TestEnv {
    map_world(&format!(
        r"
agents:
  claude: {{ type: simulated, rules: [{{ fault: overloaded, times: {times} }}, {{ answer: done }}] }}
retry_config: {{ max_attempts: {most}, backoff: {{ type: fixed, delay: 1ms }} }}
map: {{ input: {{ items: [one] }}, agent_template: [{{ shell: touch new, auto_commit: true }}] }}
{workflow}
"
    ))
}

#[test]
fn a_step_of_a_workflow_without_items_is_tried_again() {
    for fault in ["rate_limited", "overloaded"] {
        let world = workflow::world(&format!(
            "agents: {{ claude: {{ type: simulated, rules: [{{ fault: {fault}, times: 1 }}, {{ answer: done }}] }} }}\nsteps:\n- claude: one\n"
        ));
        assert_code(&started(&world).seen(&world), 0);
        let tries = of_type(&world, "step_failed");
        assert_eq!((tries.len(), &tries[0]["then"]), (1, &"retry".into()), "{fault}");
        let attempts: Vec<_> =
            of_type(&world, "step_started").iter().map(|it| it["attempt"].clone()).collect();
        assert_eq!(attempts, [1, 2], "{fault}");
        assert_eq!(of_type(&world, "step_completed")[0]["attempt"], 2, "{fault}");
    }
}

#[test]
fn steps_of_setup_reduce_and_merge_are_tried_again_as_the_workflow_says_of_items() {
    let places = [
        "setup: [{ claude: begin }]",
        "reduce: [{ claude: sum up }]",
        "merge:\n  - { claude: look }\n  - shell: git -C ROOT/repo merge --quiet --no-edit \"${merge.source_branch}\"",
    ];
    for place in places {
        let world = world(2, 3, place);
        assert_code(&go(&world), 0);
        assert_eq!(of_type(&world, "step_failed").len(), 2, "{place}");
    }
    let world = world(2, 2, "reduce: [{ claude: sum up }]");
    assert_code(&go(&world), 1);
    assert_snapshot!(tries(&world), @"
    reduce.1 1 provider_overloaded then retry
    reduce.1 2 provider_overloaded then stop
    ");
}

#[test]
fn a_step_that_says_itself_how_it_is_tried_again_is_not_tried_otherwise() {
    let step = "reduce: [{ claude: sum up, retry: { attempts: 9, initial_delay: 1ms, retry_on: [timeout] } }]";
    let world = world(1, 3, step);
    assert_code(&go(&world), 1);
    assert_snapshot!(tries(&world), @"reduce.1 1 provider_overloaded then stop");
}

#[test]
fn what_may_have_changed_something_outside_is_not_tried_again() {
    let world = world(1, 3, "reduce: [{ claude: publish, effects: external }]");
    assert_code(&go(&world), 1);
    assert_snapshot!(tries(&world), @"reduce.1 1 provider_overloaded then stop");
}

#[test]
fn a_step_that_failed_for_another_reason_is_not_tried_again() {
    let workflow = "reduce: [{ shell: exit 3 }]";
    let world = world(1, 3, workflow);
    assert_code(&go(&world), 1);
    assert_snapshot!(tries(&world), @"reduce.1 1 command_failed then stop");
}
