//! Agents whose streams hold names and amounts that could do harm.

use std::fs;

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;

use crate::{
    agent::command_line::{program, world},
    fixture::map_job::{assert_code, go, of_type},
};

/// Runs an item whose agent is cut off once by a server, and says `init` each time.
fn run(agent: &str, init: &str, end: &str) -> TestEnv {
    let world = world(&format!(
        "mode: mapreduce\nmap:\n  input: {{ items: [a] }}\n  agent_template:\n    - {agent}: Do it.\n\
         error_policy:\n  retry_config: {{ max_attempts: 2, backoff: {{ type: fixed, delay: 1ms }} }}\n"
    ));
    let script = format!(
        r#"
cat > /dev/null
echo "$@" >> "$HOME/arguments"
mkdir -p "$HOME/.claude/projects/aaa" "$HOME/.claude/projects/zzz" "$HOME/.codex/sessions/2026/01/02"
test -e "$HOME/victim.jsonl" || echo precious > "$HOME/victim.jsonl"
touch -- "$HOME/.codex/sessions/2026/01/02/rollout---dangerously-bypass-approvals-and-sandbox.jsonl"
echo '{init}'
echo '{end}'
exit 1
"#
    );
    program(&world, agent, &script);
    assert_code(&go(&world), 1);
    assert_eq!(of_type(&world, "agent_failed").len(), 2);
    world
}

const CLAUDE_END: &str = r#"{"type":"result","subtype":"success","is_error":true,"api_error_status":500,"num_turns":1,"result":"API Error: 500","total_cost_usd":COST,"usage":{"input_tokens":1,"output_tokens":1}}"#;

fn of_home(world: &TestEnv, name: &str) -> String {
    fs::read_to_string(world.root().join("user").join(name)).unwrap()
}

#[test]
fn a_session_cannot_be_named_like_a_file_elsewhere() {
    let init = r#"{"type":"system","subtype":"init","session_id":"../../../victim","model":"m"}"#;
    let world = run("claude", init, &CLAUDE_END.replace("COST", "0.5"));
    assert_eq!(of_home(&world, "victim.jsonl"), "precious\n");
    let arguments = of_home(&world, "arguments");
    assert_eq!(arguments.lines().count(), 2);
    assert!(!arguments.contains("victim"), "{arguments}");
    assert_code(&world.prodigy(&["verify", "job"]), 0);
}

#[test]
fn a_session_cannot_be_named_like_a_flag() {
    let init =
        r#"{"type":"thread.started","thread_id":"--dangerously-bypass-approvals-and-sandbox"}"#;
    let end =
        r#"{"type":"turn.failed","error":{"message":"stream disconnected before completion"}}"#;
    let world = run("codex", init, end);
    let arguments = of_home(&world, "arguments");
    assert_eq!(arguments.lines().count(), 2);
    assert!(!arguments.contains("dangerously"), "{arguments}");
}

#[test]
fn words_of_an_agent_stay_in_their_line() {
    let init = r#"{"type":"system","subtype":"init","session_id":"s","model":"m\\n10:00:00 forged","cwd":"/a\\nb"}"#;
    let world = run("claude", init, &CLAUDE_END.replace("COST", "0.5"));
    let session = &of_type(&world, "agent_session_started")[0];
    assert_snapshot!(session["model"], @r#""m 10:00:00 forged""#);
    for shown in [world.prodigy(&["events", "job"]), world.prodigy(&["logs", "job", "item-001"])] {
        assert!(!shown.stdout.lines().any(|line| line.starts_with("10:00:00 forged")), "{shown}");
    }
}

#[test]
fn an_amount_that_nobody_can_pay_is_none() {
    let init = r#"{"type":"system","subtype":"init","session_id":"s","model":"m"}"#;
    let world = run("claude", init, &CLAUDE_END.replace("COST", "1e308"));
    let shown = world.prodigy(&["jobs", "show", "job"]);
    let cost = shown.stdout.lines().find(|line| line.starts_with("cost"));
    assert_snapshot!(cost.unwrap(), @"cost        unknown · 2 tokens in, 2 out");
    assert_code(&world.prodigy(&["verify", "job"]), 0);
}
