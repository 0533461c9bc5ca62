//! Agents that are programs: how they are started, and what becomes of what they print.
//!
//! The programs are stand-ins that write down what they were started with.

use std::{fs, os::unix::fs::PermissionsExt as _};

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;
use regex::Regex;

use crate::fixture::workflow::{records, run};

/// What the stand-in for Claude Code prints.
const CLAUDE: &str = r#"
echo '{"type":"system","subtype":"init","session_id":"theirs","model":"opus-4"}'
echo '{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"well done","total_cost_usd":0.25,"usage":{"input_tokens":30,"output_tokens":2},"permission_denials":[]}'
"#;

/// What the stand-in for Codex prints.
const CODEX: &str = r#"
echo '{"type":"thread.started","thread_id":"theirs"}'
echo '{"type":"turn.started"}'
echo '{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"well done"}}'
echo '{"type":"turn.completed","usage":{"input_tokens":40,"cached_input_tokens":10,"output_tokens":5}}'
"#;

/// Makes a world with a workflow in which `ROOT` stands for the world, and two agents on the
/// `PATH` that write down how they are started.
pub(crate) fn world(workflow: &str) -> TestEnv {
    let world = TestEnv::with_repo(env!("CARGO_BIN_EXE_prodigy"));
    let root = world.root().display().to_string();
    for (name, prints) in [("claude", CLAUDE), ("codex", CODEX)] {
        let script = format!(
            "case \"$1\" in --version) echo 1.2.3; exit;; esac\n\
             printf '%s\\n' \"$@\" > {root}/{name}.argv; cat > {root}/{name}.prompt\n\
             env | sort > {root}/{name}.env\n\
             for word in \"$@\"; do\n\
               case \"$word\" in *-file=*|*-schema=/*) cp \"${{word#*=}}\" {root}/{name}.file;; esac\n\
             done\n{prints}"
        );
        program(&world, name, &script);
    }
    world.write("workflow.yml", workflow.replace("ROOT", &root));
    world.commit_all("Add the workflow");
    let path = std::env::var("PATH").unwrap();
    world.env("PATH", &format!("{root}/bin:{path}"))
}

/// Puts a program where the world finds it.
pub(crate) fn program(world: &TestEnv, name: &str, script: &str) {
    let path = world.root().join("bin").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, format!("#!/bin/sh\n{script}")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Returns what an agent was started with, without what differs from run to run.
pub(crate) fn left(world: &TestEnv, name: &str) -> String {
    let text = fs::read_to_string(world.root().join(name)).unwrap();
    let text = text.replace(world.root().to_str().unwrap(), "ROOT");
    let text = Regex::new(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
        .unwrap()
        .replace_all(&text, "UUID");
    Regex::new(r"ROOT/home/state/\S*/\.tmp\w+").unwrap().replace_all(&text, "SCRATCH").into_owned()
}

/// Returns the variables that an agent was started with and that somebody may care about.
fn variables(world: &TestEnv, name: &str, about: &str) -> String {
    let text = left(world, name);
    text.lines().filter(|line| line.contains(about)).collect::<Vec<_>>().join("\n")
}

#[test]
fn claude_and_codex_need_no_configuration() {
    let world = world("- claude: Do it.\n- codex: --do-it\n");
    assert_snapshot!(run(&world), @"
    ----- stderr -----
    · job job · workflow.yml · 2 steps
    ✓ 1 claude: Do it.  [time]
    ✓ 2 codex: --do-it  [time]

    completed · 2 of 2 steps · cost at least $0.25
    cost: 60 tokens in, 7 out, 10 from the cache
    nothing to merge: the steps made no commit
    next: prodigy events job
    ");
    assert_snapshot!(left(&world, "claude.argv"), @"
    -p
    --output-format=stream-json
    --verbose
    --session-id=UUID
    --permission-mode=acceptEdits
    ");
    assert_snapshot!(left(&world, "codex.argv"), @"
    exec
    --json
    --sandbox=workspace-write
    -
    ");
    assert_eq!(left(&world, "claude.prompt"), "Do it.");
    assert_eq!(left(&world, "codex.prompt"), "--do-it");
    let usage = records(&world).into_iter().filter(|record| record["event_type"] == "agent_usage");
    let usage: Vec<String> = usage
        .map(|record| format!("{} {} {}", record["agent"], record["cost_usd"], record["tokens"]))
        .collect();
    assert_snapshot!(usage.join("\n"), @r#"
    "claude" 0.25 {"input_tokens":30,"output_tokens":2}
    "codex" null {"input_tokens":30,"output_tokens":5,"cache_read_tokens":10}
    "#);
}

#[test]
fn what_is_asked_of_claude_reaches_it() {
    let world = world(
        r#"
agents:
  claude:
    type: claude
    command: [ROOT/bin/claude, --bare]
    model: opus
    fallback_model: sonnet,haiku
    permission_mode: plan
    allowed_tools: [Read]
    disallowed_tools: WebFetch
    max_turns: 9
    max_budget_usd: 5
    system_prompt: Be brief.
    config_dir: ~/settings
    args: [--add-dir, /data]
steps:
  - claude: first
  - claude: second
    model: haiku
    permission_mode: default
    allowed_tools: "Bash(git add *) Edit"
    disallowed_tools: [Bash, WebSearch]
    max_turns: 2
    max_budget_usd: 0.5
    output_schema: { type: object, required: [a] }
    system_prompt: "Think of ${last.output}."
    env: { DISABLE_AUTOUPDATER: "0", HOME: /nowhere }
    continue_on_error: true
"#,
    );
    let seen = run(&world);
    assert_snapshot!(left(&world, "claude.argv"), @r#"
    --bare
    -p
    --output-format=stream-json
    --verbose
    --session-id=UUID
    --permission-mode=default
    --model=haiku
    --fallback-model=sonnet,haiku
    --allowedTools=Bash(git add *) Edit
    --disallowedTools=Bash
    --disallowedTools=WebSearch
    --max-turns=2
    --max-budget-usd=0.5
    --json-schema={"type":"object","required":["a"]}
    --append-system-prompt-file=SCRATCH/system-prompt.md
    --add-dir
    /data
    "#);
    assert_snapshot!(left(&world, "claude.file"), @"Think of well done.");
    assert_snapshot!(variables(&world, "claude.env", "CLAUDE_CO"), @"
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
    CLAUDE_CODE_MAX_RETRIES=2
    CLAUDE_CONFIG_DIR=/nowhere/settings
    ");
    assert_eq!(variables(&world, "claude.env", "AUTOUPDATER"), "DISABLE_AUTOUPDATER=0");
    assert_snapshot!(seen, @"
    ----- stderr -----
    · job job · workflow.yml · 2 steps
    ✓ 1 claude: first  [time]
    ✗ 2 claude: second: the agent's answer is not in the form that its schema asks for
    ~ 2 claude: second (failed, going on)  [time]

    completed with failures: 1 step failed · 2 of 2 steps · cost $0.50
    cost: $0.25 spent on failed attempts · 60 tokens in, 4 out
    nothing to merge: the steps made no commit
    next: prodigy events job
    ");
}

#[test]
fn what_is_asked_of_codex_reaches_it() {
    let world = world(
        r#"
agents:
  codex:
    type: codex
    command: [ROOT/bin/codex, --oss]
    model: gpt
    sandbox: danger-full-access
    system_prompt: "Be brief about ${workflow.name:-nothing}."
    config: { model_reasoning_effort: high, "a.b": [1, true] }
    args: [--ephemeral]
steps:
  - codex: first
  - codex: second
    model: o9
    permission_mode: plan
    output_schema: { type: string }
    continue_on_error: true
"#,
    );
    let seen = run(&world);
    assert_snapshot!(left(&world, "codex.argv"), @r#"
    --oss
    exec
    --json
    --sandbox=read-only
    --model=o9
    --output-schema=SCRATCH/output-schema.json
    --config=a.b=[1, true]
    --config=model_reasoning_effort="high"
    --config=developer_instructions="Be brief about nothing."
    --ephemeral
    -
    "#);
    assert_snapshot!(left(&world, "codex.file"), @r#"{"type":"string"}"#);
    assert_snapshot!(seen, @"
    ----- stderr -----
    · job job · workflow.yml · 2 steps
    ✓ 1 codex: first  [time]
    ✗ 2 codex: second: the agent's answer is not in the form that its schema asks for
    ~ 2 codex: second (failed, going on)  [time]

    completed with failures: 1 step failed · 2 of 2 steps · cost unknown
    cost: 60 tokens in, 10 out, 20 from the cache
    nothing to merge: the steps made no commit
    next: prodigy events job
    ");
}

#[test]
fn a_program_says_by_its_exit_code_and_in_a_file_how_it_went() {
    let world = world(
        r#"
agents:
  good: { type: command, command: [sh, -c, "cat > answer.md; exit 3"], result_file: answer.md, exit_codes: { 3: success } }
  busy: { type: command, command: [sh, -c, "echo busy >&2; exit 75"], exit_codes: { 75: rate_limited } }
  mute: { type: command, command: ["true"], result_file: answer.md }
steps:
  - agent: { use: good, prompt: '{"a": 1}' }
    output_schema: { type: object, properties: { a: { type: string } } }
    continue_on_error: true
  - agent: { use: good, prompt: '{"a": "b"}' }
    output_schema: { type: object, properties: { a: { type: string } } }
    capture: answer
  - shell: test '${answer}' = '{"a":"b"}'
  - agent: { use: busy, prompt: x }
    retry: { attempts: 1 }
    continue_on_error: true
  - agent: { use: mute, prompt: x }
"#,
    );
    assert_snapshot!(run(&world), @r#"
    ----- stderr -----
    · job job · workflow.yml · 5 steps
    ✗ 1 good: {"a": 1}: the answer does not satisfy `output_schema`: `/a` must be `string`, found `number`
    ~ 1 good: {"a": 1} (failed, going on)  [time]
    ✓ 2 good: {"a": "b"}  [time]
    ✓ 3 shell: test '${answer}' = '{"a":"b"}'  [time]
    ✗ 4 busy: x: the agent exited with code 75: busy
    ~ 4 busy: x (failed, going on)  [time]
    ✗ 5 mute: x: the agent left no answer in `answer.md`

    failed at step 5: the agent left no answer in `answer.md` · 4 of 5 steps done · cost unknown
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    output: prodigy logs job 5
    next: prodigy resume job
    [exit 1]
    "#);
    let kinds = records(&world).into_iter().filter(|record| record["event_type"] == "step_failed");
    let kinds: Vec<String> = kinds.map(|record| record["failure"]["kind"].to_string()).collect();
    assert_eq!(kinds, [r#""schema_invalid""#, r#""rate_limited""#, r#""output_unparseable""#]);
}

#[test]
fn an_agent_that_is_configured_elsewhere_is_not_asked_for_what_it_cannot_do() {
    let world = world("- {claude: a, model: opus, max_turns: 3}\n- {codex: b, max_turns: 3}\n");
    assert_snapshot!(world.prodigy(&["validate", "workflow.yml"]), @"
    workflow.yml: invalid (1 error)
    ----- stderr -----
    error: agent `codex` is of type `codex`, which cannot honour `max_turns`
     --> workflow.yml:2:14
      |
    2 | - {codex: b, max_turns: 3}
      |              ^^^^^^^^^
      |
      = help: take `max_turns` out, or use an agent of type `claude`

    [exit 9]
    ");
    world.write(
        ".prodigy/config.yml",
        "agents:\n  claude: { type: command, command: [ai] }\n  codex: { type: simulated }\n",
    );
    world.trust();
    assert_snapshot!(world.prodigy(&["validate", "workflow.yml", "--format", "github"]), @"
    ::error file=workflow.yml,line=1,col=15::agent `claude` is of type `command`, which cannot honour `model`%0Ahelp: take `model` out, or use an agent of type `claude` or `codex`
    ::error file=workflow.yml,line=1,col=28::agent `claude` is of type `command`, which cannot honour `max_turns`%0Ahelp: take `max_turns` out, or use an agent of type `claude`
    [exit 9]
    ");
    assert_snapshot!(run(&world), @"
    ----- stderr -----
    note: 1 uncommitted change in your checkout is not part of this run
    error: agent `claude` is of type `command`, which cannot honour `model`
     --> workflow.yml:1:15
      |
    1 | - {claude: a, model: opus, max_turns: 3}
      |               ^^^^^
      |
      = help: take `model` out, or use an agent of type `claude` or `codex`

    error: agent `claude` is of type `command`, which cannot honour `max_turns`
     --> workflow.yml:1:28
      |
    1 | - {claude: a, model: opus, max_turns: 3}
      |                            ^^^^^^^^^
      |
      = help: take `max_turns` out, or use an agent of type `claude`

    error: the workflow asks of agents what they cannot do

    hint: `prodigy config show --origin` shows where each agent is configured
    [exit 9]
    ");
    assert!(!world.home().join("events").exists(), "nothing was begun");
}

#[test]
fn the_doctor_names_agents_with_their_versions() {
    let world = world("- shell: a\n");
    world.write(
        ".prodigy/config.yml",
        "agents:\n  ai: { type: command, command: [no-such-program] }\n  dummy: { type: simulated }\n",
    );
    world.trust();
    let seen = world.prodigy(&["doctor"]).to_string();
    let agents: Vec<_> = seen.lines().filter(|line| line.contains(" agents ")).collect();
    assert_snapshot!(agents.join("\n"), @"
    warn  agents      — ai: the program `no-such-program` is not installed
    ok    agents      — claude: $ROOT/bin/claude, 1.2.3
    ok    agents      — codex: $ROOT/bin/codex, 1.2.3
    ok    agents      — dummy: built in
    ");
}

#[test]
fn a_tool_that_was_not_allowed_is_a_failure_unless_the_work_was_done_all_the_same() {
    let world = world(
        r"
steps:
  - claude: denied
    continue_on_error: true
  - claude: denied work
    auto_commit: true
  - claude: denied
    capture: answer
",
    );
    let denials =
        r#"[{"tool_name":"Bash","tool_use_id":"t","tool_input":{"command":"git commit"}}]"#;
    let script = format!(
        r#"case "$(cat)" in *work*) echo x > x;; esac
echo '{{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"sorry","permission_denials":{denials}}}'
"#
    );
    program(&world, "claude", &script);
    assert_snapshot!(run(&world), @"
    ----- stderr -----
    · job job · workflow.yml · 3 steps
    ✗ 1 claude: denied: the agent changed nothing: it was not allowed to use `Bash` (git commit); `allowed_tools` can allow it
    ~ 1 claude: denied (failed, going on)  [time]
    ~ 2 claude: denied work: warning about claude: it was not allowed to use `Bash` (git commit); `allowed_tools` can allow it
    ✓ 2 claude: denied work  [time]
    ~ 3 claude: denied: warning about claude: it was not allowed to use `Bash` (git commit); `allowed_tools` can allow it
    ✓ 3 claude: denied  [time]

    completed with failures: 1 step failed · 3 of 3 steps · cost unknown
    warnings: 2; `prodigy events job --type agent_warned` tells all
      it was not allowed to use `Bash` (git commit); `allowed_tools` can allow it  step 2, step 3
    merged into main at [commit]
    next: prodigy events job
    ");
    let warned: Vec<_> = records(&world)
        .into_iter()
        .filter(|record| record["event_type"] == "agent_warned")
        .collect();
    assert_eq!(warned.len(), 2);
}
