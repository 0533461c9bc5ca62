//! Steps: actions, modifiers, and what is wrong with them.

use std::fmt::Write;

use prodigy_core::workflow::{AutoCommit, Body, step_label};

use crate::support::{errors, steps, warnings, workflow};

#[test]
fn each_action_has_its_shape() {
    insta::assert_snapshot!(steps(r#"
- shell: cargo test
- shell: "[[ -e x ]]"
  shell_program: /bin/bash
- claude: /review
- codex: look at it
- agent: {use: helper, prompt: "do ${workflow.name}"}
- write_file: {path: "out/a.json", content: '{"a": 1}', format: json, mode: 0640, create_dirs: true}
- write_file: {path: run.sh, content: echo, mode: "755"}
- foreach:
    input: [a, 2, {b: c}]
    do:
      - shell: echo ${item} ${index} ${total}
- foreach:
    input: ls src
    parallel: 3
    continue_on_error: true
    max_items: 5
    do:
      - claude: look at ${item}
"#), @r#"
    shell: cargo test
    shell: [[ -e x ]]
      program: /bin/bash
    claude: /review
    codex: look at it
    helper: do ${workflow.name}
    write_file: out/a.json
      content: "{\"a\": 1}" Json Some("640") true
    write_file: run.sh
      content: "echo" Text Some("755") false
    foreach
      foreach: ["a", 2, {"b":"c"}] parallel 1, continue_on_error false, max_items None
        shell: echo ${item} ${index} ${total}
    foreach
      foreach: $(ls src) parallel 3, continue_on_error true, max_items Some(5)
        claude: look at ${item}
    "#);
}

#[test]
fn modifiers_are_read_and_defaults_are_filled_in() {
    insta::assert_snapshot!(steps(r#"
- id: build-1
  name: Build it
  shell: make
  when: "${params.fast} == true"
  timeout: 90
  idle_timeout: 1m 30s
  env: {A: "1", B: "${params.b}"}
  working_dir: sub
  output_file: build.log
  commit_required: true
  auto_commit: true
  continue_on_error: true
- shell: make again
"#), @"
    Build it
      id: build-1
      when: ${params.fast} == true
      timeout: 1m 30s
      idle_timeout: 1m 30s
      env: A=1 B=${params.b}
      working_dir: sub
      output_file: build.log
      commit_required: true
      auto_commit: true
      continue_on_error: true
    shell: make again
    ");
}

#[test]
fn captures_have_two_shapes_and_an_old_one() {
    insta::assert_snapshot!(steps("
- {shell: a, capture: one}
- {shell: b, capture: two, capture_format: json}
- shell: c
  capture:
    three: {format: lines, stream: stderr}
    four: {}
- {shell: d, capture_output: true}
- {shell: e, capture_output: five, capture_format: number}
- {shell: f, capture_output: false}
"), @"
    shell: a
      capture: one Auto Stdout
    shell: b
      capture: two Json Stdout
    shell: c
      capture: three Lines Stderr
      capture: four Auto Stdout
    shell: d
    shell: e
      capture: five Number Stdout
    shell: f
    ");
}

#[test]
fn a_retry_takes_a_name_or_a_full_backoff() {
    insta::assert_snapshot!(steps("
- {shell: a, retry: {}}
- {shell: b, retry: {attempts: 5, backoff: fixed, initial_delay: 2s, max_delay: 1m, jitter: true}}
- {shell: c, retry: {backoff: linear}}
- {shell: d, retry: {backoff: {type: linear, initial: 1s, increment: 500ms}}}
- {shell: e, retry: {backoff: {type: exponential, initial: 3s}}}
- {shell: f, retry: {backoff: {type: fibonacci}, retry_on: [timeout, agent_crashed]}}
"), @"
    shell: a
      retry: RetryPolicy { attempts: 3, backoff: Exponential { initial: 1s, multiplier: 2.0 }, max_delay: None, jitter: false, retry_on: [] }
    shell: b
      retry: RetryPolicy { attempts: 5, backoff: Fixed { delay: 2s }, max_delay: Some(60s), jitter: true, retry_on: [] }
    shell: c
      retry: RetryPolicy { attempts: 3, backoff: Linear { initial: 1s, increment: 1s }, max_delay: None, jitter: false, retry_on: [] }
    shell: d
      retry: RetryPolicy { attempts: 3, backoff: Linear { initial: 1s, increment: 500ms }, max_delay: None, jitter: false, retry_on: [] }
    shell: e
      retry: RetryPolicy { attempts: 3, backoff: Exponential { initial: 3s, multiplier: 2.0 }, max_delay: None, jitter: false, retry_on: [] }
    shell: f
      retry: RetryPolicy { attempts: 3, backoff: Fibonacci { initial: 1s }, max_delay: None, jitter: false, retry_on: [Timeout, AgentCrashed] }
    ");
}

#[test]
fn a_judge_has_defaults() {
    insta::assert_snapshot!(steps("
- claude: /implement
  validate:
    claude: /judge
    result_file: result.json
    on_incomplete:
      claude: /complete ${validation.gaps}
- claude: /implement
  validate:
    commands:
      - shell: a
      - claude: /b
    threshold: 80.5
    on_incomplete:
      commands: [{shell: c}]
      max_attempts: 3
      fail_workflow: false
- claude: /implement
  validate: {shell: judge}
"), @r#"
    claude: /implement
      validate: 100% Some("result.json"), 2 attempts, fail_workflow true
        claude: /judge
        else
        claude: /complete ${validation.gaps}
    claude: /implement
      validate: 80.5% None, 3 attempts, fail_workflow false
        shell: a
        claude: /b
        else
        shell: c
    claude: /implement
      validate: 100% None, 2 attempts, fail_workflow true
        shell: judge
    "#);
}

#[test]
fn a_step_can_react_to_exit_codes() {
    insta::assert_snapshot!(steps("
- shell: test
  on_exit_code:
    2: {shell: repair}
    101: {shell: a, claude: /b, timeout: 5}
"), @"
    shell: test
      on_exit_code 2:
        shell: repair
      on_exit_code 101:
        shell: a
          timeout: 5s
        claude: /b
          timeout: 5s
    ");
}

#[test]
fn what_has_no_effect_is_an_error() {
    insta::assert_snapshot!(errors("
- claude: /a
  shell_program: bash
- claude: /b
  allow_raw: true
- shell: c
  capture_format: json
- shell: d
  capture: {x: {format: json}}
  capture_format: json
- shell: e
  max_attempts: 3
- shell: f
  fail_workflow: false
- shell: g
  model: opus
- shell: h
  retry: {backoff: {type: fixed, delay: 1s}, initial_delay: 1s}
"), @"
    main.yml:3:3: error: `shell_program` has no effect without `shell` in a step
    main.yml:5:3: error: `allow_raw` has no effect without `shell` in a step
    main.yml:7:3: error: `capture_format` has no effect without `capture` or `capture_output` in a step
    main.yml:10:3: error: `capture_format` has no effect here
    main.yml:12:3: error: `max_attempts` has no effect without `on_failure` in a step
        `retry: {attempts: …}` tries a step again
    main.yml:14:3: error: `fail_workflow` has no effect without `on_failure` in a step
    main.yml:16:3: error: `model` has no effect without `claude`, `codex` or `agent` in a step
    main.yml:18:46: error: `initial_delay` has no effect beside a full `backoff`
        put it into `backoff`, as `initial` or `delay`
    ");
}

#[test]
fn wrong_values_are_errors_at_the_value() {
    insta::assert_snapshot!(errors(r#"
- shell: a
  timeout: 5 parsecs
- shell: b
  timeout: 0
- shell: c
  id: not good
- shell: d
  capture: not-good
- shell: e
  retry: {retry_on: [timeuot, nonsense]}
- write_file: {path: a, content: b, mode: 0999}
- shell: f
  on_exit_code: {0: {shell: x}, many: {shell: y}}
- shell: g
  capture_format: jsn
  capture: g
- shell: h
  retry: {attempts: 0}
- shell: i
  when: "1 =="
- shell: ""
- claude: "  "
"#), @"
        main.yml:3:12: error: `parsecs` is not a unit of time; use `ms`, `s`, `m`, `h`, `d` or `w`
        main.yml:5:12: error: a time limit of zero leaves no time at all
            leave the key out for no limit
        main.yml:7:7: error: `not good` cannot be the id of a step
            an id has letters, digits, `_` and `-`
        main.yml:9:12: error: `not-good` cannot be the name of a variable
            a name has letters, digits and `_`, and starts with no digit
        main.yml:11:22: error: each element of `retry_on` must be a reason code such as `timeout`, found `timeuot`
            did you mean `timeout`?
        main.yml:11:31: error: each element of `retry_on` must be a reason code such as `timeout`, found `nonsense`
        main.yml:12:43: error: `0999` are not permissions
            write octal digits, such as `0644` or `0755`
        main.yml:14:18: error: `0` is not an exit code from 1 to 255
        main.yml:14:33: error: `many` is not an exit code from 1 to 255
        main.yml:16:19: error: `capture_format` must be `string`, `number`, `json`, `lines` or `boolean`, found `jsn`
            did you mean `json`?
        main.yml:19:21: error: `attempts` must be a whole number from 1, found `0`
        main.yml:21:14: error: expected a value, found the end
        main.yml:22:10: error: `shell` must be a command, found empty text
        main.yml:23:11: error: expected text, found nothing
        ");
}

#[test]
fn a_step_needs_exactly_one_action() {
    insta::assert_snapshot!(errors("
- name: nothing
- {shell: a, claude: b}
"), @"
    main.yml:2:3: error: a step needs an action
        add `shell`, `claude`, `codex`, `agent`, `write_file` or `foreach`
    main.yml:3:14: error: a step has one action, found `shell` and `claude`
        make it a step of its own
    ");
}

#[test]
fn errors_inside_text_point_into_the_text() {
    insta::assert_snapshot!(errors(r#"
- claude: look at ${nothing.here} and ${nor.here}
- claude: |
    first line
    and ${unknown}
- shell: a
  on_failure: "/fix ${unknown}"
"#), @"
    main.yml:2:19: error: unknown variable `nothing`
        write `$${` for a literal `${`; the variables here are `claude`, `env`, `error`, `index`, `item`, `last`, `params`, `shell`, `steps`, `total`, `validation`, `workflow`
    main.yml:2:39: error: unknown variable `nor`
        write `$${` for a literal `${`; the variables here are `claude`, `env`, `error`, `index`, `item`, `last`, `params`, `shell`, `steps`, `total`, `validation`, `workflow`
    main.yml:5:9: error: unknown variable `unknown`
        write `$${` for a literal `${`; the variables here are `claude`, `env`, `error`, `index`, `item`, `last`, `params`, `shell`, `steps`, `total`, `validation`, `workflow`
    main.yml:7:21: error: unknown variable `unknown`
        write `$${` for a literal `${`; the variables here are `claude`, `env`, `error`, `index`, `item`, `last`, `params`, `shell`, `steps`, `total`, `validation`, `workflow`
    ");
}

#[test]
fn old_shapes_give_warnings() {
    insta::assert_snapshot!(warnings("
- shell: a
  capture_output: x
- shell: b
  on_failure: {claude: /fix, retry_original: true, max_retries: 3}
"), @"
    main.yml:3:3: warning: `capture_output` is deprecated
        write `capture: NAME`
    main.yml:5:30: warning: `retry_original` is deprecated
        set `max_attempts` above 1: that tries the original again
    ");
}

#[test]
fn labels_are_short_and_on_one_line() {
    let workflow = workflow(
        r#"
- {name: A name, shell: a}
- shell: |

    first line
    second line
- claude: this prompt is so long that nobody wants to see all of it in a list of steps
- write_file: {path: "a/b", content: c}
- foreach: {input: [1], do: [{shell: a}]}
"#,
    );
    let Body::Sequential { steps, .. } = &workflow.body else { panic!("not sequential") };
    let labels: Vec<_> = steps.iter().map(step_label).collect();
    insta::assert_debug_snapshot!(labels, @r#"
    [
        "A name",
        "shell: first line",
        "claude: this prompt is so long that nobody wants to see all of it i…",
        "write_file: a/b",
        "foreach",
    ]
    "#);
}

#[test]
fn a_thousand_steps_load() {
    let mut text = String::from("name: big\nsteps:\n");
    for number in 0..1000 {
        writeln!(text, "  - id: step-{number}\n    shell: echo \"${{workflow.name}}\" {number}")
            .unwrap();
        writeln!(text, "    capture: value_{number}\n    on_failure: /fix ${{shell.output}}")
            .unwrap();
    }
    let workflow = workflow(&text);
    let mut count = 0;
    workflow.visit_steps(&mut |_| count += 1);
    assert_eq!(count, 2000);
}

#[test]
fn agents_commit_their_changes_unless_something_speaks_against_it() {
    let steps = r"
- claude: plain
  validate: { claude: judge, on_incomplete: { claude: completer } }
  on_failure: { claude: handler }
- { claude: must, commit_required: true }
- { claude: asked, auto_commit: true }
- { claude: never, auto_commit: false }
- { shell: plain shell }
- foreach: { input: [a], do: [{ claude: one by one }] }
- foreach: { input: [a], parallel: 2, do: [{ claude: side by side }] }
";
    let shown = |text: &str| {
        let workflow = workflow(text);
        let mut lines = Vec::new();
        workflow.visit_steps(&mut |step| {
            let sign = match step.auto_commit {
                AutoCommit::Never => "-",
                AutoCommit::StepChanges => "changes",
                AutoCommit::ForAgent => "for agents that cannot",
                AutoCommit::Everything => "all",
            };
            lines.push(format!("{}: {sign}", step_label(step)));
        });
        lines.join("\n")
    };
    insta::assert_snapshot!(shown(steps), @"
    claude: plain: changes
    claude: judge: -
    claude: completer: changes
    claude: handler: changes
    claude: must: for agents that cannot
    claude: asked: all
    claude: never: -
    shell: plain shell: -
    foreach: -
    claude: one by one: changes
    foreach: changes
    claude: side by side: -
    ");
    let shared = "mode: mapreduce\nmap: { input: { items: [a] }, isolation: shared, agent_template: [{ claude: x }] }\n\
                  reduce: [{ claude: y }]\nmerge: [{ claude: z }]\n";
    insta::assert_snapshot!(shown(shared), @"
    claude: x: -
    claude: y: changes
    claude: z: -
    ");
}
