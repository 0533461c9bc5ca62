//! What `prodigy plan` says a workflow may cost.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use std::fs;

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;
use regex::Regex;
use serde_json::{Value, json};

use crate::fixture::{
    map_job::{assert_code, go, map_world, write_workflow},
    workflow,
};

/// Items that cost different amounts, one at a time, and a step of the job's own.
const MIXED: &str = "
name: fix
agents:
  claude:
    type: simulated
    rules:
      - { prompt: dear, cost_usd: 2, tokens: { input: 9000 } }
      - { prompt: sum, cost_usd: 0.25, tokens: { input: 500 } }
      - { cost_usd: 0.5, tokens: { input: 1000 } }
map:
  input: { items: [cheap, dear] }
  max_parallel: 1
  agent_template:
    - claude: fix ${item}
reduce:
  - claude: sum it up
";

/// Returns what a plan says of cost and time, without what differs from run to run.
fn estimate(world: &TestEnv, file: &str) -> String {
    let seen = world.prodigy(&["plan", file]);
    assert_code(&seen, 0);
    let at = seen.stdout.find("\ncost ").unwrap();
    let text = seen.stdout.get(at + 1..).unwrap();
    let text = Regex::new(r"(?m)^          \d+s( to \d+s)?|^          about \d+s")
        .unwrap()
        .replace_all(text, "          [time]");
    text.trim_end().to_owned()
}

fn document(world: &TestEnv, file: &str) -> Value {
    let seen = world.prodigy(&["plan", file, "--json"]);
    serde_json::from_str::<Value>(&seen.stdout).unwrap()["estimate"].clone()
}

#[test]
fn a_workflow_that_never_ran_has_an_unknown_cost() {
    let world = map_world(MIXED);
    assert_snapshot!(estimate(&world, "workflow.yml"), @"cost      unknown: no history of this workflow");
    assert_eq!(document(&world, "workflow.yml"), Value::Null);
}

#[test]
fn a_workflow_that_asks_no_agent_costs_nothing() {
    let world = workflow::world("- shell: 'true'\n");
    assert_snapshot!(estimate(&world, "workflow.yml"), @"cost      none: no step asks an agent");
}

#[test]
fn a_plan_tells_from_earlier_jobs_what_items_will_cost() {
    let world = map_world(MIXED);
    assert_code(&go(&world), 0);
    assert_snapshot!(estimate(&world, "workflow.yml"), @"
    cost      $1.25 to $4.25 (from 2 items of 1 job)
              2.5k to 18.5k tokens
              [time]
    ");
    // The same workflow with more items, in another file.
    write_workflow(&world, &MIXED.replace("[cheap, dear]", "[a, b, c, d, e, f, g, h, i, j]"));
    fs::rename(world.repo().join("workflow.yml"), world.repo().join("more.yml")).unwrap();
    assert_snapshot!(estimate(&world, "more.yml"), @"
    cost      $5.25 to $20.25 (from 2 items of 1 job)
              10.5k to 90.5k tokens
              [time]
    ");
    let mut told = document(&world, "more.yml");
    told["duration_ms"] = Value::Null;
    assert_snapshot!(told, @r#"{"cost_usd":[5.25,20.25],"tokens":[10500,90500],"duration_ms":null,"jobs":1,"items":2}"#);
    // Another workflow has a history of its own.
    write_workflow(&world, &MIXED.replace("name: fix", "name: other"));
    assert_snapshot!(estimate(&world, "workflow.yml"), @"cost      unknown: no history of this workflow");
    // Nobody knows how many a command will print.
    let later = MIXED.replace("{ items: [cheap, dear] }", "{ command: ls }");
    write_workflow(&world, &later);
    assert_snapshot!(estimate(&world, "workflow.yml"), @"
    cost      $0.50 to $2.00 per item (from 2 items of 1 job)
              1.0k to 9.0k tokens per item
              [time] per item
    ");
}

#[test]
fn the_more_items_are_known_the_narrower_the_range_is() {
    let world =
        map_world(&MIXED.replace("[cheap, dear]", &format!("{:?}", ["cheap", "dear"].repeat(8))));
    assert_code(&go(&world), 0);
    // Without that it would be between 16 times the cheapest and 16 times the dearest.
    assert_snapshot!(estimate(&world, "workflow.yml"), @"
    cost      $13.04 to $27.46 (from 16 items of 1 job)
              42.0k to 118.9k tokens
              [time]
    ");
}

#[test]
fn a_plan_of_steps_tells_from_earlier_jobs_too() {
    let world = workflow::world(
        "agents: { claude: { type: simulated, rules: [{ cost_usd: 0.5 }] } }\nsteps:\n- claude: one\n",
    );
    workflow::run_with(&world, &["-n", "2"]);
    assert_snapshot!(estimate(&world, "workflow.yml"), @"
    cost      about $0.50 (from 1 job)
              [time]
    ");
}

#[test]
fn the_same_text_in_another_file_has_the_same_history() {
    let text = "agents: { claude: { type: simulated, rules: [{ cost_usd: 0.5 }] } }\nsteps:\n- claude: one\n";
    let world = workflow::world(text);
    workflow::run(&world);
    world.write("copy.yml", text);
    world.write("other.yml", text.replace("one", "two"));
    assert_eq!(document(&world, "copy.yml")["cost_usd"], json!([0.5, 0.5]));
    assert_eq!(document(&world, "other.yml"), Value::Null);
}

#[test]
fn items_that_run_at_once_take_less_time() {
    let workflow = "
name: fix
agents: { claude: { type: simulated, rules: [{ delay: 200ms }] } }
map:
  input: { items: [a, b, c, d, e, f, g, h] }
  max_parallel: 8
  agent_template:
    - claude: fix ${item}
";
    let world = map_world(workflow);
    assert_code(&go(&world), 0);
    let longest = |at_once: &str| {
        write_workflow(&world, &workflow.replace("max_parallel: 8", at_once));
        document(&world, "workflow.yml")["duration_ms"][1].as_u64().unwrap()
    };
    let alone = longest("max_parallel: 1");
    // Three at once take three turns: the last one has two items.
    let three = longest("max_parallel: 3");
    assert!(alone >= 8 * 200, "{alone}");
    assert!(three >= 3 * 200, "{three}");
    assert!(three < alone * 3 / 4, "{alone} {three}");
}

#[test]
fn what_agents_did_not_say_is_not_estimated() {
    let world = workflow::world(
        "agents: { mine: { type: command, command: [cat] } }\nsteps:\n- agent: { use: mine, prompt: one }\n",
    );
    workflow::run(&world);
    assert_snapshot!(estimate(&world, "workflow.yml"), @"
    cost      unknown: agents did not say what they cost (from 1 job)
              [time]
    ");
    assert_eq!(document(&world, "workflow.yml")["cost_usd"], Value::Null);
}

#[test]
fn a_damaged_job_does_not_keep_a_plan_from_being_made() {
    let world = map_world(MIXED);
    assert_code(&go(&world), 0);
    for path in workflow::journal(&world) {
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<_> =
            text.lines().map(|line| line.replace("item_queued", "item_qqqqqq")).collect();
        fs::write(&path, lines.join("\n")).unwrap();
    }
    assert_snapshot!(estimate(&world, "workflow.yml"), @"cost      unknown: no history of this workflow");
}
