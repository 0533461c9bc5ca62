//! Where people see what a job cost.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use std::fs;

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;
use serde_json::Value;

use crate::fixture::{
    map_job::{assert_code, beside, go, letter, map_world, of_type},
    workflow::stable,
};

/// A job in which one item succeeds, one at its second attempt, and one never.
const MIXED: &str = "
name: fix
agents:
  claude:
    type: simulated
    rules:
      - { prompt: second, cost_usd: 0.25 }
      - { prompt: bad, cost_usd: 1 }
      - { cost_usd: 0.5 }
budget: { job_usd: 10, day_usd: 20, item_usd: 5 }
map:
  input: { items: [good, second, bad] }
  max_parallel: 1
  agent_template:
    - claude: /fix ${item}
    - name: check
      shell: '! test ${item} = bad && { test ${item} = good || test -e ROOT/seen || { touch ROOT/seen; exit 1; }; }'
error_policy:
  retry_config: { max_attempts: 2, backoff: { type: fixed, delay: 1ms } }
reduce:
  - name: sum
    shell: echo ${map.cost_usd} > ROOT/cost; cp ${map.results_file} ROOT/results.json
";

/// Returns what `prodigy jobs show` says about money.
fn shown(world: &TestEnv, job: &str) -> String {
    let seen = world.prodigy(&["jobs", "show", job]);
    let lines = seen.stdout.lines();
    let lines = lines.filter(|line| line.starts_with("cost") | line.starts_with("budget"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns what the JSON document of a job says about money.
fn document(world: &TestEnv, job: &str) -> Value {
    let seen = world.prodigy(&["jobs", "show", job, "--json"]);
    let document: Value = serde_json::from_str(&seen.stdout).unwrap();
    let names = ["cost_usd", "cost_untold", "cost_per_success_usd", "lost_usd", "tokens", "budget"];
    names.iter().map(|name| ((*name).to_owned(), document["job"][name].clone())).collect()
}

#[test]
fn the_end_of_a_run_says_what_it_cost_and_what_came_of_it() {
    let world = map_world(MIXED);
    assert_snapshot!(stable(&go(&world)), @"
    ----- stderr -----
    · job job · fix · mapreduce
    · 3 items
    ✓ item-001  [time]
    ✓ item-002  [time]
    ~ map: 2/3 done · 1 failed · 1 in DLQ  [time]
    ✓ reduce.1 sum  [time]

    completed with failures · 2 of 3 items done · [time] · cost $3.00
    items: 2 successful, 1 in the DLQ, 2 tried more than once
    failures:
      command_failed: `check` failed with exit code 1  item-003
    cost: $1.50 per completed item · $2.25 spent on failed attempts
    budget: $7.00 left of $10.00 for the job · $17.00 left of $20.00 for the day · $5.00 for an item
    nothing to merge: the steps made no commit
    dead letters: $ROOT/home/dlq/repo/job/mapreduce/dlq/job/items
    next: prodigy dlq show job
    ");
    assert_snapshot!(shown(&world, "job"), @"
    cost        $3.00 · $1.50 per completed item · $2.25 spent on failed attempts
    budget      $7.00 left of $10.00 for the job · $5.00 for an item
    ");
    assert_snapshot!(format!("{:#}", document(&world, "job")), @r#"
    {
      "cost_usd": 3.0,
      "cost_untold": 0,
      "cost_per_success_usd": 1.5,
      "lost_usd": 2.25,
      "tokens": {
        "input": 0,
        "output": 0,
        "cache_read": 0,
        "cache_write": 0
      },
      "budget": {
        "item_usd": 5.0,
        "job_usd": 10.0,
        "job_left_usd": 7.0,
        "day_usd": 20.0,
        "day_left_usd": null
      }
    }
    "#);
    let listed = stable(&world.prodigy(&["jobs"]));
    let columns: Vec<_> = listed.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(columns, ["JOB", "STATUS", "WORKFLOW", "STEPS", "ITEMS", "STARTED", "TOOK", "COST"]);
    assert_eq!(beside(&world, "cost"), "3.0\n");
    let results: Value = serde_json::from_str(&beside(&world, "results.json")).unwrap();
    let costs: Vec<_> = results.as_array().unwrap().iter().map(|it| &it["cost_usd"]).collect();
    assert_snapshot!(format!("{costs:?}"), @"[Number(0.5), Number(0.5), Number(2.0)]");
    let letter = letter(&world, "item-003");
    let costs: Vec<_> =
        letter["failure_history"].as_array().unwrap().iter().map(|it| &it["cost_usd"]).collect();
    assert_eq!(costs, [1.0, 1.0]);
}

#[test]
fn a_replay_adds_to_what_the_job_cost() {
    let world = map_world(MIXED);
    assert_code(&go(&world), 0);
    assert_code(
        &world.prodigy(&["dlq", "retry", "job", "--force", "item-003", "--reason", "x"]),
        3,
    );
    let letter = letter(&world, "item-003");
    let costs: Vec<_> =
        letter["failure_history"].as_array().unwrap().iter().map(|it| &it["cost_usd"]).collect();
    assert_snapshot!(format!("{costs:?} {}", letter["replay_cost_usd"]), @"[Number(1.0), Number(1.0), Number(1.0), Number(1.0)] 2.0");
    assert_snapshot!(shown(&world, "job"), @"
    cost        $5.00 · $2.50 per completed item · $4.25 spent on failed attempts
    budget      $5.00 left of $10.00 for the job · $5.00 for an item
    ");
}

#[test]
fn an_agent_that_does_not_say_what_it_costs_is_not_for_nothing() {
    let world = map_world(
        "agents: { mine: { type: command, command: [cat] } }\n\
         budget: { job_usd: 1 }\n\
         map:\n  input: { items: [a] }\n  agent_template:\n\
         \x20   - agent: { use: mine, prompt: hello }\n",
    );
    assert_snapshot!(stable(&go(&world)), @"
    ----- stderr -----
    warning: agent `mine` does not say what it costs, so `budget` does not hold for it
    · job job · workflow.yml · mapreduce
    · 1 item
    ✓ item-001  [time]
    ✓ map: 1/1 done  [time]

    completed · 1 of 1 item done · [time] · cost unknown
    items: 1 successful
    budget: at most $1.00 left of $1.00 for the job
    nothing to merge: the steps made no commit
    next: prodigy events job
    ");
    assert_snapshot!(shown(&world, "job"), @"
    cost        unknown
    budget      at most $1.00 left of $1.00 for the job
    ");
    assert_eq!(document(&world, "job")["cost_usd"], Value::Null);
    assert_eq!(of_type(&world, "agent_usage").len(), 1);
}

#[test]
fn what_some_agents_say_is_not_taken_for_all() {
    let world = crate::fixture::workflow::world(
        "agents:\n  mine: { type: command, command: [cat] }\n  claude: { type: simulated, rules: [{ cost_usd: 0.5 }] }\n\
         steps:\n- agent: { use: mine, prompt: one }\n- claude: two\n",
    );
    assert_snapshot!(crate::fixture::workflow::run(&world), @"
    ----- stderr -----
    · job job · workflow.yml · 2 steps
    ✓ 1 mine: one  [time]
    ✓ 2 claude: two  [time]

    completed · 2 of 2 steps · cost at least $0.50
    nothing to merge: the steps made no commit
    next: prodigy events job
    ");
}

#[test]
fn the_summary_of_a_ci_job_says_what_it_cost() {
    let world = map_world(MIXED);
    let file = world.root().join("summary.md");
    let mut run = world.prodigy_command(&["run", "workflow.yml", "-y", "--job-id", "job"]);
    run.env("GITHUB_STEP_SUMMARY", &file);
    assert_code(&world.to_output(&run.output().unwrap()), 0);
    let text = fs::read_to_string(&file).unwrap();
    let lines = text.lines().filter(|line| line.contains('$') | line.contains("Tokens"));
    assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @"
    | Cost | $3.00 |
    | Spent on failed attempts | $2.25 |
    ");
}
