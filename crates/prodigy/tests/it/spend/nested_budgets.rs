//! Budgets hold for every agent, whoever starts it.

use std::{fs, thread};

use prodigy_testkit::{TestEnv, crash::check_processes};
use serde_json::Value;

use crate::fixture::{
    map_job::{assert_code, map_world, of_type},
    workflow::{SpawnedProdigy, world as plain_world},
};

/// An agent that costs half a dollar each time.
const COSTLY: &str = "agents: { claude: { type: simulated, rules: [{ prompt: ^judge, answer: '{\"status\": \"complete\"}', cost_usd: 0.5 }, { answer: done, cost_usd: 0.5, edits: [{ path: work.txt, content: \"x\\n\", append: true }] }] } }\n";

/// Returns what all agents of the job cost.
fn cost(world: &TestEnv) -> f64 {
    of_type(world, "agent_usage").iter().filter_map(|record| record["cost_usd"].as_f64()).sum()
}

/// Runs a workflow whose budget allows two agents and whose steps would start many more.
fn check(place: &str, most: f64, workflow: &str) {
    let world = map_world(&format!("{COSTLY}budget: {{ job_usd: 1 }}\n{workflow}"));
    let args = ["run", "workflow.yml", "-y", "--job-id", "job"];
    let seen = SpawnedProdigy::new(&world, &args).seen(&world);
    assert_eq!(seen.code, Some(6), "{place}: {seen}");
    assert!(cost(&world) <= most, "{place}: cost {}: {seen}", cost(&world));
    let paused = of_type(&world, "job_paused");
    assert_eq!(paused.last().map(|record| &record["reason"]), Some(&"budget".into()), "{place}");
    let dead: Vec<Value> = of_type(&world, "item_dead_lettered");
    assert!(dead.is_empty(), "{place}: {dead:?}");
    check_processes(&world).unwrap();
    // With more money it goes on from there.
    let resume = ["resume", "job", "--budget-usd", "100"];
    let seen = SpawnedProdigy::new(&world, &resume).seen(&world);
    let is_failed = ["retries", "the handler of an item"].contains(&place);
    assert_eq!(seen.code, Some(i32::from(is_failed)), "{place}: {seen}");
}

#[test]
fn a_spent_budget_stops_the_next_agent_wherever_it_is_started() {
    let item = |steps: &str| format!("map:\n  input: {{ items: [x] }}\n  agent_template:\n{steps}");
    let many = (1..=8).map(|number| format!("    - claude: p{number}\n"));
    let many = many.collect::<Vec<_>>().concat();
    let map = "map: { input: { items: [x] }, agent_template: [{ shell: 'true' }] }\n";
    let places = [
        ("steps of an item", 1.0, item(&many)),
        (
            "a loop",
            1.0,
            item(
                "    - foreach: { input: [1, 2, 3, 4, 5, 6, 7, 8], do: [{ claude: \"p${item}\" }] }",
            ),
        ),
        // Two are under way when the second dollar is spent.
        (
            "a loop in parallel",
            2.0,
            item(
                "    - foreach: { input: [1, 2, 3, 4, 5, 6, 7, 8], parallel: 2, do: [{ claude: \"p${item}\" }] }",
            ),
        ),
        (
            "retries",
            1.0,
            item(
                "    - { claude: try, commit_required: true, auto_commit: false, retry: { attempts: 8, initial_delay: 1ms } }",
            ),
        ),
        (
            "on_incomplete",
            1.0,
            item(
                "    - claude: begin\n      validate: { shell: 'test $(wc -l <work.txt) -ge 8', on_incomplete: { claude: more, max_attempts: 9 } }",
            ),
        ),
        (
            "judges",
            1.0,
            item(
                "    - { claude: p1, validate: { claude: judge } }\n    - { claude: p2, validate: { claude: judge } }\n    - { claude: p3 }",
            ),
        ),
        (
            "a handler",
            1.0,
            item(&format!(
                "    - shell: exit 1\n      on_failure:\n{}",
                many.replace("    - ", "        - ")
            )),
        ),
        (
            "the handler of an item",
            1.0,
            format!(
                "{}\nerror_policy:\n  on_item_failure: custom:rescue\n  handlers:\n    rescue:\n{}",
                item("    - shell: exit 1"),
                many.replace("    - ", "      - ")
            ),
        ),
        (
            "reduce",
            1.0,
            format!(
                "{map}reduce:\n  - foreach: {{ input: [1, 2, 3, 4], do: [{{ claude: \"p${{item}}\" }}] }}\n"
            ),
        ),
        ("setup", 1.0, format!("setup:\n{}{map}", many.replace("    - ", "  - "))),
    ];
    thread::scope(|scope| {
        for (place, most, workflow) in places {
            scope.spawn(move || check(place, most, &workflow));
        }
    });
}

#[test]
fn the_summary_of_a_spent_budget_says_what_is_kept() {
    let steps = "map:\n  input: { items: [x] }\n  agent_template: [{ claude: p1 }, { claude: p2 }, { claude: p3 }]\n";
    let world = map_world(&format!("{COSTLY}budget: {{ job_usd: 1 }}\n{steps}"));
    let args = ["run", "workflow.yml", "-y", "--job-id", "job"];
    let seen = SpawnedProdigy::new(&world, &args).seen(&world);
    assert_code(&seen, 6);
    let line = "kept: 1 item waits in the middle with 2 finished steps; it goes on from there";
    assert!(seen.to_string().contains(line), "{seen}");
    assert!(!seen.to_string().contains("failed attempts"), "nothing of it is lost: {seen}");
    let resumed = SpawnedProdigy::new(&world, &["resume", "job", "--budget-usd", "5"]).seen(&world);
    assert_code(&resumed, 0);
    assert_eq!(world.read("work.txt"), "x\nx\nx\n", "each was paid for once");
    assert!((cost(&world) - 1.5).abs() < 1e-9, "{}", cost(&world));
}

/// A job that was stopped by the budget of the day and resumed with a larger one.
pub(crate) fn resumed_with_more() -> TestEnv {
    let map = "map: { input: { items: [x] }, agent_template: [{ claude: p1 }, { claude: p2 }, { claude: p3 }] }\n";
    let world = map_world(&format!("{COSTLY}budget: {{ day_usd: 1 }}\n{map}"));
    assert_code(&world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "job"]), 6);
    world.write("workflow.yml", world.read("workflow.yml").replace("day_usd: 1", "day_usd: 9"));
    assert_code(&world.prodigy(&["resume", "job", "--use-current-workflow"]), 0);
    world
}

#[test]
fn suspended_work_goes_on_with_a_changed_budget_and_starts_over_with_other_steps() {
    let steps = "map:\n  input: { items: [x] }\n  agent_template: [{ claude: p1 }, { claude: p2 }, { claude: p3 }]\n";
    for (change, paid) in [(("day_usd: 1", "day_usd: 9"), 3), (("p3", "p4"), 5)] {
        let world = map_world(&format!("{COSTLY}budget: {{ day_usd: 1 }}\n{steps}"));
        let args = ["run", "workflow.yml", "-y", "--job-id", "job"];
        assert_code(&SpawnedProdigy::new(&world, &args).seen(&world), 6);
        let text = world.read("workflow.yml").replace("day_usd: 1", "day_usd: 9");
        world.write("workflow.yml", text.replace(change.0, change.1));
        let resume = ["resume", "job", "--use-current-workflow"];
        let seen = SpawnedProdigy::new(&world, &resume).seen(&world);
        assert_code(&seen, 0);
        assert_eq!(of_type(&world, "agent_usage").len(), paid, "{change:?}: {seen}");
        let is_said =
            seen.to_string().contains("the steps have changed: 1 suspended item starts over");
        assert_eq!(is_said, paid == 5, "{change:?}: {seen}");
    }
}

#[test]
fn replays_keep_the_budget() {
    let world = map_world(&format!(
        "{COSTLY}budget: {{ job_usd: 1 }}\nmap:\n  input: {{ items: [x] }}\n  agent_template: [{{ claude: p1 }}, {{ shell: test -e ROOT/mended }}, {{ claude: p2 }}, {{ claude: p3 }}]\n"
    ));
    assert_code(&world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "job"]), 1);
    fs::write(world.root().join("mended"), "").unwrap();
    let seen = SpawnedProdigy::new(&world, &["dlq", "retry", "job"]).seen(&world);
    assert_code(&seen, 6);
    assert!((cost(&world) - 1.0).abs() < 1e-9, "{}: {seen}", cost(&world));
}

#[test]
fn two_jobs_keep_the_budget_of_the_day_together() {
    let workflow = format!(
        "{COSTLY}budget: {{ day_usd: 2 }}\nsteps:\n  - foreach: {{ input: [1, 2, 3, 4, 5, 6, 7, 8], do: [{{ claude: \"p${{item}}\" }}] }}\n"
    );
    let world = plain_world(&workflow);
    let run =
        |job: &str| SpawnedProdigy::new(&world, &["run", "workflow.yml", "-y", "--job-id", job]);
    let (one, other) = (run("job"), run("other"));
    for started in [one, other] {
        assert_code(&started.seen(&world), 6);
    }
    let day = fs::read_dir(world.home().join("spending")).unwrap().next().unwrap().unwrap();
    let text = fs::read_to_string(day.path()).unwrap();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let sum: f64 = lines.filter_map(|line| line["cost_usd"].as_f64()).sum();
    // Each may have had one agent under way when the other spent the last of it.
    assert!((2.0..=2.5).contains(&sum), "{sum}: {text}");
}
