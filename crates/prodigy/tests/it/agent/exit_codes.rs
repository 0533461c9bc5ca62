//! What the end of an agent means that is any program: its exit code, or its last lines.

use insta::assert_snapshot;

use crate::fixture::map_job::{assert_code, go, map_world, of_type};

#[test]
fn an_exit_code_or_the_last_lines_of_a_program_give_the_reason() {
    let world = map_world(
        r#"
agents:
  own: { type: command, command: [sh] }
retry_config: { max_attempts: 1 }
map:
  input:
    items:
      - exit 66
      - exit 69
      - exit 75
      - exit 77
      - exit 124
      - exit 126
      - exit 127
      - exit 3
      - kill -9 $$
      - echo Overloaded; exit 1
      - "echo 'error: overloaded_error' >&2; exit 1"
      - echo invalid_api_key; exit 1
      - echo 'Too many requests'; exit 1
      - "echo 'error: overloaded function'; exit 1"
  agent_template:
    - agent: { use: own, prompt: "${item}" }
"#,
    );
    assert_code(&go(&world), 1);
    let dead = of_type(&world, "item_dead_lettered");
    let row = |record: &serde_json::Value| {
        let [item, kind] = [&record["item_id"], &record["failure"]["kind"]];
        format!("{} {}", item.as_str().unwrap_or_default(), kind.as_str().unwrap_or_default())
    };
    let mut rows: Vec<_> = dead.iter().map(row).collect();
    rows.sort();
    assert_snapshot!(rows.join("\n"), @"
    item-001 input_missing
    item-002 dependency_unavailable
    item-003 dependency_unavailable
    item-004 permission_denied
    item-005 timeout
    item-006 permission_denied
    item-007 spawn_failed
    item-008 agent_error
    item-009 agent_crashed
    item-010 provider_overloaded
    item-011 provider_overloaded
    item-012 auth_failed
    item-013 rate_limited
    item-014 agent_error
    ");
}
