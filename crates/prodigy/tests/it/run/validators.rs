//! Agents that judge whether a step is done: what they say counts, not that they answered.

use insta::assert_snapshot;

use crate::fixture::{
    map_job::{assert_code, beside, go, map_world, of_type},
    workflow::{run, world},
};

/// Runs a step that an agent judges, with this configuration of the agent; returns how it ended.
fn judged(agent: &str) -> String {
    let world = world(&format!(
        "agents: {{ claude: {{ {agent} }} }}\n\
         steps:\n  - {{ shell: 'true', validate: {{ claude: judge, threshold: 70 }} }}\n"
    ));
    let seen = run(&world);
    seen.lines().find(|line| line.contains(" 1 shell: true")).unwrap_or(&seen).to_owned()
}

#[test]
fn an_agent_judges_by_what_it_says_and_not_by_ending_well() {
    let agents = [
        r#"type: simulated, rules: [{ answer: 'Nearly. {"completion_percentage": 80}' }]"#,
        r#"type: simulated, rules: [{ answer: '{"completion_percentage": 60}' }]"#,
        "type: simulated, rules: [{ answer: 'All done, 100 %!' }]",
        "type: simulated, rules: [{ fault: error, answer: no idea }]",
        r#"type: command, exit_codes: { 3: command_failed }, command: [sh, -c, "echo '{\"completion_percentage\": 80}'; exit 3"]"#,
    ];
    assert_snapshot!(agents.map(judged).join("\n"), @r#"
    ✓ 1 shell: true  [time]
    ✗ 1 shell: true: validation found 60 % done, and 70 % is wanted
    ✗ 1 shell: true: the judge's answer cannot be used: it has no JSON object with `completion_percentage` or `status`, but this: `All done, 100 %!`
    ✗ 1 shell: true: validate: no idea
    ✗ 1 shell: true: validate: the agent exited with code 3: {"completion_percentage": 80}
    "#);
}

/// A step that is never judged complete, with everything that would follow a failure.
const INCOMPLETE: &str = r#"shell: echo tried >> ROOT/tried; echo the output
      validate:
        shell: 'echo "{\"completion_percentage\": 60}"'
        on_incomplete: { shell: echo mended >> ROOT/mended, fail_workflow: false }
      retry: { attempts: 3, backoff: { type: fixed, delay: 0s } }
      on_failure: { shell: touch ROOT/handled, max_attempts: 2, fail_workflow: true }
      on_success: { shell: 'echo "${shell.output} ${validation.completion_percentage}" > ROOT/succeeded' }
"#;

#[test]
fn a_step_counts_as_done_when_its_judge_may_be_unsatisfied() {
    let world = map_world(&format!(
        "setup:\n    - {INCOMPLETE}map:\n  input: {{ items: [a] }}\n  agent_template:\n    - {INCOMPLETE}"
    ));
    let seen = go(&world);
    assert_code(&seen, 0);
    // Once in setup and once for the item, each with two new judgements.
    assert_eq!(beside(&world, "tried"), "tried\ntried\n", "{seen}");
    assert_eq!(beside(&world, "mended"), "mended\nmended\nmended\nmended\n");
    assert_eq!(beside(&world, "succeeded"), "the output 60\n");
    assert!(!world.root().join("handled").exists(), "{seen}");
    assert!(seen.stderr.contains("\ncompleted \u{b7} 1 of 1 item done"), "{seen}");
    let status = |record: &serde_json::Value| record.get("status").cloned();
    let done = of_type(&world, "step_completed");
    assert!(done.iter().all(|record| status(record) == Some("success".into())), "{done:#?}");
    // That the judge was not satisfied is on record.
    let told = of_type(&world, "agent_warned");
    let messages: Vec<_> =
        told.iter().filter_map(|record| record.get("message")?.as_str()).collect();
    let message = "validation found 60 % done, and 100 % is wanted; it counts as done";
    assert_eq!(messages, [message, message], "{seen}");
    assert!(seen.stderr.contains(message), "{seen}");
}

#[test]
fn a_failure_of_the_step_itself_is_not_excused_by_its_judge() {
    let world = world(
        r#"
- shell: |
    echo '{"reason_code": "validation_failed"}' > "$PRODIGY_RESULT_FILE"; exit 1
  validate: { shell: 'true', on_incomplete: { shell: 'true', fail_workflow: false } }
"#,
    );
    let seen = run(&world);
    assert!(seen.contains("failed at step 1"), "{seen}");
}
