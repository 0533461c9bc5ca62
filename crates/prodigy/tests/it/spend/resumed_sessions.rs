//! Agents that go on with a session and count what was used before once more.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;
use rustix::process::Signal;

use crate::{
    agent::command_line::{program, world},
    fixture::map_job::{assert_code, go, has_told, of_type, started},
};

/// A program that speaks like an older Claude Code, which a server cuts off once.
const OLDER_CLAUDE: &str = r#"
cat > /dev/null
id= resumed=
for word in "$@"; do
  case "$before" in --session-id) id=$word;; --resume) id=$word resumed=yes;; esac
  case "$word" in --session-id=*) id=${word#*=};; --resume=*) id=${word#*=} resumed=yes;; esac
  before=$word
done
mkdir -p "$HOME/.claude/projects/any"
touch "$HOME/.claude/projects/any/$id.jsonl"
echo '{"type":"system","subtype":"init","session_id":"'$id'","model":"m"}'
if test -z "$resumed"; then
  echo '{"type":"result","subtype":"success","is_error":true,"api_error_status":529,"num_turns":1,"result":"API Error: 529 Overloaded","session_id":"'$id'","total_cost_usd":0.5,"usage":{"input_tokens":100,"output_tokens":20},"modelUsage":{"m":{"inputTokens":100,"outputTokens":20,"costUSD":0.5}},"permission_denials":[]}'
  exit 1
fi
echo '{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"done","session_id":"'$id'","total_cost_usd":0.75,"usage":{"input_tokens":30,"output_tokens":5},"modelUsage":{"m":{"inputTokens":130,"outputTokens":25,"costUSD":0.75}},"permission_denials":[]}'
"#;

/// Makes a world in which an agent goes on with its session after a server cut it off.
pub(crate) fn cut_off_by_a_server() -> TestEnv {
    cut_off("claude", OLDER_CLAUDE)
}

/// Runs an item whose first attempt a server cuts off, and returns what each attempt told.
fn told(agent: &str, script: &str) -> String {
    usages(&cut_off(agent, script))
}

/// Runs an item whose first attempt a server cuts off.
fn cut_off(agent: &str, script: &str) -> TestEnv {
    let world = world(&format!(
        "mode: mapreduce\nmap:\n  input: {{ items: [a] }}\n  agent_template:\n    - {agent}: Do it.\n\
         error_policy:\n  retry_config: {{ max_attempts: 2, backoff: {{ type: fixed, delay: 1ms }} }}\n"
    ));
    program(&world, agent, script);
    assert_code(&go(&world), 0);
    let sessions = of_type(&world, "agent_session_started");
    assert_eq!(sessions[1]["resumed"], true, "the second goes on with the session of the first");
    world
}

/// Returns what agents told of their cost and their tokens.
fn usages(world: &TestEnv) -> String {
    let lines = of_type(world, "agent_usage").into_iter().map(|usage| {
        let tokens = &usage["tokens"];
        format!("{} {} {}", usage["cost_usd"], tokens["input_tokens"], tokens["output_tokens"])
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn an_older_claude_that_sums_up_its_session_is_not_charged_twice() {
    assert_snapshot!(told("claude", OLDER_CLAUDE), @"
    0.5 100 20
    0.25 30 5
    ");
}

#[test]
fn a_codex_that_sums_up_its_session_is_not_counted_twice() {
    let script = r#"
cat > /dev/null
mkdir -p "$HOME/.codex/sessions/2026/11/16"
touch "$HOME/.codex/sessions/2026/11/16/rollout-now-thread-7.jsonl"
echo '{"type":"thread.started","thread_id":"thread-7"}'
echo '{"type":"turn.started"}'
case " $* " in
  *" resume "*)
    echo '{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"done"}}'
    echo '{"type":"turn.completed","usage":{"input_tokens":130,"cached_input_tokens":0,"output_tokens":25}}';;
  *)
    echo '{"type":"turn.completed","usage":{"input_tokens":100,"cached_input_tokens":0,"output_tokens":20}}'
    echo '{"type":"turn.failed","error":{"message":"unexpected status 503 Service Unavailable"}}'
    exit 1;;
esac
"#;
    assert_snapshot!(told("codex", script), @"
    null 100 20
    null 30 5
    ");
}

#[test]
fn what_a_run_told_that_died_with_prodigy_is_not_charged_twice_with_its_session() {
    let world = world(
        "mode: mapreduce\nmap:\n  input: { items: [a] }\n  agent_template:\n    - claude: Do it.\n",
    );
    // The first one lingers after its result, and is not at its end yet.
    let script = OLDER_CLAUDE.replace("  exit 1\n", "  exec sleep 30\n");
    program(&world, "claude", &script);
    let mut run = started(&world);
    run.until(&world, "it has told its cost", || {
        let log = world.home().join("logs/repo/job/item-001/attempt-1.jsonl");
        let is_told = |text: String| text.contains("total_cost_usd");
        // What is printed is in the log before the journal has anything of it.
        std::fs::read_to_string(log).is_ok_and(is_told) && has_told(&world, "agent_session_started")
    });
    run.signal(Signal::KILL);
    run.seen(&world);
    assert_code(&world.prodigy(&["resume", "job"]), 0);
    let sessions = of_type(&world, "agent_session_started");
    assert_eq!(sessions[1]["resumed"], true, "the second goes on with the session of the first");
    assert_snapshot!(usages(&world), @"
    0.5 100 20
    0.25 30 5
    ");
}
