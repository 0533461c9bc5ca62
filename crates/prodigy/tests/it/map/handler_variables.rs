//! The variables that a handler sees: the failure it is for, whatever its own commands do.

use crate::fixture::{
    map_job::{assert_code, beside, go, letter, map_world, of_type},
    workflow::{stable, world},
};

/// Runs steps of a sequential workflow; `ROOT` stands for the world.
fn ran(steps: &str) -> prodigy_testkit::TestEnv {
    let world = world("");
    let root = world.root().display().to_string();
    world.write("workflow.yml", steps.trim_start().replace("ROOT", &root));
    world.commit_all("Write the steps");
    let seen = world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "job"]);
    assert_code(&seen, 0);
    world
}

#[test]
fn error_variables_and_output_of_the_failed_step_stay_after_a_handler_command_failed() {
    let world = ran(r#"
- name: broken
  shell: echo from the step; exit 7
  on_failure:
    commands:
      - shell: echo from the first command; exit 3
        continue_on_error: true
      - shell: printf '%s\n' "${error.step} ${error.exit_code} ${error.reason} ${error.attempt}" "${error.message}" "${shell.output}" "${last.output}" > ROOT/second
"#);
    assert_eq!(
        beside(&world, "second"),
        "broken 7 command_failed 1\nexit code 7\nfrom the step\nfrom the first command\n"
    );
}

#[test]
fn output_of_the_failed_step_stays_after_a_handler_command_succeeded() {
    let world = ran(r#"
- shell: echo from the step; echo on stderr >&2; exit 7
  on_failure:
    - shell: echo from the first command
    - shell: printf '%s\n' "${shell.output}" "${last.output}" > ROOT/second
- shell: echo from the step; exit 8
  on_exit_code:
    8:
      foreach:
        input: [x]
        do:
          - shell: echo from the first command
          - shell: printf '%s\n' "${shell.output}" > ROOT/by-code
"#);
    assert_eq!(beside(&world, "second"), "from the step\non stderr\nfrom the first command\n");
    assert_eq!(beside(&world, "by-code"), "from the step\n");
}

#[test]
fn handler_of_a_handler_sees_its_own_failure_and_the_outer_one_sees_its_own_again() {
    let world = ran(r#"
- name: outer
  shell: echo outer output; exit 7
  on_failure:
    commands:
      - name: inner
        shell: echo inner output; exit 3
        on_failure:
          - shell: echo nothing
          - shell: echo "${error.step} ${error.exit_code} ${shell.output}" > ROOT/inner
      - foreach:
          input: [x]
          do:
            - shell: echo in the loop
            - shell: echo "${error.step} ${error.exit_code} ${shell.output}" > ROOT/loop
      - shell: echo "${error.step} ${error.exit_code} ${shell.output}" > ROOT/outer
"#);
    assert_eq!(beside(&world, "inner"), "inner 3 inner output\n");
    assert_eq!(beside(&world, "loop"), "outer 7 outer output\n");
    assert_eq!(beside(&world, "outer"), "outer 7 outer output\n");
}

#[test]
fn each_try_of_a_step_sees_the_output_of_the_step_before_it() {
    let world = ran(r#"
- shell: echo before
- shell: echo "handled ${shell.output}" >> ROOT/handled; test "$PRODIGY_ATTEMPT" = 3
  on_failure:
    shell: echo from the handler
    max_attempts: 3
- shell: echo before
- shell: echo "judged ${shell.output}" >> ROOT/judged
  validate: { shell: 'echo "{}"; test "$(wc -l < ROOT/judged)" = 2' , result_file: verdict.json }
  retry: { attempts: 2, backoff: { type: fixed, delay: 0s } }
  continue_on_error: true
"#);
    assert_eq!(beside(&world, "handled"), "handled before\nhandled before\nhandled before\n");
    assert_eq!(beside(&world, "judged"), "judged before\njudged before\n");
}

#[test]
fn steps_after_a_handler_see_no_error() {
    let world = map_world(
        r#"
map:
  input: { items: [a] }
  agent_template:
    - { shell: exit 7, on_failure: 'true' }
    - { shell: 'echo "${error.exit_code:-none}" > ROOT/after' }
"#,
    );
    assert_code(&go(&world), 0);
    assert_eq!(beside(&world, "after"), "none\n");
}

#[test]
fn policy_handler_sees_the_failure_of_the_item_in_each_command() {
    let world = map_world(
        r#"
map:
  input: { items: [a] }
  agent_template:
    - { name: work, shell: echo from the item; exit 7 }
error_policy:
  on_item_failure: custom:explain
  handlers:
    explain:
      - { shell: echo from the first; exit 3, continue_on_error: true }
      - { shell: echo from the second }
      - { shell: 'echo "${error.step} ${error.exit_code} ${shell.output}" > ROOT/policy' }
"#,
    );
    assert_code(&go(&world), 1);
    assert_eq!(beside(&world, "policy"), "work 7 from the item\n");
}

#[test]
fn output_of_a_loop_holds_what_failed_rounds_printed() {
    let world = ran(r#"
- id: loop
  foreach:
    input: [a, b, c]
    continue_on_error: true
    do:
      - shell: echo "good ${item}"
      - shell: echo "bad ${item}"; test ${item} != b
      - shell: echo "end ${item}"
  on_failure: { shell: 'echo "${shell.output}" > ROOT/handler', capture: { said: output } }
- shell: echo "${steps.loop.output}" > ROOT/after
"#);
    let printed = "good a\nbad a\nend a\ngood b\nbad b\ngood c\nbad c\nend c\n";
    assert_eq!(beside(&world, "handler"), printed);
    assert_eq!(beside(&world, "after"), printed);
}

#[test]
fn dead_letter_keeps_the_reason_of_its_item_when_its_handler_fails() {
    let world = map_world(
        r"
map:
  input: { items: [a] }
  agent_template:
    - { shell: echo no number, capture: n, capture_format: number }
error_policy:
  on_item_failure: custom:notify
  handlers: { notify: [{ shell: echo cannot notify; exit 4 }] }
",
    );
    assert_code(&go(&world), 1);
    let letter = letter(&world, "item-001");
    assert_eq!(letter["reason_code"], "parse_error", "{letter:#}");
    assert_eq!(letter["replay_status"], "quarantined");
    let reason = letter["reason"].as_str().unwrap();
    assert!(reason.starts_with("cannot capture `n`"), "{reason}");
    assert!(reason.contains("; its handler failed too: exit code 4"), "{reason}");
    let seen = world.prodigy(&["dlq", "retry", "job"]);
    assert_code(&seen, 10);
    assert_eq!(of_type(&world, "replay_started").len(), 0, "{}", stable(&seen));
}
