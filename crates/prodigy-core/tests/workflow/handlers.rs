//! `on_failure` and `on_success` in every shape.

use crate::support::{errors, steps};

#[test]
fn on_failure_has_five_shapes() {
    insta::assert_snapshot!(steps("
- {shell: a, on_failure: true}
- {shell: b, on_failure: false}
- {shell: c, on_failure: npm cache clean}
- {shell: d, on_failure: /fix it}
- {shell: e, on_failure: [clean, /diagnose, {shell: again, continue_on_error: true}]}
- {shell: f, on_failure: {claude: /fix, shell: first, max_attempts: 3, fail_workflow: true}}
- shell: g
  on_failure:
    strategy: fallback
    timeout: 300
    handler_failure_fatal: true
    capture: {log: handler_output}
    commands:
      - shell: rollback
        continue_on_error: true
      - claude: /analyze ${error.message}
"), @r#"
    shell: a
      on_failure: Recovery, 1 attempts, goes on
    shell: b
    shell: c
      on_failure: Recovery, 1 attempts
        shell: npm cache clean
    shell: d
      on_failure: Recovery, 1 attempts
        claude: /fix it
    shell: e
      on_failure: Recovery, 1 attempts
        shell: clean
        claude: /diagnose
        shell: again
          continue_on_error: true
    shell: f
      on_failure: Recovery, 3 attempts, fail_workflow
        shell: first
        claude: /fix
    shell: g
      on_failure: Fallback, 1 attempts, handler_failure_fatal, timeout 5m 00s, captures ["log"]
        shell: rollback
          continue_on_error: true
        claude: /analyze ${error.message}
    "#);
}

#[test]
fn settings_beside_on_failure_are_settings_of_the_handler() {
    insta::assert_snapshot!(steps("
- {shell: a, on_failure: {claude: /fix}, max_attempts: 3, fail_workflow: true}
- {shell: b, on_failure: /fix, max_retries: 2}
- {shell: c, on_failure: true, max_attempts: 4}
"), @"
    shell: a
      on_failure: Recovery, 3 attempts, fail_workflow
        claude: /fix
    shell: b
      on_failure: Recovery, 2 attempts
        claude: /fix
    shell: c
      on_failure: Recovery, 4 attempts, goes on
    ");
}

#[test]
fn a_setting_in_both_places_is_an_error() {
    insta::assert_snapshot!(errors("
- shell: a
  on_failure: {claude: /fix, max_attempts: 2, fail_workflow: false}
  max_attempts: 3
  fail_workflow: true
- shell: b
  on_failure: {claude: /fix, max_retries: 2, max_attempts: 2}
"), @"
    main.yml:4:3: error: `max_attempts` stands here and in `on_failure`
        keep the one in `on_failure`
    main.yml:5:3: error: `fail_workflow` stands here and in `on_failure`
        keep the one in `on_failure`
    main.yml:7:46: error: `max_retries` and `max_attempts` mean the same
        keep `max_attempts`
    ");
}

#[test]
fn contradictions_in_a_handler_are_errors() {
    insta::assert_snapshot!(errors("
- shell: a
  on_failure: {shell: x, commands: [y]}
- shell: b
  on_failure: {shell: x, strategy: cleanup, max_attempts: 2}
- shell: c
  on_failure: {shell: x, strategy: clean}
- shell: d
  on_failure: 7
- shell: e
  on_failure: {shell: x, strategy: custom}
  max_attempts: 3
"), @"
    main.yml:3:26: error: `on_failure` has one way to name commands, found `shell` and `commands`
    main.yml:3:37: error: each element of `commands` must be a mapping, found `y`
        write `shell: …` or `claude: …`
    main.yml:5:15: error: a handler with `strategy: cleanup` never tries the step again
        use `strategy: recovery`, or remove `max_attempts`
    main.yml:7:36: error: `strategy` must be `recovery`, `fallback`, `cleanup` or `custom`, found `clean`
        did you mean `cleanup`?
    main.yml:11:15: error: a handler with `strategy: custom` never tries the step again
        use `strategy: recovery`, or remove `max_attempts`
    ");
}

#[test]
fn on_success_is_a_full_step_or_two() {
    insta::assert_snapshot!(steps("
- shell: deploy
  on_success:
    shell: notify ${shell.output}
    claude: /update-docs
    timeout: 60
- shell: build
  on_success:
    claude: /update-metrics
    capture: metrics
    working_dir: dist
    on_failure: true
"), @"
    shell: deploy
      on_success:
        shell: notify ${shell.output}
          timeout: 1m 00s
        claude: /update-docs
          timeout: 1m 00s
    shell: build
      on_success:
        claude: /update-metrics
          working_dir: dist
          capture: metrics Auto Stdout
          on_failure: Recovery, 1 attempts, goes on
    ");
}

#[test]
fn two_actions_share_only_what_can_hold_for_both() {
    insta::assert_snapshot!(errors("
- shell: deploy
  on_success: {shell: a, claude: /b, capture: x, id: y}
"), @"
    main.yml:3:38: error: `capture` cannot belong to both `shell` and `claude`
        write two commands
    main.yml:3:50: error: `id` cannot belong to both `shell` and `claude`
        write two commands
    ");
}
