//! Agents: how they are configured, and what steps may ask of them.

use prodigy_core::{
    template::Template,
    workflow::{AgentConfig, AgentKind, AgentOptions, Body, ClaudeAgent, CodexAgent, StepAction},
};

use crate::support::{errors, workflow};

/// Returns what each agent step of a sequential workflow asks, merged with what its agent asks.
fn asked(text: &str) -> Vec<AgentOptions> {
    let workflow = workflow(text);
    let mut all = Vec::new();
    workflow.visit_steps(&mut |step| {
        if let StepAction::Agent { agent, options, .. } = &step.action {
            let own = match workflow.agents.get(agent) {
                Some(AgentConfig::Claude(claude)) => claude.options.clone(),
                Some(AgentConfig::Codex(codex)) => codex.options.clone(),
                Some(AgentConfig::Command(_) | AgentConfig::Simulated(_)) | None => {
                    AgentOptions::default()
                }
            };
            let mut merged = options.with_defaults(&own);
            merged.given.clear();
            all.push(merged);
        }
    });
    all
}

#[test]
fn an_agent_has_every_option_that_is_written() {
    let workflow = workflow(
        r#"
agents:
  claude:
    type: claude
    command: [node, cli.js]
    model: opus
    fallback_model: sonnet
    permission_mode: plan
    allowed_tools: [Read, "Bash(git add *)"]
    disallowed_tools: WebFetch
    max_turns: 5
    max_budget_usd: 1.5
    system_prompt: "You work on ${workflow.name}."
    config_dir: ~/.claude-work
    args: [--add-dir, /data]
    prices: {input: 3, output: 15, cache_read: 0.3, cache_write: 3.75}
  codex:
    type: codex
    model: gpt
    sandbox: read-only
    system_prompt: Be brief.
    config: {model_reasoning_effort: high, "a.b": [1, true]}
    args: [--oss]
    prices: {input: 1.25, output: 10}
  plain: {type: claude}
  other: {type: codex}
  local:
    type: command
    command: [my-agent]
    exit_codes: {2: success, 75: rate_limited}
    result_file: out/answer.md
steps: [{shell: a}]
"#,
    );
    let shown: Vec<String> =
        workflow.agents.iter().map(|(name, agent)| format!("{name}: {}", row(agent))).collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    claude: ["node", "cli.js"] Some("~/.claude-work") ["--add-dir", "/data"] TokenPrices { input: 3.0, output: 15.0, cache_read: 0.3, cache_write: 3.75 }
      ["model", "fallback_model", "permission_mode", "allowed_tools", "disallowed_tools", "max_turns", "max_budget_usd", "system_prompt"] Some("You work on ${workflow.name}.") Some(AgentOptions { model: Some("opus"), fallback_model: Some("sonnet"), permission_mode: Some(Plan), allowed_tools: Some(["Read", "Bash(git add *)"]), disallowed_tools: Some(["WebFetch"]), max_turns: Some(5), max_budget_usd: Some(1.5), system_prompt: None, output_schema: None, is_judge: false, given: [] })
    codex: ["codex"] ReadOnly {"a.b": Array [Number(1), Bool(true)], "model_reasoning_effort": String("high")} ["--oss"] TokenPrices { input: 1.25, output: 10.0, cache_read: 1.25, cache_write: 1.25 }
      ["model", "system_prompt"] Some("Be brief.") Some(AgentOptions { model: Some("gpt"), fallback_model: None, permission_mode: None, allowed_tools: None, disallowed_tools: None, max_turns: None, max_budget_usd: None, system_prompt: None, output_schema: None, is_judge: false, given: [] })
    local: CommandAgent { command: ["my-agent"], prompt: Stdin, exit_codes: {2: Success, 75: Failure(RateLimited)}, result_file: Some("out/answer.md") }
    other: ["codex"] WorkspaceWrite {} []
      [] None None
    plain: ["claude"] None []
      [] None None
    "#);
}

/// Shows an agent on a line, its options by themselves.
fn row(agent: &AgentConfig) -> String {
    match agent {
        AgentConfig::Claude(claude) => {
            let ClaudeAgent { command, options, config_dir, args, prices } = &**claude;
            let prices = prices.as_ref().map(|prices| format!(" {prices:?}")).unwrap_or_default();
            format!("{command:?} {config_dir:?} {args:?}{prices}\n  {}", shown(options))
        }
        AgentConfig::Codex(codex) => {
            let CodexAgent { command, options, sandbox, config, args, prices } = &**codex;
            let prices = prices.as_ref().map(|prices| format!(" {prices:?}")).unwrap_or_default();
            format!("{command:?} {sandbox:?} {config:?} {args:?}{prices}\n  {}", shown(options))
        }
        AgentConfig::Command(command) => format!("{command:?}"),
        AgentConfig::Simulated(_) => "simulated".to_owned(),
    }
}

/// Shows what is asked, the rest as it is by itself.
fn shown(options: &AgentOptions) -> String {
    let mut rest = options.clone();
    rest.given.clear();
    let system_prompt = rest.system_prompt.take();
    let keys: Vec<_> = options.given.iter().filter_map(|given| given.ability.key()).collect();
    let system_prompt = system_prompt.as_ref().map(Template::source);
    format!(
        "{keys:?} {system_prompt:?} {:?}",
        Some(rest).filter(|rest| *rest != AgentOptions::default())
    )
}

#[test]
fn what_a_step_says_wins_over_what_its_agent_says() {
    let options = asked(
        r#"
agents:
  claude: {type: claude, model: opus, max_turns: 5, allowed_tools: [Read], permission_mode: plan}
steps:
  - claude: a
  - claude: b
    model: haiku
    allowed_tools: []
    permission_mode: bypass
    output_schema: {type: object}
    system_prompt: "${last.output}"
    max_budget_usd: 0.5
    disallowed_tools: [Bash]
  - shell: c
    on_failure:
      commands:
        - shell: d
          claude: e
          max_turns: 1
    validate:
      commands: [{agent: {use: claude, prompt: f}, model: sonnet}]
"#,
    );
    let row = |options: &AgentOptions| {
        format!(
            "{:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
            options.model,
            options.max_turns,
            options.allowed_tools,
            options.disallowed_tools,
            options.permission_mode,
            options.max_budget_usd,
            options.system_prompt.as_ref().map(Template::source),
            options.output_schema,
        )
    };
    let rows: Vec<String> = options.iter().map(row).collect();
    insta::assert_snapshot!(rows.join("\n"), @r#"
    Some("opus") Some(5) Some(["Read"]) None Some(Plan) None None None
    Some("haiku") Some(5) Some([]) Some(["Bash"]) Some(Bypass) Some(0.5) Some("${last.output}") Some(Schema({"type":"object"}))
    Some("sonnet") Some(5) Some(["Read"]) None Some(Plan) None None None
    Some("opus") Some(1) Some(["Read"]) None Some(Plan) None None None
    "#);
}

#[test]
fn a_shell_command_beside_a_prompt_asks_nothing() {
    let workflow = workflow(
        "- shell: a\n  on_success: {shell: b, claude: c, model: opus, system_prompt: d}\n",
    );
    let Body::Sequential { steps, .. } = &workflow.body else { panic!("not sequential") };
    let [shell, claude] = steps[0].on_success.as_slice() else { panic!("not two") };
    assert!(matches!(shell.action, StepAction::Shell { .. }));
    let StepAction::Agent { options, .. } = &claude.action else { panic!("no agent") };
    assert_eq!(options.model.as_deref(), Some("opus"));
    assert!(options.system_prompt.is_some());
}

#[test]
fn wrong_settings_of_agents_are_errors() {
    insta::assert_snapshot!(errors(r#"
agents:
  a: {type: claude, permission_mode: yolo, max_turns: 0, config_dir: conf, args: [-p]}
  b: {type: claude, args: [--permission-mode=bypassPermissions, --dangerously-skip-permissions]}
  c: {type: claude, command: [claude, --model, opus], system_prompt: "${item}"}
  d: {type: codex, permission_mode: plan, sandbox: none, config: {"a b": 1, c: ~, d: [~]}}
  e: {type: codex, args: [-mgpt, -c, x=1, --yolo], max_turns: 3}
  f: {type: command, command: [x], exit_codes: {0: success, 3: succes, x: timeout}, result_file: ../x}
  g: {type: command, command: [x], model: opus}
steps: [{shell: a}]
"#), @"
    main.yml:3:38: error: `permission_mode` must be `default`, `acceptEdits`, `plan` or `bypass`, found `yolo`
    main.yml:3:55: error: `max_turns` must be a whole number from 1, found `0`
    main.yml:3:70: error: `conf` is not the same directory in every worktree
        write an absolute path, or one that begins with `~/`
    main.yml:3:83: error: `-p` is an argument that prodigy gives the agent itself
        leave it out
    main.yml:4:28: error: `--permission-mode` is an argument that prodigy gives the agent itself
        write `permission_mode: …` instead
    main.yml:4:65: error: `--dangerously-skip-permissions` is an argument that prodigy gives the agent itself
        write `permission_mode: bypass` instead
    main.yml:5:39: error: `--model` is an argument that prodigy gives the agent itself
        write `model: …` instead
    main.yml:5:71: error: unknown variable `item`
        write `$${` for a literal `${`; the variables here are `env`, `params`, `workflow`
    main.yml:6:20: error: unknown key `permission_mode` in an agent of type `codex`
        `permission_mode` belongs in a step
    main.yml:6:52: error: `sandbox` must be `read-only`, `workspace-write` or `danger-full-access`, found `none`
    main.yml:6:67: error: `a b` is not a dotted name
    main.yml:6:77: error: `c` has no value
        leave the key out: the configuration has no empty values
    main.yml:6:83: error: `d` has no value
        leave the key out: the configuration has no empty values
    main.yml:7:27: error: `-m` is an argument that prodigy gives the agent itself
        write `model: …` instead
    main.yml:7:34: error: `-c` is an argument that prodigy gives the agent itself
        write `config: …` instead
    main.yml:7:43: error: `--yolo` is an argument that prodigy gives the agent itself
        write `sandbox: danger-full-access` instead
    main.yml:7:52: error: unknown key `max_turns` in an agent of type `codex`
        only an agent of type `claude` can honour it
    main.yml:8:49: error: `0` is not an exit code from 1 to 255
    main.yml:8:64: error: `3` must be `success` or a reason code such as `timeout`, found `succes`
        did you mean `success`?
    main.yml:8:72: error: `x` is not an exit code from 1 to 255
    main.yml:8:98: error: `../x` is not a path inside the worktree
    main.yml:9:36: error: unknown key `model` in an agent of type `command`
        only an agent of type `claude` or `codex` can honour it
    ");
}

#[test]
fn wrong_options_of_steps_are_errors() {
    insta::assert_snapshot!(errors("
- claude: a
  output_schema: {type: objct}
- claude: a
  output_schema: nothing
- claude: a
  allowed_tools: ['']
- claude: a
  system_prompt: ${unknown}
- shell: a
  model: opus
"), @"
    main.yml:3:19: error: `type` must be one of `null`, `boolean`, `object`, `array`, `number`, `integer`, `string`, or a list of them
    main.yml:5:18: error: `output_schema` must be a JSON Schema, found `nothing`
    main.yml:7:19: error: expected text, found nothing
    main.yml:9:18: error: unknown variable `unknown`
        write `$${` for a literal `${`; the variables here are `claude`, `env`, `error`, `index`, `item`, `last`, `params`, `shell`, `steps`, `total`, `validation`, `workflow`
    main.yml:11:3: error: `model` has no effect without `claude`, `codex` or `agent` in a step
    ");
}

#[test]
fn an_agent_is_not_asked_for_what_it_cannot_do() {
    insta::assert_snapshot!(errors("
agents:
  local: {type: command, command: [x]}
  claude: {type: codex}
  codex: {type: simulated}
steps:
  - agent: {use: local, prompt: a}
    model: opus
    output_schema: {type: object}
    system_prompt: b
  - claude: a
    model: gpt
    permission_mode: plan
    max_turns: 3
    allowed_tools: [Read]
  - codex: a
    max_turns: 3
    allowed_tools: [Read]
  - shell: a
    on_failure: {commands: [{shell: b, claude: c, max_budget_usd: 1}]}
"), @"
    main.yml:8:5: error: agent `local` is of type `command`, which cannot honour `model`
        take `model` out, or use an agent of type `claude` or `codex`
    main.yml:10:5: error: agent `local` is of type `command`, which cannot honour `system_prompt`
        take `system_prompt` out, or use an agent of type `claude` or `codex`
    main.yml:14:5: error: agent `claude` is of type `codex`, which cannot honour `max_turns`
        take `max_turns` out, or use an agent of type `claude`
    main.yml:15:5: error: agent `claude` is of type `codex`, which cannot honour `allowed_tools`
        take `allowed_tools` out, or use an agent of type `claude`
    main.yml:20:51: error: agent `claude` is of type `codex`, which cannot honour `max_budget_usd`
        take `max_budget_usd` out, or use an agent of type `claude`
    ");
}

#[test]
fn what_is_configured_elsewhere_is_checked_elsewhere() {
    let workflow = workflow("- {claude: a, max_turns: 3}\n- {codex: a, model: gpt}\n");
    let beyond = |kind: AgentKind| workflow.unsupported_options(&|_| Some(kind)).len();
    assert_eq!(AgentKind::ALL.iter().map(|kind| beyond(*kind)).collect::<Vec<_>>(), [0, 1, 2, 0]);
}
