//! Rehearsals of steps that change something outside, wherever they stand.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::{
    fixture::map_job::assert_code,
    simulate::command::{simulate, world},
};

#[test]
fn no_step_that_changes_something_outside_is_run_wherever_it_stands() {
    let world = world(
        r#"
setup:
  - { shell: touch ROOT/outside-setup, effects: external }
map:
  input: { items: [a, b, c] }
  agent_template:
    - shell: exit 3
      on_exit_code: { 3: { shell: touch ROOT/outside-code, effects: external } }
      on_failure: true
    - shell: echo x > "${item_id}"; git add .; git commit --quiet --message x
      on_success: { shell: touch ROOT/outside-success, effects: external }
      validate:
        commands: [{ shell: "touch ROOT/outside-judge", effects: external }]
    - foreach: { input: [1], do: [{ shell: touch ROOT/outside-each, effects: external }] }
    - shell: exit 1
      on_failure: { commands: [{ shell: touch ROOT/outside-failure, effects: external }] }
      when: item == "b"
    - { shell: exit 1, when: item == "c" }
reduce:
  - { shell: touch ROOT/outside-reduce, effects: external }
merge:
  - shell: git update-ref refs/heads/main "${merge.source_branch}"
  - { shell: touch ROOT/outside-merge, effects: external }
error_policy:
  on_item_failure: custom:tell
  handlers: { tell: [{ shell: touch ROOT/outside-handler, effects: external }] }
"#,
    );
    world.write("faults.yml", "rules: [{ prompt: judge, answer: '{\"status\": \"complete\"}' }]\n");
    let seen = simulate(&world, &["--faults", "faults.yml", "--json"]);
    assert_code(&seen, 0);
    let document: Value = serde_json::from_str(&seen.stdout).unwrap();
    let would_run = document["would_run"].as_array().unwrap();
    let step = |one: &Value| one["step"].as_str().unwrap().rsplit('-').next().unwrap().to_owned();
    let mut steps: Vec<_> = would_run.iter().map(step).collect();
    steps.sort();
    assert_snapshot!(steps.join(" "), @"code each failure handler judge merge reduce setup success");
}

#[test]
fn a_check_of_what_is_outside_is_not_run_and_finds_nothing() {
    let world = world(
        r"
map:
  input: { items: [a] }
  agent_template:
    - shell: touch ROOT/outside-made
      effects: external
      check: touch ROOT/outside-checked
error_policy:
  retry_config: { max_attempts: 2, backoff: { type: fixed, delay: 1ms } }
",
    );
    world.write("faults.yml", "rules: [{ fault: crash, times: 1 }]\n");
    let seen = simulate(&world, &["--faults", "faults.yml", "--json", "--fail-on-dlq"]);
    assert_code(&seen, 0);
    let document: Value = serde_json::from_str(&seen.stdout).unwrap();
    assert_eq!(document["retries"], json!({ "agent_crashed": 1 }), "{seen}");
}

#[test]
fn who_judges_or_merges_is_stood_in_for() {
    let world = world(
        r#"
map:
  input: { items: [a] }
  agent_template:
    - claude: work
      commit_required: true
      validate: { claude: judge, threshold: 90 }
    - shell: test "${validation.completion_percentage}" -eq 100
    - shell: "true"
      validate: { commands: [{ shell: judge outside, effects: external }], result_file: judged.json }
merge:
  - claude: "merge ${merge.source_branch}"
  - { shell: git push origin main, effects: external }
"#,
    );
    let seen = simulate(&world, &["--json"]);
    assert_code(&seen, 0);
    let document: Value = serde_json::from_str(&seen.stdout).unwrap();
    assert_eq!(document["would_run"].as_array().unwrap().len(), 2, "{document:#}");
    // What a rule says of the judge holds.
    let rule = r#"rules: [{ prompt: "^judge$", answer: '{"completion_percentage": 89}' }]"#;
    world.write("faults.yml", rule);
    let seen = simulate(&world, &["--faults", "faults.yml"]);
    assert!(
        seen.stderr.contains("dead letter: item-001 after 1 attempt: validation_failed"),
        "{seen}"
    );
}
