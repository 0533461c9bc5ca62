//! Environment, secrets, profiles, parameters and agents.

use std::fmt::Write;

use crate::support::{errors, outline_env, workflow};

#[test]
fn settings_are_read() {
    let workflow = workflow(
        r#"
name: settings
env: {A: 1, B: "${params.b}", C: true}
env_files: [.env, config/more.env]
secrets:
  ONE: {env: X}
  TWO: {file: secret.txt}
  THREE: {command: pass show x}
profiles:
  dev: {A: "2"}
steps: [{shell: a}]
"#,
    );
    let mut text = format!("{:?}\n{}\n", workflow.name, outline_env(&workflow.env));
    writeln!(text, "{:?}", workflow.env_files).unwrap();
    for secret in &workflow.secrets {
        writeln!(text, "{} {:?}", secret.name, secret.source).unwrap();
    }
    for (name, env) in &workflow.profiles {
        writeln!(text, "{name}: {}", outline_env(env)).unwrap();
    }
    insta::assert_snapshot!(text, @r#"
    Some("settings")
    A=1 B=${params.b} C=true
    [".env", "config/more.env"]
    ONE Env("X")
    TWO File("secret.txt")
    THREE Command("pass show x")
    dev: A=2
    "#);
}

#[test]
fn wrong_settings_are_errors() {
    insta::assert_snapshot!(errors(r#"
env: {"A=B": 1, C: [x], D: "${item}"}
secrets:
  ONE: {}
  TWO: {env: X, file: y}
  THREE: plain
steps: [{shell: a}]
"#), @"
    main.yml:2:7: error: `A=B` cannot be the name of an environment variable
    main.yml:2:20: error: `C` must be text, found a list
    main.yml:2:29: error: unknown variable `item`
        write `$${` for a literal `${`; the variables here are `env`, `params`, `workflow`
    main.yml:4:3: error: a secret needs a source
        add `env`, `file` or `command`
    main.yml:5:17: error: a secret has one source, found `env` and `file`
    main.yml:6:10: error: `THREE` must be a mapping, found `plain`
    ");
}

#[test]
fn parameters_have_types() {
    let workflow = workflow(
        "
parameters:
  a: {}
  b: {type: number, default: 3, enum: [1, 2, 3], description: How many}
  c: {type: boolean, required: true}
  d: {default: [x]}
  e: {type: object, default: {k: v}}
steps: [{shell: a}]
",
    );
    let mut text = String::new();
    for parameter in &workflow.parameters {
        writeln!(text, "{parameter:?}").unwrap();
    }
    insta::assert_snapshot!(text, @r#"
    Parameter { name: "a", kind: String, default: None, required: false, choices: [], description: None }
    Parameter { name: "b", kind: Number, default: Some(Number(3)), required: false, choices: [Number(1), Number(2), Number(3)], description: Some("How many") }
    Parameter { name: "c", kind: Boolean, default: None, required: true, choices: [], description: None }
    Parameter { name: "d", kind: Array, default: Some(Array [String("x")]), required: false, choices: [], description: None }
    Parameter { name: "e", kind: Object, default: Some(Object {"k": String("v")}), required: false, choices: [], description: None }
    "#);
}

#[test]
fn a_parameter_must_agree_with_itself() {
    insta::assert_snapshot!(errors("
parameters:
  a: {type: number, default: three}
  b: {type: string, enum: [x, y], default: z}
  c: {type: string, enum: [x, 1]}
  d: {required: true, default: x}
  not-good: {type: string}
  e: {type: strng}
steps: [{shell: a}]
"), @"
    main.yml:3:30: error: `a` is of the type `number`, and this is text
    main.yml:4:44: error: the value of `b` is not one of its `enum`
    main.yml:5:31: error: `c` is of the type `string`, and this is a number
    main.yml:6:7: error: a parameter with a default is never missing
        keep `required` or `default`
    main.yml:7:3: error: `not-good` cannot be the name of a variable: only letters, digits and `_`, no digit first
    main.yml:8:13: error: `type` must be `string`, `number`, `boolean`, `array` or `object`, found `strng`
        did you mean `string`?
    ");
}

#[test]
#[expect(clippy::too_many_lines, reason = "the model is shown as a whole")]
fn agents_are_programs_or_simulated() {
    let workflow = workflow(
        r#"
agents:
  local: {type: command, command: [my-agent, --quiet], prompt: argument}
  short: {type: command, command: [my-agent]}
  claude:
    type: simulated
    seed: 7
    rules:
      - prompt: "^/fix (.*)"
        answer: done
        delay: 50ms
        edits: [{path: a.txt, content: hello, append: true}]
        commit: Fix it
        cost_usd: 0.5
        fault: crash
        probability: 0.5
        times: 2
steps: [{claude: a}, {agent: {use: local, prompt: b}}, {claude: c}]
"#,
    );
    let needed: Vec<_> = workflow.required_agents().into_keys().collect();
    insta::assert_snapshot!(format!("{needed:?}\n{:#?}", workflow.agents), @r#"
    ["claude", "local"]
    {
        "claude": Simulated(
            SimulatedAgent {
                seed: 7,
                rules: [
                    SimulatedRule {
                        when: SimulatedWhen {
                            prompt: Some(
                                "^/fix (.*)",
                            ),
                            item: None,
                            step: None,
                            attempt: None,
                        },
                        work: SimulatedWork {
                            answer: Some(
                                "done",
                            ),
                            result: None,
                            delay_ms: 50,
                            jitter_ms: 0,
                            edits: [
                                SimulatedEdit {
                                    path: "a.txt",
                                    content: "hello",
                                    append: true,
                                },
                            ],
                            commit: Some(
                                "Fix it",
                            ),
                            cost_usd: 0.5,
                            tokens: TokenUsage {
                                input_tokens: 0,
                                output_tokens: 0,
                                cache_read_tokens: 0,
                                cache_write_tokens: 0,
                            },
                            turns: 1,
                            model: None,
                        },
                        trouble: Some(
                            SimulatedTrouble {
                                fault: Crash,
                                probability: 0.5,
                                times: Some(
                                    2,
                                ),
                                reset: AfterMs(
                                    60000,
                                ),
                                megabytes: 16,
                            },
                        ),
                    },
                ],
                options: AgentOptions {
                    model: None,
                    fallback_model: None,
                    permission_mode: None,
                    allowed_tools: None,
                    disallowed_tools: None,
                    max_turns: None,
                    max_budget_usd: None,
                    system_prompt: None,
                    output_schema: None,
                    is_judge: false,
                    given: [],
                },
                otherwise: None,
            },
        ),
        "local": Command(
            CommandAgent {
                command: [
                    "my-agent",
                    "--quiet",
                ],
                prompt: Argument,
                exit_codes: {},
                result_file: None,
            },
        ),
        "short": Command(
            CommandAgent {
                command: [
                    "my-agent",
                ],
                prompt: Stdin,
                exit_codes: {},
                result_file: None,
            },
        ),
    }
    "#);
}

#[test]
fn wrong_agents_are_errors() {
    insta::assert_snapshot!(errors(r#"
agents:
  a: {}
  b: {type: robot}
  c: {type: command, command: []}
  d: {type: simulated, command: [x], rules: [{prompt: "(", fault: crsh, probability: 2, edits: [{content: x}]}]}
steps: [{shell: a}]
"#), @"
    main.yml:3:3: error: `a` needs `type: claude`, `type: codex`, `type: command` or `type: simulated`
    main.yml:4:13: error: `type` must be `claude`, `codex`, `command` or `simulated`, found `robot`
    main.yml:5:31: error: `command` is empty
    main.yml:6:24: error: unknown key `command` in an agent of type `simulated`
        its keys are `type`, `seed` and `rules`
    main.yml:6:55: error: `(` is not a regular expression: unclosed group
    main.yml:6:67: error: `fault` must be `crash`, `hang`, `lie`, `error`, `permission_denied`, `denied_worked_around`, `rate_limited`, `overloaded`, `server_error`, `auth_failed`, `usage_limit`, `out_of_credits`, `refusal`, `max_turns`, `over_budget`, `garbage`, `zero_turns`, `partial`, `no_commit`, `conflict`, `schema_mismatch`, `not_satisfied`, `slow` or `huge`, found `crsh`
        did you mean `crash`?
    main.yml:6:86: error: `probability` must be a number from 0 to 1, found `2`
    main.yml:6:98: error: an edit needs `path`
        add `path: …`
    ");
}

#[test]
fn an_agent_is_needed_wherever_it_is_named() {
    let places = [
        "steps: [{shell: a, on_failure: /x}]",
        "steps: [{shell: a, on_success: {claude: x}}]",
        "steps: [{shell: a, on_exit_code: {2: {claude: x}}}]",
        "steps: [{shell: a, validate: {claude: x}}]",
        "steps: [{shell: a, validate: {shell: b, on_incomplete: {claude: x}}}]",
        "steps: [{foreach: {input: [a], do: [{claude: x}]}}]",
        "{steps: [{shell: a}], merge: [{claude: x}]}",
        "{mode: mapreduce, setup: [{claude: x}], map: {input: a, agent_template: [{shell: a}]}}",
        "{mode: mapreduce, map: {input: a, agent_template: [{claude: x}]}}",
        "{mode: mapreduce, map: {input: a, agent_template: [{shell: a}], worktree: {setup: [{claude: x}]}}}",
        "{mode: mapreduce, map: {input: a, agent_template: [{shell: a}]}, reduce: [{claude: x}]}",
        "{mode: mapreduce, map: {input: a, agent_template: [{shell: a}]}, error_policy: {handlers: {h: [{claude: x}]}}}",
    ];
    for place in places {
        let workflow = workflow(place);
        let needed: Vec<_> = workflow.required_agents().into_keys().collect();
        assert_eq!(needed, ["claude"], "{place}");
    }
    assert!(workflow("- shell: a\n").required_agents().is_empty());
}
