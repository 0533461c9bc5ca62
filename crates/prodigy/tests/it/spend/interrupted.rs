//! What agents said they cost stays counted, however their attempt was cut off.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use std::fs;

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{
    agent::command_line::{program, world},
    fixture::map_job::{assert_code, beside, go, has_told, map_world, of_type, started},
};

/// A job whose first item has spent two dollars when something cuts it off.
const CUT_OFF: &str = "
agents: { claude: { type: simulated, rules: [{ prompt: rich, cost_usd: 2 }, { cost_usd: 0.25 }] } }
budget: { job_usd: 9, item_usd: 5 }
map:
  input: { items: [rich, poor] }
  item_key: item
  max_parallel: 1
  agent_template:
    - claude: do ${item}
    - shell: until test -e ROOT/go; do sleep 0.02; done
      timeout: 20s
reduce:
  - shell: cp ${map.results_file} ROOT/results.json
";

/// Returns all sums of a job: of the job, of what was lost, of the day, and of the items.
fn sums(world: &TestEnv) -> String {
    let shown = world.prodigy(&["jobs", "show", "job", "--json"]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    let mut day = 0.0;
    for file in fs::read_dir(world.home().join("spending")).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        for line in text.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            day += line["cost_usd"].as_f64().unwrap();
        }
    }
    let results = Some(beside(world, "results.json")).filter(|text| !text.is_empty());
    let results: Option<Value> = results.map(|text| serde_json::from_str(&text).unwrap());
    let items: Vec<_> = results.iter().flat_map(|it| it.as_array().unwrap()).collect();
    let items: Vec<_> = items
        .iter()
        .map(|it| format!("{} {}", it["item_id"].as_str().unwrap(), it["cost_usd"]))
        .collect();
    let job = &shown["job"];
    format!("job {} lost {} day {day} items {items:?}", job["cost_usd"], job["lost_usd"])
}

/// Goes on with a job that was cut off, and returns its sums.
fn finished(world: &TestEnv, args: &[&str]) -> String {
    fs::write(world.root().join("go"), "").unwrap();
    assert_code(&world.prodigy(&[&["resume", "job"], args].concat()), 0);
    sums(world)
}

#[test]
fn the_item_that_spends_the_last_money_and_is_ended_has_cost_it() {
    let workflow = CUT_OFF.replace("job_usd: 9", "job_usd: 1, on_exceeded: stop");
    let world = map_world(&workflow);
    let seen = go(&world);
    assert_code(&seen, 6);
    assert!(seen.stderr.contains("$2.00 spent on failed attempts"), "{seen}");
    assert_snapshot!(sums(&world), @"job 2.0 lost 2.0 day 2 items []");
    assert_snapshot!(finished(&world, &["--budget-usd", "9"]), @r#"job 4.25 lost 2.0 day 4.25 items ["rich 4.0", "poor 0.25"]"#);
}

#[test]
fn a_run_that_is_stopped_or_killed_has_cost_what_its_agents_said() {
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let world = map_world(CUT_OFF);
        let mut run = started(&world);
        run.until(&world, "the agent is done", || has_told(&world, "agent_usage"));
        run.signal(signal);
        let seen = run.seen(&world);
        if signal != Signal::KILL {
            let lost = "$2.00 spent on failed attempts";
            assert!(seen.stderr.contains(lost), "{seen}");
            assert_eq!(sums(&world), "job 2.0 lost 2.0 day 2 items []");
        }
        let all = r#"job 4.25 lost 2.0 day 4.25 items ["rich 4.0", "poor 0.25"]"#;
        assert_eq!(finished(&world, &[]), all, "{signal:?}");
    }
}

#[test]
fn an_agent_that_said_what_it_cost_and_is_ended_then_has_cost_it() {
    let steps = world("- claude: Do it.\n");
    let items = world(
        "mode: mapreduce\nmap:\n  input: { items: [a] }\n  agent_template:\n    - claude: Do it.\n",
    );
    for world in [steps, items] {
        let said = r#"echo '{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"done","total_cost_usd":0.75,"usage":{"input_tokens":30,"output_tokens":2},"permission_denials":[]}'"#;
        let script = format!(
            "cat > /dev/null; {said}; touch {}/said; exec sleep 30",
            world.root().display()
        );
        program(&world, "claude", &script);
        let mut run = started(&world);
        run.until(&world, "it has said it", || world.root().join("said").exists());
        run.signal(Signal::INT);
        let seen = run.seen(&world);
        assert_code(&seen, 130);
        assert!(seen.stderr.contains("$0.75 spent on failed attempts"), "{seen}");
        assert_eq!(of_type(&world, "agent_usage").len(), 1);
        assert_eq!(sums(&world), "job 0.75 lost 0.75 day 0.75 items []");
    }
}

#[test]
fn a_run_that_is_stopped_at_once_has_cost_what_its_agents_said() {
    let world = map_world(CUT_OFF);
    let mut run = started(&world);
    run.until(&world, "the agent is done", || has_told(&world, "agent_usage"));
    assert_code(&world.prodigy(&["stop", "job", "--now"]), 0);
    assert_code(&run.seen(&world), 143);
    assert_eq!(sums(&world), "job 2.0 lost 2.0 day 2 items []");
    let all = r#"job 4.25 lost 2.0 day 4.25 items ["rich 4.0", "poor 0.25"]"#;
    assert_eq!(finished(&world, &[]), all);
}

#[test]
fn an_agent_whose_end_nobody_saw_has_cost_what_it_said() {
    let world = world(
        "mode: mapreduce\nmap:\n  input: { items: [a] }\n  agent_template:\n    - claude: Do it.\n",
    );
    let script = r#"
cat > /dev/null
echo $PPID > ROOT/supervisor
echo '{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"done","total_cost_usd":0.75,"usage":{"input_tokens":30,"output_tokens":2},"permission_denials":[]}'
echo '{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Bash","input":{"command":"sleep"}}]}}'
exec sleep 20
"#;
    program(&world, "claude", &script.replace("ROOT", &world.root().display().to_string()));
    let mut run = started(&world);
    run.until(&world, "it was heard", || has_told(&world, "agent_tool_used"));
    let supervisor = beside(&world, "supervisor").trim().parse().unwrap();
    kill_process(Pid::from_raw(supervisor).unwrap(), Signal::KILL).unwrap();
    assert_code(&run.seen(&world), 1);
    let failed = of_type(&world, "agent_failed");
    assert_eq!(failed[0]["failure"]["kind"], "worker_lost");
    assert_eq!(failed[0]["cost_usd"], 0.75);
    assert_eq!(sums(&world), "job 0.75 lost 0.75 day 0.75 items []");
}
