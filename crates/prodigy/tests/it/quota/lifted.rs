//! When a usage limit counts as lifted: only an agent that was served shows it.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use std::fs;

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;
use serde_json::Value;

use crate::fixture::{
    map_job::{assert_code, go, map_world, of_type, started},
    workflow::records,
};

/// Returns what happened around a limit, one line for each record.
fn story(world: &TestEnv) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let line = |record: &Value| {
        let kind = text(&record["event_type"]);
        let item = text(&record["item_id"]);
        let more = match kind.as_str() {
            "quota_paused" | "quota_resumed" | "agent_started" | "agent_released" => String::new(),
            "agent_failed" | "step_failed" => text(&record["failure"]["kind"]),
            "agent_usage" => format!("served {}", record["served"] == true),
            "step_completed" => text(&record["step"]),
            "job_completed" => text(&record["status"]),
            _ => return None,
        };
        let words = [item, kind, more];
        let words: Vec<_> = words.iter().filter(|word| !word.is_empty()).cloned().collect();
        Some(words.join(" "))
    };
    records(world).iter().filter_map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn an_attempt_whose_command_fails_first_does_not_lift_a_limit() {
    let world = map_world(
        r#"
agents:
  own:
    type: command
    command: [sh, ROOT/agent.sh]
    prompt: stdin
map:
  input: { items: [a, b, c] }
  item_key: item
  max_parallel: 1
  agent_template:
    - shell: "test ${item} != b"
    - agent: { use: own, prompt: "${item}" }
"#,
    );
    // The first two are refused: the item that met the limit, and then tried it.
    let script = "if mkdir ROOT/one 2>/dev/null || mkdir ROOT/two 2>/dev/null; then\n\
         echo \"Claude AI usage limit reached|$(($(date +%s) + 3))\"; exit 1; fi; echo done\n";
    let script = script.replace("ROOT", &world.root().display().to_string());
    fs::write(world.root().join("agent.sh"), script).unwrap();
    let seen = started(&world).seen(&world);
    assert_code(&seen, 0);
    assert_snapshot!(story(&world), @"
    a agent_started
    a step_completed 1
    a agent_usage served false
    a agent_released
    quota_paused
    a agent_started
    a agent_usage served false
    a agent_released
    quota_paused
    b agent_started
    b step_failed command_failed
    b agent_failed command_failed
    c agent_started
    c step_completed 1
    c agent_usage served true
    quota_resumed
    c step_completed 2
    a agent_started
    a agent_usage served true
    a step_completed 2
    job_completed completed_with_failures
    ");
    let said: Vec<_> = seen.stderr.lines().filter(|line| line.contains("served again")).collect();
    assert_eq!(said.len(), 1, "{seen}");
}

#[test]
fn a_command_after_the_items_neither_waits_for_a_limit_nor_lifts_it() {
    let world = map_world(
        r#"
agents:
  claude:
    type: simulated
    rules: [{ fault: usage_limit, reset_after: 1h }]
map:
  input: { items: [a] }
  item_key: item
  agent_template:
    - { claude: "publish ${item}", effects: external }
reduce:
  - shell: touch ROOT/reduced
"#,
    );
    let seen = go(&world);
    assert_code(&seen, 1);
    assert_snapshot!(story(&world), @"
    a agent_started
    a agent_usage served false
    a agent_failed unknown_commit_state
    quota_paused
    step_completed reduce.1
    job_completed completed_with_failures
    ");
    assert!(world.root().join("reduced").is_file());
    assert!(!seen.stderr.contains("lifted"), "{seen}");
}

#[test]
fn an_agent_after_the_items_waits_for_a_limit_and_lifts_it() {
    let world = map_world(
        r#"
agents:
  claude:
    type: simulated
    rules: [{ fault: usage_limit, reset_after: 2s, answer: done }]
map:
  input: { items: [a] }
  item_key: item
  agent_template:
    - { claude: "publish ${item}", effects: external }
reduce:
  - shell: "true"
  - claude: sum up
"#,
    );
    assert_code(&started(&world).seen(&world), 1);
    assert_snapshot!(story(&world), @"
    a agent_started
    a agent_usage served false
    a agent_failed unknown_commit_state
    quota_paused
    step_completed reduce.1
    agent_usage served true
    quota_resumed
    step_completed reduce.2
    job_completed completed_with_failures
    ");
    let [paused, resumed] = ["quota_paused", "quota_resumed"].map(|kind| of_type(&world, kind));
    let until = paused[0]["paused_until"].as_str().unwrap();
    assert!(resumed[0]["timestamp"].as_str().unwrap() > until);
}
