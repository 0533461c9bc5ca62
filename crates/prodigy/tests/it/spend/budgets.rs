//! Money that is set aside: for a job, for a day, for an item.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use std::fs;

use insta::assert_snapshot;
use prodigy_testkit::{CommandOutput, TestEnv};
use regex::Regex;
use serde_json::Value;

use crate::fixture::{
    map_job::{assert_code, beside, counts, go, has_told, letter, map_world, of_type, started},
    workflow::{SpawnedProdigy, events, stable},
};

/// Returns a workflow with items that cost half a dollar each, one at a time.
fn costly(budget: &str, items: &str) -> String {
    format!(
        "agents: {{ claude: {{ type: simulated, rules: [{{ answer: done, cost_usd: 0.5 }}] }} }}\n\
         budget: {budget}\n\
         map:\n  input: {{ items: {items} }}\n  max_parallel: 1\n  agent_template:\n\
         \x20   - claude: /fix ${{item}}\n"
    )
}

/// Runs the workflow as another job.
fn run_as(world: &TestEnv, job: &str) -> CommandOutput {
    world.prodigy(&["run", "workflow.yml", "-y", "--job-id", job])
}

/// Returns what a person sees, without the day.
fn dateless(seen: &CommandOutput) -> String {
    Regex::new(r"\d{4}-\d\d-\d\d").unwrap().replace_all(&stable(seen), "[day]").into_owned()
}

/// Returns the lines of the daybook, without their times.
fn daybook(world: &TestEnv) -> String {
    let mut lines = Vec::new();
    for entry in fs::read_dir(world.home().join("spending")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        for line in text.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            lines.push(format!(
                "{} {} {} {}",
                line["repo"], line["job_id"], line["cost_usd"], line["total_usd"]
            ));
        }
    }
    lines.join("\n")
}

#[test]
fn a_job_stops_when_its_budget_is_spent_and_goes_on_with_a_larger_one() {
    let world = map_world(&costly("{ job_usd: 1 }", "[a, b, c]"));
    assert_snapshot!(stable(&go(&world)), @"
    ----- stderr -----
    · job job · workflow.yml · mapreduce
    · 3 items
    ✓ item-001  [time]
    ✗ budget spent: the job has cost $1.00, and its budget is $1.00
    ✓ item-002  [time]

    paused: the job has cost $1.00, and its budget is $1.00 · 2 of 3 items done · [time] · cost $1.00
    items: 2 successful, 1 waiting
    cost: $0.50 per completed item
    budget: $0.00 left of $1.00 for the job
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    next: prodigy resume job --budget-usd USD
    [exit 6]
    ");
    assert_eq!(counts(&world), (2, 0, 0));
    let exceeded = &of_type(&world, "budget_exceeded")[0];
    assert_eq!((&exceeded["scope"], &exceeded["spent_usd"]), (&"job".into(), &1.0.into()));
    // It is as poor as before.
    assert_code(&world.prodigy(&["resume", "job"]), 6);
    assert_eq!(counts(&world), (2, 0, 0));
    assert_code(&world.prodigy(&["resume", "job", "--budget-usd", "1.25"]), 0);
    assert_eq!(counts(&world), (3, 0, 0));
}

#[test]
fn a_budget_on_the_command_line_wins_over_that_of_the_workflow() {
    let world = map_world(&costly("{ job_usd: 100 }", "[a, b, c]"));
    let run = ["run", "workflow.yml", "-y", "--job-id", "job", "--budget-usd", "0.5"];
    assert_code(&world.prodigy(&run), 6);
    assert_eq!(counts(&world), (1, 0, 0));
}

/// A workflow in which one of three items spends everything while another waits.
const RICH_AND_SLOW: &str = "
agents: { claude: { type: simulated, rules: [{ prompt: rich, cost_usd: 2 }, { answer: ok }] } }
budget: { job_usd: 1, on_exceeded: pause }
map:
  input: { items: [slow, rich, last] }
  max_parallel: 2
  agent_template:
    - shell: if test ${item} = slow; then until test -e ROOT/go; do sleep 0.02; done; fi
      timeout: 20s
    - claude: ${item}
";

#[test]
fn no_agent_starts_when_the_money_is_spent_and_its_item_goes_on_later() {
    let world = map_world(RICH_AND_SLOW);
    let mut run = started(&world);
    run.until(&world, "the money is spent", || has_told(&world, "budget_exceeded"));
    fs::write(world.root().join("go"), "").unwrap();
    assert_code(&run.seen(&world), 6);
    assert_eq!(counts(&world), (1, 0, 0));
    assert_eq!(of_type(&world, "agent_started").len(), 2);
    assert_eq!(of_type(&world, "work_suspended")[0]["finished_steps"], 1);
    assert_code(&world.prodigy(&["resume", "job", "--budget-usd", "10"]), 0);
    assert_eq!(counts(&world), (3, 0, 0));
}

#[test]
fn what_is_under_way_is_ended_when_the_money_is_spent_if_that_is_asked_for() {
    let world = map_world(&RICH_AND_SLOW.replace("pause", "stop"));
    assert_code(&go(&world), 6);
    assert!(of_type(&world, "agent_completed").iter().all(|done| done["item_id"] != "item-001"));
    let paused = &of_type(&world, "job_paused")[0];
    assert_eq!(paused["message"], "the job has cost $2.00, and its budget is $1.00");
    fs::write(world.root().join("go"), "").unwrap();
    assert_code(&world.prodigy(&["resume", "job", "--budget-usd", "10"]), 0);
    assert_eq!(counts(&world), (3, 0, 0));
    let attempts = of_type(&world, "agent_completed");
    assert!(attempts.iter().all(|done| done["attempt"] == 1), "nothing was charged");
}

#[test]
fn money_is_counted_as_soon_as_an_agent_says_what_it_cost() {
    let world = map_world(
        "agents: { claude: { type: simulated, rules: [{ cost_usd: 2 }] } }\n\
         budget: { job_usd: 1, on_exceeded: stop }\n\
         map:\n  input: { items: [a] }\n  agent_template:\n\
         \x20   - claude: rich\n\
         \x20   - shell: until test -e ROOT/go; do sleep 0.02; done\n\
         \x20     timeout: 20s\n",
    );
    assert_code(&go(&world), 6);
    assert_eq!(counts(&world), (0, 0, 0), "the item itself is under way, and is ended");
}

#[test]
fn the_budget_of_a_day_holds_for_all_jobs_of_all_repositories() {
    let world = map_world(&costly("{ day_usd: 1.2 }", "[a, b]"));
    assert_code(&go(&world), 0);
    let other = world.root().join("other");
    world.git(&["clone", "--quiet", ".", other.to_str().unwrap()]);
    let mut run = world.prodigy_command(&["run", "workflow.yml", "-y", "--job-id", "job"]);
    let seen = world.to_output(&run.current_dir(&other).output().unwrap());
    assert_snapshot!(stable(&seen), @"
    ----- stderr -----
    · job job · workflow.yml · mapreduce
    · 2 items
    ✗ budget spent: jobs have cost $1.50 today, and the day's budget is $1.20
    ✓ item-001  [time]

    paused: jobs have cost $1.50 today, and the day's budget is $1.20 · 1 of 2 items done · [time] · cost $0.50
    items: 1 successful, 1 waiting
    cost: $0.50 per completed item
    budget: $0.00 left of $1.20 for the day
    worktree: $ROOT/home/worktrees/other/job/job (branch prodigy/job/job)
    next: prodigy resume job  (from tomorrow, UTC)
    or, with a higher `day_usd`: prodigy resume job --use-current-workflow
    [exit 6]
    ");
    assert_snapshot!(stable(&run_as(&world, "third")), @"
    ----- stderr -----
    · job third · workflow.yml · mapreduce
    · 2 items
    ✗ budget spent: jobs have cost $1.50 today, and the day's budget is $1.20

    paused: jobs have cost $1.50 today, and the day's budget is $1.20 · 0 of 2 items done · [time]
    items: 0 successful, 2 waiting
    budget: $0.00 left of $1.20 for the day
    worktree: $ROOT/home/worktrees/repo/third/job (branch prodigy/third/job)
    next: prodigy resume third  (from tomorrow, UTC)
    or, with a higher `day_usd`: prodigy resume third --use-current-workflow
    [exit 6]
    ");
    assert_snapshot!(daybook(&world), @r#"
    "repo" "job" 0.5 0.5
    "repo" "job" 0.5 1.0
    "other" "job" 0.5 0.5
    "#);
}

#[test]
fn what_another_job_spends_meanwhile_counts() {
    let world = map_world(
        "agents: { claude: { type: simulated, rules: [{ cost_usd: 0.5 }] } }\n\
         budget: { day_usd: 1 }\n\
         map:\n  input: { items: [a, b] }\n  max_parallel: 1\n  agent_template:\n\
         \x20   - shell: touch ROOT/begun; until test -e ROOT/go; do sleep 0.02; done\n\
         \x20     timeout: 20s\n\
         \x20   - claude: fix\n",
    );
    let mut first = SpawnedProdigy::new(&world, &["run", "workflow.yml", "-y", "--job-id", "job"]);
    first.until(&world, "it has begun", || world.root().join("begun").exists());
    world.write(
        "other.yml",
        costly("{ job_usd: 9 }", "[x]").replace("map:", "mode: mapreduce\nmap:"),
    );
    assert_code(&world.prodigy(&["run", "other.yml", "-y", "--job-id", "other"]), 0);
    fs::write(world.root().join("go"), "").unwrap();
    assert_code(&first.seen(&world), 6);
    assert_eq!(counts(&world), (1, 0, 0));
    assert_eq!(of_type(&world, "budget_exceeded")[0]["spent_usd"], 1.0);
}

#[test]
fn what_was_not_noted_is_made_up_for() {
    let world = map_world(&costly("{ job_usd: 1 }", "[a, b, c]"));
    assert_code(&go(&world), 6);
    let noted = daybook(&world);
    assert_snapshot!(noted, @r#"
    "repo" "job" 0.5 0.5
    "repo" "job" 0.5 1.0
    "#);
    fs::remove_dir_all(world.home().join("spending")).unwrap();
    assert_code(&world.prodigy(&["resume", "job"]), 6);
    assert_eq!(daybook(&world), noted);
    // The second record was written, and the run was cut off.
    let day = fs::read_dir(world.home().join("spending")).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(&day).unwrap();
    fs::write(&day, text.lines().next().unwrap().to_owned() + "\n{\"at\":").unwrap();
    assert_code(&world.prodigy(&["resume", "job", "--budget-usd", "2"]), 0);
    let text = fs::read_to_string(&day).unwrap();
    fs::write(&day, text.replace("{\"at\":#\n", "")).unwrap();
    assert_snapshot!(daybook(&world), @r#"
    "repo" "job" 0.5 0.5
    "repo" "job" 0.5 1.0
    "repo" "job" 0.5 1.5
    "#);
}

#[test]
fn a_daybook_that_cannot_be_written_is_a_warning_unless_a_budget_depends_on_it() {
    let world = map_world(&costly("{ job_usd: 9 }", "[a, b]"));
    fs::create_dir(world.home()).unwrap();
    fs::set_permissions(world.home(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    fs::write(world.home().join("spending"), "in the way").unwrap();
    assert_snapshot!(dateless(&go(&world)), @"
    ----- stderr -----
    · job job · workflow.yml · mapreduce
    · 2 items
    warning: what is spent today cannot be noted, the job goes on without that: cannot open `$ROOT/home/spending/[day].jsonl`: Not a directory (os error 20)
    ✓ item-001  [time]
    ✓ item-002  [time]
    ✓ map: 2/2 done  [time]

    completed · 2 of 2 items done · [time] · cost $1.00
    items: 2 successful
    cost: $0.50 per completed item
    budget: $8.00 left of $9.00 for the job
    nothing to merge: the steps made no commit
    next: prodigy events job
    ");
    write_budget(&world, "{ day_usd: 9 }");
    assert_snapshot!(dateless(&run_as(&world, "second")), @"
    ----- stderr -----
    error: `budget.day_usd` cannot be kept: nobody knows what was spent today: cannot open `$ROOT/home/spending/[day].jsonl`: Not a directory (os error 20)

    hint: fix that, or take `day_usd` out of `budget` to run without it
    [exit 1]
    ");
    assert!(!world.home().join("events/repo/second").exists(), "there is no such job");
    fs::remove_file(world.home().join("spending")).unwrap();
    assert_code(&run_as(&world, "second"), 0);
}

fn write_budget(world: &TestEnv, budget: &str) {
    crate::fixture::map_job::write_workflow(world, &costly(budget, "[a, b]"));
    world.commit_all("Change the budget");
}

#[test]
fn steps_that_cost_nothing_go_on_when_the_money_is_spent() {
    let workflow =
        costly("{ job_usd: 0.5 }", "[a]") + "reduce:\n  - shell: echo all > ROOT/reduced\n";
    let world = map_world(&workflow);
    assert_code(&go(&world), 0);
    assert_eq!(beside(&world, "reduced"), "all\n");
    assert!(has_told(&world, "budget_exceeded"));
}

#[test]
fn a_workflow_of_steps_has_a_budget_too() {
    let world = crate::fixture::workflow::world(
        "agents: { claude: { type: simulated, rules: [{ cost_usd: 0.5 }] } }\n\
         budget: { job_usd: 0.5 }\n\
         steps:\n- claude: one\n- shell: echo between > between; git add .; git commit -qm b\n- claude: two\n",
    );
    assert_snapshot!(crate::fixture::workflow::run(&world), @"
    ----- stderr -----
    · job job · workflow.yml · 3 steps
    ✓ 1 claude: one  [time]
    ✓ 2 shell: echo between > between; git add .; git commit -qm b  [time]
    ✗ budget spent: the job has cost $0.50, and its budget is $0.50

    paused: the job has cost $0.50, and its budget is $0.50 · 2 of 3 steps done · cost $0.50
    budget: $0.00 left of $0.50 for the job
    next: prodigy resume job --budget-usd USD
    [exit 6]
    ");
    assert_snapshot!(events(&world).join(" "), @"job_started worktree_created phase_started step_started agent_session_started agent_usage step_completed step_started step_completed budget_exceeded job_paused");
    assert_code(&world.prodigy(&["resume", "job", "--budget-usd", "1"]), 0);
}

#[test]
fn an_item_whose_budget_is_spent_is_given_up_before_it_spends_more() {
    let world = map_world(
        "
agents: { claude: { type: simulated, rules: [{ prompt: dear, cost_usd: 1 }, { cost_usd: 0.25 }] } }
budget: { item_usd: 1 }
map:
  input: { items: [cheap, dear] }
  max_parallel: 1
  agent_template:
    - claude: begin ${item}
    - claude: finish ${item}
error_policy:
  retry_config: { max_attempts: 3, backoff: { type: fixed, delay: 1ms } }
",
    );
    assert_snapshot!(stable(&go(&world)), @"
    ----- stderr -----
    · job job · workflow.yml · mapreduce
    · 2 items
    ✓ item-001  [time]
    ~ map: 1/2 done · 1 failed · 1 in DLQ  [time]

    completed with failures · 1 of 2 items done · [time] · cost $1.50
    items: 1 successful, 1 in the DLQ
    failures:
      budget_exceeded: the item has cost $1.00, and its budget is $1.00; raise `item_usd`, and replay it with `--use-current-workflow`  item-002
    cost: $1.50 per completed item · $1.00 spent on failed attempts
    budget: $1.00 for an item
    nothing to merge: the steps made no commit
    dead letters: $ROOT/home/dlq/repo/job/mapreduce/dlq/job/items
    next: prodigy dlq show job
    ");
    // The second step of the dear item asked no agent, and no other attempt was made.
    let usages = of_type(&world, "agent_usage");
    let costs: Vec<_> = usages.iter().map(|usage| &usage["cost_usd"]).collect();
    assert_eq!(costs, [0.25, 0.25, 1.0]);
    let letter = letter(&world, "item-002");
    assert_eq!(
        (&letter["reason_code"], &letter["attempts"]),
        (&"budget_exceeded".into(), &1.into())
    );
    assert_eq!(letter["failure_history"][0]["cost_usd"], 1.0);
}

#[test]
fn what_earlier_attempts_of_an_item_cost_counts_for_its_budget() {
    let world = map_world(
        "
agents: { claude: { type: simulated, rules: [{ cost_usd: 0.5 }] } }
budget: { item_usd: 1 }
map:
  input: { items: [a] }
  agent_template:
    - claude: try
    - { name: check, shell: exit 1 }
error_policy:
  retry_config: { max_attempts: 5, backoff: { type: fixed, delay: 1ms } }
",
    );
    assert_code(&go(&world), 1);
    assert_eq!(of_type(&world, "agent_usage").len(), 2);
    let letter = letter(&world, "item-001");
    assert_eq!(
        letter["reason"],
        "the item has cost $1.00, and its budget is $1.00; raise `item_usd`, and replay it with `--use-current-workflow`"
    );
    assert_eq!(letter["attempts"], 3);
}

#[test]
fn an_agent_is_told_what_is_left_for_its_item() {
    let world = crate::agent::command_line::world(
        "mode: mapreduce\nbudget: { item_usd: 1 }\n\
         map:\n  input: { items: [a] }\n  agent_template: [{ claude: one }, { claude: two }]\n",
    );
    assert_code(&go(&world), 0);
    // The first prompt cost a quarter.
    let asked = crate::agent::command_line::left(&world, "claude.argv");
    assert!(asked.lines().any(|word| word == "--max-budget-usd=0.75"), "{asked}");
}
