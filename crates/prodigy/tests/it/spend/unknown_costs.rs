//! Budgets and agents that do not say what they cost: `budget: { on_unknown: stop }`.

use std::fs;

use prodigy_testkit::{CommandOutput, TestEnv};
use rustix::process::Signal;
use serde_json::Value;

use crate::{
    agent::command_line::{program, world},
    fixture::map_job::{assert_code, beside, go, has_told, of_type, started},
};

const STOP: &str = "budget: { job_usd: 5, on_unknown: stop }\n";

/// A Codex that writes down what it is asked, and fails if that is `fail`.
const CODEX: &str = r#"
case "$1" in --version) echo 1.2.3; exit;; esac
prompt=$(cat); echo "$prompt" >> ROOT/asked
echo '{"type":"thread.started","thread_id":"theirs"}'
test "$prompt" = works && { test -e ROOT/go || exec sleep 30; }
test "$prompt" = fail && { echo '{"type":"turn.failed","error":{"message":"no"}}'; exit 1; }
echo '{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"well done"}}'
echo '{"type":"turn.completed","usage":{"input_tokens":40,"cached_input_tokens":10,"output_tokens":5}}'
"#;

fn codex_world(workflow: &str) -> TestEnv {
    let world = world(workflow).env("PRODIGY_DURABILITY", "relaxed");
    let root = world.root().display().to_string();
    program(&world, "codex", &CODEX.replace("ROOT", &root));
    world
}

/// Checks that a run said which agent keeps the budget from being kept, and stopped.
#[track_caller]
fn assert_stopped(seen: &CommandOutput) {
    assert_code(seen, 6);
    let said = "paused: the budget cannot be kept: agent `codex` ";
    assert!(seen.stderr.contains(said), "{seen}");
    assert!(seen.stderr.contains("set `prices` for it"), "{seen}");
    assert!(seen.stderr.contains("next: prodigy resume job\n"), "{seen}");
}

#[test]
fn no_further_item_is_begun_after_an_unknown_cost() {
    let map = "map:\n  input: { items: [one, two, three] }\n  max_parallel: 1\n  agent_template:\n    - codex: ${item}\n";
    let world = codex_world(&format!("mode: mapreduce\n{STOP}{map}"));
    assert_stopped(&go(&world));
    assert_eq!(beside(&world, "asked"), "one\n");
    assert_eq!(of_type(&world, "agent_completed").len(), 1, "what was done stays done");
    // A resume without a price asks one more and stops again.
    assert_stopped(&world.prodigy(&["resume", "job"]));
    assert_eq!(beside(&world, "asked"), "one\ntwo\n");
    let priced = "agents: { codex: { type: codex, prices: { input: 1, output: 2 } } }\n";
    world.write("workflow.yml", format!("mode: mapreduce\n{priced}{STOP}{map}"));
    assert_code(&world.prodigy(&["resume", "job", "--use-current-workflow"]), 0);
    assert_eq!(beside(&world, "asked"), "one\ntwo\nthree\n");
}

#[test]
fn no_further_step_is_begun_after_an_unknown_cost() {
    let world = codex_world(&format!(
        "{STOP}steps:\n- codex: one\n- shell: touch ROOT/shell\n- codex: two\n"
    ));
    assert_stopped(&go(&world));
    assert_eq!(beside(&world, "asked"), "one\n");
    assert!(world.root().join("shell").exists(), "what asks no agent goes on");
    // Nothing is left to start after the last one.
    assert_code(&world.prodigy(&["resume", "job"]), 0);
    assert_eq!(beside(&world, "asked"), "one\ntwo\n");
}

#[test]
fn no_further_agent_of_an_item_is_begun_after_an_unknown_cost() {
    let world = codex_world(&format!(
        "mode: mapreduce\n{STOP}map:\n  input: {{ items: [one] }}\n  agent_template:\n    - codex: first\n    - codex: second\n"
    ));
    assert_stopped(&go(&world));
    assert_eq!(beside(&world, "asked"), "first\n");
    assert_eq!(of_type(&world, "agent_released").len(), 1, "no attempt is charged");
    assert_eq!(of_type(&world, "agent_failed").len(), 0);
}

#[test]
fn no_handler_is_asked_after_an_unknown_cost() {
    let handler = "- codex: fail\n  on_failure: { commands: [{ codex: handle }] }\n";
    let steps = codex_world(&format!("{STOP}steps:\n{handler}"));
    let indented = handler.replace('\n', "\n    ");
    let items = codex_world(&format!(
        "mode: mapreduce\n{STOP}map:\n  input: {{ items: [one] }}\n  agent_template:\n    {indented}\n"
    ));
    for world in [steps, items] {
        assert_stopped(&go(&world));
        assert_eq!(beside(&world, "asked"), "fail\n");
    }
}

#[test]
fn no_judge_is_asked_after_an_unknown_cost() {
    let world = codex_world(&format!(
        "{STOP}steps:\n- codex: one\n  validate: {{ commands: [{{ codex: judge it }}], threshold: 90 }}\n"
    ));
    assert_stopped(&go(&world));
    assert_eq!(beside(&world, "asked"), "one\n");
}

#[test]
fn an_unknown_cost_is_a_warning_unless_it_is_to_stop_the_job() {
    for ignore in ["", ", on_unknown: ignore"] {
        let world = codex_world(&format!(
            "budget: {{ job_usd: 5{ignore} }}\nsteps:\n- codex: one\n- codex: two\n"
        ));
        let seen = go(&world);
        assert_code(&seen, 0);
        let warned = of_type(&world, "agent_warned");
        assert_eq!(warned.len(), 1, "once is enough");
        let said = "the budget cannot be kept: agent `codex` did not say what it cost; set `prices` for it";
        assert_eq!(warned[0]["message"], said);
        assert!(seen.stderr.contains("at most $5.00 left of $5.00 for the job"), "{seen}");
    }
}

#[test]
fn an_unknown_cost_without_a_budget_stops_nothing() {
    let world = codex_world("steps:\n- codex: one\n- codex: two\n");
    let seen = go(&world);
    assert_code(&seen, 0);
    assert_eq!(of_type(&world, "agent_warned").len(), 0);
    assert_eq!(fs::read_to_string(world.root().join("asked")).unwrap(), "one\ntwo\n");
}

#[test]
fn an_unknown_cost_of_an_agent_that_died_with_prodigy_stops_the_resumed_job() {
    let world = codex_world(&format!("{STOP}steps:\n- codex: works\n"));
    let mut run = started(&world);
    run.until(&world, "the agent is at work", || has_told(&world, "agent_session_started"));
    run.signal(Signal::KILL);
    run.seen(&world);
    assert_stopped(&world.prodigy(&["resume", "job"]));
    assert_eq!(beside(&world, "asked"), "works\n");
    let usages = of_type(&world, "agent_usage");
    assert_eq!(usages.len(), 1);
    assert_eq!(usages[0]["cost_usd"], Value::Null);
    fs::write(world.root().join("go"), "").unwrap();
    assert_code(&world.prodigy(&["resume", "job"]), 0);
    assert_eq!(of_type(&world, "agent_usage").len(), 2, "it is counted once");
}
