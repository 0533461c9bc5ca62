//! What helps when the money that was set aside is spent, and that it does help.

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;

use crate::fixture::{
    approvals::by,
    map_job::{assert_code, counts, go, map_world, write_workflow},
};

/// Returns a workflow with items that cost half a dollar each, one at a time.
fn costly(budget: &str) -> String {
    format!(
        "agents: {{ claude: {{ type: simulated, rules: [{{ answer: done, cost_usd: 0.5 }}] }} }}\n\
         budget: {budget}\n\
         map:\n  input: {{ items: [a, b] }}\n  max_parallel: 1\n  agent_template:\n\
         \x20   - claude: /fix ${{item}}\n"
    )
}

/// Returns what a command says that begins a line like this.
fn line(world: &TestEnv, args: &[&str], start: &str) -> String {
    let seen = world.prodigy(args);
    let all = seen.to_string();
    let lines: Vec<_> = all.lines().filter(|line| line.trim().starts_with(start)).collect();
    lines.join("\n").trim().to_owned()
}

#[test]
fn a_job_without_money_says_that_it_needs_more() {
    let world = map_world(&costly("{ job_usd: 0.5 }"));
    assert_code(&go(&world), 6);
    assert_snapshot!(line(&world, &["jobs", "show", "job"], "next"), @"next: `prodigy resume job --budget-usd USD` goes on with more money");
    assert_code(&world.prodigy(&["resume", "job", "--budget-usd", "5"]), 0);
}

#[test]
fn a_day_without_money_says_when_and_how_it_goes_on() {
    let world = map_world(&costly("{ day_usd: 0.5 }"));
    assert_code(&go(&world), 6);
    assert_snapshot!(line(&world, &["jobs", "show", "job"], "next"), @"next: `prodigy resume job` goes on from tomorrow (UTC), or with `--use-current-workflow` and a higher `day_usd` now");
    assert_snapshot!(line(&world, &["resume", "job"], "next"), @"next: prodigy resume job  (from tomorrow, UTC)");
    assert_snapshot!(line(&world, &["resume", "job"], "or, with"), @"or, with a higher `day_usd`: prodigy resume job --use-current-workflow");
    write_workflow(&world, &costly("{ day_usd: 5 }"));
    assert_code(&world.prodigy(&["resume", "job", "--use-current-workflow"]), 0);
    assert_eq!(counts(&world), (2, 0, 0));
}

#[test]
fn an_item_without_money_is_replayed_with_a_workflow_that_has_more() {
    let world = map_world(&costly("{ item_usd: 0.25 }"));
    assert_code(&go(&world), 1);
    let show = ["dlq", "show", "job", "item-001"];
    assert_snapshot!(line(&world, &show, "to do"), @"to do       raise `item_usd`, or `max_budget_usd` of the step; then replay with `--use-current-workflow`");
    assert_snapshot!(line(&world, &show, "get it on"), @"get it on       prodigy dlq retry job item-001 --use-current-workflow  (asks for it)");
    write_workflow(&world, &costly("{ item_usd: 5 }"));
    let retry = ["dlq", "retry", "job", "item-001", "--use-current-workflow"];
    let asked = line(&world, &retry, "then: prodigy dlq approve ");
    let approve: Vec<_> = asked.trim_start_matches("then: prodigy ").split(' ').collect();
    // Whoever asked does not approve.
    let seen = by(&world, "carol", &approve).to_string();
    let next = seen.lines().find(|line| line.starts_with("next, for")).unwrap();
    let next = next.split(": ").nth(1).unwrap().to_owned();
    assert_snapshot!(next, @"prodigy dlq retry job item-001 --use-current-workflow");
    assert_snapshot!(line(&world, &["dlq", "approvals", "job"], "next"), @"next         prodigy dlq retry job item-001 --use-current-workflow");
    assert_code(&world.prodigy(&retry), 0);
    assert_eq!(counts(&world).0, 1);
}

#[test]
fn what_is_never_tried_again_is_not_asked_for_without_a_word() {
    let world = TestEnv::with_repo(env!("CARGO_BIN_EXE_prodigy"));
    world.write(
        "w.yml",
        "mode: mapreduce\nmap:\n  input: { items: [a] }\n  agent_template:\n  - claude: x\n    retry: { retry_on: [budget_exceeded, cancelled] }\nretry_config:\n  retry_on: [timeout, budget_exceeded, poison_repeat, unknown_commit_state]\n",
    );
    assert_snapshot!(world.prodigy(&["validate", "w.yml"]), @"
    w.yml: ok (mapreduce: map 1 step, 4 warnings)
    ----- stderr -----
    warning: `cancelled` is never tried again: it has no effect in `retry_on`
     --> w.yml:6:42
      |
    6 |     retry: { retry_on: [budget_exceeded, cancelled] }
      |                                          ^^^^^^^^^
      |
      = help: take it out; `prodigy resume` goes on after a stop

    warning: `budget_exceeded` is never tried again: it has no effect in `retry_on`
     --> w.yml:8:23
      |
    8 |   retry_on: [timeout, budget_exceeded, poison_repeat, unknown_commit_state]
      |                       ^^^^^^^^^^^^^^^
      |
      = help: take it out; a higher `item_usd` or `max_budget_usd` helps, with `prodigy dlq retry JOB --use-current-workflow`

    warning: `poison_repeat` is never tried again: it has no effect in `retry_on`
     --> w.yml:8:40
      |
    8 |   retry_on: [timeout, budget_exceeded, poison_repeat, unknown_commit_state]
      |                                        ^^^^^^^^^^^^^
      |
      = help: take it out; `prodigy dlq retry` tries such an item again

    warning: `unknown_commit_state` is never tried again: it has no effect in `retry_on`
     --> w.yml:8:55
      |
    8 |   retry_on: [timeout, budget_exceeded, poison_repeat, unknown_commit_state]
      |                                                       ^^^^^^^^^^^^^^^^^^^^
      |
      = help: take it out; another try might change the same thing twice
    ");
}
