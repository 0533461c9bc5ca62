//! Results of agents that are larger than what is kept.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use std::fs;

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;

use crate::{
    agent::command_line::{program, world},
    fixture::{map_job::of_type, workflow::run},
};

/// Writes the stand-ins, whose output is made by `python3`.
fn printing(workflow: &str, script: &str) -> TestEnv {
    let world = world(workflow);
    fs::write(world.root().join("agent.py"), script).unwrap();
    let path = world.root().join("agent.py").display().to_string();
    for name in ["claude", "codex"] {
        program(&world, name, &format!("exec python3 {path} {name}\n"));
    }
    world
}

/// Returns what each step used and what it failed of.
fn books(world: &TestEnv) -> String {
    let used = of_type(world, "agent_usage");
    let mut lines: Vec<String> = used
        .iter()
        .map(|it| format!("{} {} {}", it["step"], it["cost_usd"], it["tokens"]))
        .collect();
    let failed = of_type(world, "step_failed");
    lines.extend(failed.iter().map(|it| {
        let message: String = it["failure"]["message"].as_str().unwrap().chars().take(6).collect();
        format!("{} {}: {message}", it["step"], it["failure"]["kind"])
    }));
    lines.join("\n")
}

const LONG_LINES: &str = r#"
import json, sys
prompt = sys.stdin.read().strip()
def say(**event): print(json.dumps(event))
long = "é\"\n" + "x" * (9 << 20)
if sys.argv[1] == "codex":
    say(type="thread.started", thread_id="theirs")
    say(type="item.completed", item={"id": "i", "type": "agent_message", "text": long})
    say(type="turn.completed", usage={"input_tokens": 40, "output_tokens": 5})
    sys.exit()
say(type="system", subtype="init", session_id="theirs", model="opus-4")
used = {"total_cost_usd": 0.25, "usage": {"input_tokens": 30, "output_tokens": 2}, "num_turns": 3}
if prompt == "last":
    say(type="result", subtype="success", result=long, is_error=False, **used)
if prompt == "first":
    say(**used, is_error=False, subtype="success", result=long, type="result")
if prompt == "failed":
    say(type="result", subtype="error_max_turns", errors=[long], is_error=True, **used)
    sys.exit(1)
if prompt == "lists":
    denials = [{"tool_name": "Bash", "tool_use_id": str(n), "tool_input": {"command": "c"}} for n in range(200000)]
    say(type="result", subtype="success", permission_denials=denials, result="done", is_error=False, **used)
"#;

#[test]
fn a_result_line_over_the_limit_keeps_its_cost_and_its_outcome() {
    let world = printing(
        r"
steps:
  - { claude: last, output_file: out }
  - shell: head -c 6 out > ROOT/head; wc -c < out > ROOT/length
  - { claude: first }
  - { claude: failed, on_failure: true }
  - { claude: lists }
  - { codex: long, output_file: out }
  - shell: wc -c < out >> ROOT/length
",
        LONG_LINES,
    );
    let seen = run(&world);
    assert!(seen.contains("7 of 7 steps"), "{seen}");
    assert_snapshot!(books(&world), @r#"
    "1" 0.25 {"input_tokens":30,"output_tokens":2}
    "3" 0.25 {"input_tokens":30,"output_tokens":2}
    "4" 0.25 {"input_tokens":30,"output_tokens":2}
    "5" 0.25 {"input_tokens":30,"output_tokens":2}
    "6" null {"input_tokens":40,"output_tokens":5}
    "4" "turn_limit": é" xxx
    "#);
    let read = |name: &str| fs::read_to_string(world.root().join(name)).unwrap();
    assert_eq!(read("head"), "é\"\nxx");
    assert_eq!(read("length"), "1048576\n1048576\n");
}

const LARGE_DATA: &str = r#"
import json, sys
prompt = sys.stdin.read().strip()
def say(**event): print(json.dumps(event))
if sys.argv[1] in ("own", "filed"):
    out = sys.stdout if sys.argv[1] == "own" else open("answer", "w")
    out.write(json.dumps("x" * int(sys.argv[2])))
    sys.exit()
size = {"big": 2, "huge": 9}[prompt] << 20
data = {"text": "x" * size}
if sys.argv[1] == "codex":
    say(type="thread.started", thread_id="theirs")
    say(type="item.completed", item={"id": "i", "type": "agent_message", "text": json.dumps(data)})
    say(type="turn.completed", usage={"input_tokens": 40, "output_tokens": 5})
    sys.exit()
say(type="system", subtype="init", session_id="theirs", model="opus-4")
say(type="result", subtype="success", result="done", structured_output=data, is_error=False,
    num_turns=1, total_cost_usd=0.25, usage={"input_tokens": 30, "output_tokens": 2})
"#;

#[test]
fn a_structured_result_over_a_mebibyte_is_refused_as_too_large() {
    let world = printing(
        r"
agents:
  own: { type: command, command: [python3, ROOT/agent.py, own, '2097152'] }
  filed: { type: command, command: [python3, ROOT/agent.py, filed, '2097152'], result_file: answer }
  fits: { type: command, command: [python3, ROOT/agent.py, own, '300000'] }
steps:
  - { claude: big, output_schema: { type: object }, on_failure: true }
  - { claude: huge, output_schema: { type: object }, on_failure: true }
  - { codex: big, output_schema: { type: object }, on_failure: true }
  - { codex: huge, output_schema: { type: object }, on_failure: true }
  - { agent: { use: own, prompt: x }, output_schema: { type: string }, on_failure: true }
  - { agent: { use: filed, prompt: x }, on_failure: true }
  - { agent: { use: fits, prompt: x }, output_schema: { type: string }, output_file: out }
  - shell: wc -c < out > ROOT/length
",
        LARGE_DATA,
    );
    let seen = run(&world);
    assert!(seen.contains("8 of 8 steps"), "{seen}");
    let failed = of_type(&world, "step_failed");
    let failed: Vec<String> = failed
        .iter()
        .map(|it| format!("{} {}: {}", it["step"], it["failure"]["kind"], it["failure"]["message"]))
        .collect();
    assert_snapshot!(failed.join("\n"), @r#"
    "1" "output_too_large": "the agent's answer for `output_schema` has 2097164 bytes, and at most 1048576 are taken"
    "2" "output_too_large": "the agent's answer for `output_schema` has 9437197 bytes, and at most 1048576 are taken"
    "3" "output_too_large": "the agent's answer for `output_schema` has 2097164 bytes, and at most 1048576 are taken"
    "4" "output_too_large": "the agent's answer for `output_schema` has more than 1048576 bytes, and at most 1048576 are taken"
    "5" "output_too_large": "the agent's answer for `output_schema` has 2097154 bytes, and at most 1048576 are taken"
    "6" "output_too_large": "the agent's answer in `answer` is too large: it has 2097154 bytes, and at most 1048576 are read"
    "#);
    assert_eq!(fs::read_to_string(world.root().join("length")).unwrap(), "300002\n");
}
