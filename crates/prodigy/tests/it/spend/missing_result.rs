//! Agents that end without a result: their cost is estimated, or called unknown, and never nothing.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use std::fs;

use prodigy_testkit::{CommandOutput, TestEnv};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{
    agent::command_line::{program, world},
    fixture::map_job::{assert_code, beside, go, of_type, started},
};

/// A program that speaks like Claude Code. A result costs 30 cents for 1000 tokens in and 100
/// out; whoever is asked anything but `told` says that twice as much was used, and then ends, or
/// works on until somebody makes `ROOT/go`.
const CLAUDE: &str = r#"
case "$1" in --version) echo 1.2.3; exit;; esac
prompt=$(cat)
echo "$prompt" >> ROOT/asked
result() {
  echo '{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"done","total_cost_usd":0.3,"usage":{"input_tokens":1000,"output_tokens":100},"permission_denials":[]}'
}
echo '{"type":"system","subtype":"init","session_id":"s","model":"opus-4"}'
case "$prompt" in *told*) result; exit;; esac
test -e ROOT/go && { result; exit; }
case "$prompt" in
  *again*) result;;
  *much*) for n in 1 2 3 4 5 6 7 8 9; do
      echo '{"type":"assistant","message":{"id":"m0","model":"opus-4","content":[{"type":"text","text":"'$(printf '%0500d' $n)'"}]}}'
    done;;
esac
echo '{"type":"assistant","message":{"id":"m1","model":"opus-4","content":[{"type":"tool_use","id":"t","name":"Bash","input":{"command":"work"}}],"usage":{"input_tokens":2000,"output_tokens":200}}}'
case "$prompt" in
  *killed*) kill -9 $$;;
  *leaves*) exit 0;;
  *lost*) echo $PPID > ROOT/supervisor;;
esac
exec sleep 30
"#;

/// Makes a world in which `claude` is that program.
pub(crate) fn claude_world(workflow: &str) -> TestEnv {
    let world = world(workflow).env("PRODIGY_DURABILITY", "relaxed").env("PRODIGY_GRACE", "300ms");
    let root = world.root().display().to_string();
    program(&world, "claude", &CLAUDE.replace("ROOT", &root));
    world
}

/// Returns what each agent cost, as the journal says it.
fn costs(world: &TestEnv) -> String {
    let lines = of_type(world, "agent_usage").into_iter().map(|usage| {
        let cost = usage["cost_usd"].as_f64().map_or("unknown".to_owned(), |it| format!("{it:.2}"));
        let estimated = if usage["estimated"] == true { " estimated" } else { "" };
        format!("{} {cost}{estimated}", usage["step"].as_str().unwrap())
    });
    lines.collect::<Vec<_>>().join(", ")
}

/// Returns the line of a person's view that begins with a word.
fn line(seen: &CommandOutput, start: &str) -> String {
    let all = [&*seen.stderr, &*seen.stdout].concat();
    let found = all.lines().find(|line| line.trim_start().starts_with(start));
    assert!(found.is_some(), "no line `{start}` in {seen}");
    found.unwrap().to_owned()
}

/// Returns the job of `jobs show --json`.
fn job(world: &TestEnv) -> Value {
    let shown = world.prodigy(&["jobs", "show", "job", "--json"]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    shown["job"].clone()
}

/// Returns all that the books of the days say, rounded to cents.
fn of_days(world: &TestEnv) -> String {
    let mut sum = 0.0;
    for file in fs::read_dir(world.home().join("spending")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|it| it == "jsonl") {
            for line in fs::read_to_string(path).unwrap().lines() {
                let line: Value = serde_json::from_str(line).unwrap();
                sum += line["cost_usd"].as_f64().unwrap();
            }
        }
    }
    format!("{sum:.2}")
}

#[test]
fn an_agent_that_is_cut_off_costs_what_earlier_results_of_its_model_imply() {
    for (prompt, step) in [("hangs", ", timeout: 500ms"), ("killed", ""), ("leaves", "")] {
        let world = claude_world(&format!("- claude: told\n- {{ claude: {prompt}{step} }}\n"));
        let seen = go(&world);
        assert_code(&seen, 1);
        assert_eq!(costs(&world), "1 0.30, 2 0.60 estimated", "{prompt}");
        assert!(line(&seen, "failed at").contains("cost about $0.90"), "{seen}");
        let shown = world.prodigy(&["jobs", "show", "job"]);
        assert!(line(&shown, "cost ").contains("about $0.90"), "{shown}");
        let job = job(&world);
        assert!((job["cost_usd"].as_f64().unwrap() - 0.9).abs() < 1e-9, "{job}");
        assert!((job["cost_estimated_usd"].as_f64().unwrap() - 0.6).abs() < 1e-9, "{job}");
        assert_eq!(job["cost_untold"], 0);
        assert_eq!(of_days(&world), "0.90");
        let events = world.prodigy(&["events", "job", "--type", "agent_usage"]);
        assert!(events.stdout.contains("about $0.60"), "{events}");
    }
}

#[test]
fn an_agent_whose_run_is_stopped_has_cost_what_it_used() {
    let world = claude_world("- claude: told\n- claude: works\n");
    let mut run = started(&world);
    run.until(&world, "it was heard", || !of_type_if_any(&world, "agent_tool_used").is_empty());
    run.signal(Signal::INT);
    let seen = run.seen(&world);
    assert_code(&seen, 130);
    assert_eq!(costs(&world), "1 0.30, 2 0.60 estimated");
    assert_eq!(of_days(&world), "0.90");
}

#[test]
fn an_agent_whose_supervisor_is_lost_has_cost_what_it_used() {
    let world = claude_world(
        "mode: mapreduce\nmap:\n  input: { items: [told, lost] }\n  max_parallel: 1\n  agent_template:\n    - claude: ${item}\n",
    );
    let mut run = started(&world);
    run.until(&world, "it was heard", || !of_type_if_any(&world, "agent_tool_used").is_empty());
    let supervisor = beside(&world, "supervisor").trim().parse().unwrap();
    kill_process(Pid::from_raw(supervisor).unwrap(), Signal::KILL).unwrap();
    run.seen(&world);
    assert_eq!(costs(&world), "1 0.30, 1 0.60 estimated");
}

#[test]
fn work_after_a_result_is_added_to_what_the_result_said() {
    let world = claude_world("- { claude: again, timeout: 500ms }\n");
    assert_code(&go(&world), 1);
    assert_eq!(costs(&world), "1 0.90 estimated");
}

/// Makes a world in which an agent with prices ended without a result.
pub(crate) fn with_prices() -> TestEnv {
    let world = claude_world(
        "agents: { claude: { type: claude, prices: { input: 100, output: 1000, cache_read: 10, cache_write: 125 } } }\nbudget: { job_usd: 9, on_unknown: stop }\nsteps:\n- claude: killed\n",
    );
    assert_code(&go(&world), 1);
    world
}

#[test]
fn prices_of_an_agent_tell_what_it_cost_without_a_result() {
    assert_eq!(costs(&with_prices()), "1 0.40 estimated");
}

#[test]
fn a_cost_that_nobody_knows_is_at_least_what_is_known() {
    let world = claude_world(
        "mode: mapreduce\nbudget: { job_usd: 9 }\nmap:\n  input: { items: [killed, told] }\n  max_parallel: 1\n  agent_template:\n    - claude: ${item}\n",
    );
    let seen = go(&world);
    assert_eq!(costs(&world), "1 unknown, 1 0.30");
    assert!(line(&seen, "completed with").contains("cost at least $0.30"), "{seen}");
    let shown = world.prodigy(&["jobs", "show", "job"]);
    assert!(line(&shown, "cost ").contains("at least $0.30"), "{shown}");
    let job = job(&world);
    assert_eq!(job["cost_untold"], 1);
    assert_eq!(job["budget"]["job_left_usd"], Value::Null);
    let warned = of_type(&world, "agent_warned");
    let message = warned[0]["message"].as_str().unwrap();
    assert!(message.contains("the budget cannot be kept"), "{message}");
    assert!(message.contains("`prices`"), "{message}");
    assert_eq!(warned[0]["agent"], "claude");
}

#[test]
fn codex_costs_its_tokens_times_its_prices() {
    let world = world(
        "agents: { codex: { type: codex, prices: { input: 1000, output: 2000, cache_read: 100 } } }\n\
         budget: { job_usd: 9, on_unknown: stop }\nsteps:\n- codex: one\n- codex: two\n",
    );
    let seen = go(&world);
    assert_code(&seen, 0);
    assert!(!seen.stderr.contains("warning"), "{seen}");
    // 30 tokens in, 5 out, 10 from the cache.
    let usages = of_type(&world, "agent_usage");
    for usage in &usages {
        assert!((usage["cost_usd"].as_f64().unwrap() - 0.041).abs() < 1e-9, "{usage}");
        assert_eq!(usage["estimated"], true);
    }
    assert_eq!(usages.len(), 2);
    assert!(line(&seen, "completed").contains("cost about $0.08"), "{seen}");
}

#[test]
fn a_price_without_its_other_half_is_refused() {
    let world =
        world("agents: { codex: { type: codex, prices: { input: 1 } } }\nsteps:\n- codex: one\n");
    let seen = go(&world);
    assert_code(&seen, 9);
    assert!(seen.stderr.contains("output"), "{seen}");
}

/// Returns the records of one type of a job that may not have begun.
fn of_type_if_any(world: &TestEnv, kind: &str) -> Vec<Value> {
    let has_begun = world.home().join("events/repo/job").is_dir();
    if has_begun { of_type(world, kind) } else { Vec::new() }
}

/// Kills prodigy when the transcript of an item holds what its agent used.
fn kill_at_work(world: &TestEnv, run: crate::fixture::workflow::SpawnedProdigy, times: usize) {
    let mut run = run;
    run.until(world, "the agent is at work", || {
        let log = world.home().join("logs/repo/job/item-002/attempt-1.jsonl");
        fs::read_to_string(log).is_ok_and(|text| text.matches("\"m1\"").count() == times)
    });
    run.signal(Signal::KILL);
    run.seen(world);
}

#[test]
fn what_an_agent_used_before_prodigy_was_killed_is_counted_once() {
    let world = claude_world(
        "mode: mapreduce\nbudget: { job_usd: 9, item_usd: 5 }\nmap:\n  input: { items: [told, works] }\n  max_parallel: 1\n  agent_template:\n    - claude: ${item}\nreduce:\n  - shell: cp ${map.results_file} ROOT/results.json\n",
    );
    kill_at_work(&world, started(&world), 1);
    assert_eq!(costs(&world), "1 0.30");
    let runs = world.home().join("state/repo/mapreduce/jobs/job/agent-runs");
    let kept: Vec<_> = fs::read_dir(&runs).unwrap().map(|it| it.unwrap().path()).collect();
    let kept: Vec<_> = kept.iter().map(|path| (path, fs::read(path).unwrap())).collect();
    assert_eq!(kept.len(), 1);
    let shown = world.prodigy(&["jobs", "show", "job"]);
    assert!(line(&shown, "cost ").contains("at least $0.30"), "{shown}");
    kill_at_work(
        &world,
        crate::fixture::workflow::SpawnedProdigy::new(&world, &["resume", "job"]),
        2,
    );
    assert_eq!(costs(&world), "1 0.30, 1 0.60 estimated");
    // As if the first resume had been cut off before it could forget the run.
    for (path, text) in &kept {
        fs::write(path, text).unwrap();
    }
    fs::write(world.root().join("go"), "").unwrap();
    let seen = world.prodigy(&["resume", "job"]);
    assert_code(&seen, 0);
    assert_eq!(costs(&world), "1 0.30, 1 0.60 estimated, 1 0.60 estimated, 1 0.30");
    assert_eq!(of_days(&world), "1.80");
    let job = job(&world);
    assert!((job["cost_usd"].as_f64().unwrap() - 1.8).abs() < 1e-9, "{job}");
    assert!((job["lost_usd"].as_f64().unwrap() - 1.2).abs() < 1e-9, "{job}");
    let results: Value = serde_json::from_str(&beside(&world, "results.json")).unwrap();
    assert!((results[1]["cost_usd"].as_f64().unwrap() - 1.5).abs() < 1e-9, "{results}");
    assert_eq!(fs::read_dir(&runs).unwrap().count(), 0, "nothing is left of it");
}

#[test]
fn what_an_agent_used_before_prodigy_was_killed_counts_for_the_budgets() {
    let map = "map:\n  input: { items: [told, works] }\n  max_parallel: 1\n  agent_template:\n    - claude: ${item}\n";
    let job = claude_world(&format!("mode: mapreduce\nbudget: {{ job_usd: 0.8 }}\n{map}"));
    let item = claude_world(&format!("mode: mapreduce\nbudget: {{ item_usd: 0.5 }}\n{map}"));
    for (world, code) in [(job, 6), (item, 0)] {
        kill_at_work(&world, started(&world), 1);
        assert_code(&world.prodigy(&["resume", "job"]), code);
        assert_eq!(beside(&world, "asked"), "told\nworks\n", "nobody is asked again");
        assert_eq!(costs(&world), "1 0.30, 1 0.60 estimated");
    }
}

#[test]
fn what_does_not_fit_into_the_transcript_is_counted_too() {
    let world = claude_world(
        "mode: mapreduce\nmap:\n  input: { items: [told, much] }\n  max_parallel: 1\n  agent_template:\n    - claude: ${item}\n",
    );
    world.write(".prodigy/config.yml", "log_cap: 1KiB\n");
    let mut run = started(&world);
    run.until(&world, "it was heard", || !of_type_if_any(&world, "agent_tool_used").is_empty());
    run.signal(Signal::KILL);
    run.seen(&world);
    let log = world.home().join("logs/repo/job/item-002/attempt-1.jsonl");
    assert!(!fs::read_to_string(log).unwrap().contains("\"m1\""), "the transcript is full");
    fs::write(world.root().join("go"), "").unwrap();
    assert_code(&world.prodigy(&["resume", "job"]), 0);
    assert_eq!(costs(&world), "1 0.30, 1 0.60 estimated, 1 0.30");
    let runs = world.home().join("state/repo/mapreduce/jobs/job/agent-runs");
    assert_eq!(fs::read_dir(&runs).unwrap().count(), 0, "nothing is left of it");
}
