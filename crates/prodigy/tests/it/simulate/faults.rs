//! Everything that can go wrong with the simulated agent, and what it leads to.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use std::collections::BTreeMap;

use insta::assert_snapshot;
use prodigy_core::workflow::SimulatedFault;
use prodigy_testkit::TestEnv;
use serde_json::{Value, json};

use crate::fixture::{
    map_job::{assert_code, counts, go, has_told, map_world, of_type, started, trace_of},
    workflow::records,
};

/// Returns how each item of the job ended: its reason code, or `successful`.
fn ends(world: &TestEnv, items: &[&str]) -> String {
    let of = |record: &Value| {
        let kind = record["failure"]["kind"].as_str().unwrap().to_owned();
        (record["item_id"].as_str().unwrap().to_owned(), kind)
    };
    let dead: BTreeMap<_, _> = of_type(world, "item_dead_lettered").iter().map(of).collect();
    let line =
        |item: &&str| format!("{item}: {}", dead.get(*item).map_or("successful", String::as_str));
    items.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Makes a job whose items are named after faults, each with an agent that has that fault.
fn faulty(faults: &[&str], step: &str) -> TestEnv {
    let rules: Vec<Value> = faults
        .iter()
        .map(|fault| {
            let mut rule = json!({
                "prompt": format!("^{fault}$"),
                "fault": fault,
                "edits": [
                    { "path": "{item}.txt", "content": "one\n" },
                    { "path": "{item}-2.txt", "content": "two\n" },
                ],
                "commit": "Do {item}",
                "result": {},
            });
            if *fault == "huge" {
                // As much as counts as huge anywhere would take a debug build too long.
                rule["megabytes"] = json!(1);
            }
            rule
        })
        .collect();
    map_world(&format!(
        r#"
agents: {{ claude: {{ type: simulated, rules: {} }} }}
map:
  input: {{ items: {} }}
  item_key: item
  max_parallel: 4
  agent_template:
    - claude: "${{item}}"
{step}
"#,
        json!(rules),
        json!(faults)
    ))
}

#[test]
fn every_fault_leads_to_its_reason_code() {
    // What is wrong with an account says nothing about an item, a conflict needs two, a mismatch
    // needs a schema, and `not_satisfied` needs a judge.
    let others = [
        "auth_failed",
        "usage_limit",
        "out_of_credits",
        "conflict",
        "schema_mismatch",
        "not_satisfied",
    ];
    let faults: Vec<&str> =
        SimulatedFault::WORDS.iter().copied().filter(|fault| !others.contains(fault)).collect();
    let world = faulty(&faults, "      commit_required: true\n      timeout: 5s");
    assert_code(&go(&world), 0);
    assert_snapshot!(ends(&world, &faults), @"
    crash: agent_crashed
    hang: timeout
    lie: no_commit
    error: agent_error
    permission_denied: permission_denied
    denied_worked_around: successful
    rate_limited: rate_limited
    overloaded: provider_overloaded
    server_error: dependency_unavailable
    refusal: agent_refused
    max_turns: turn_limit
    over_budget: budget_exceeded
    garbage: output_unparseable
    zero_turns: agent_error
    partial: no_commit
    no_commit: no_commit
    slow: successful
    huge: successful
    ");
}

#[test]
fn an_answer_that_does_not_satisfy_its_schema_is_a_failure() {
    let faults = ["schema_mismatch", "slow"];
    let world = faulty(&faults, "      output_schema: { type: object }");
    assert_code(&go(&world), 0);
    assert_snapshot!(ends(&world, &faults), @"
    schema_mismatch: schema_invalid
    slow: successful
    ");
}

#[test]
fn two_items_that_edit_the_same_file_conflict() {
    let world = map_world(
        r#"
agents:
  claude: { type: simulated, rules: [{ fault: conflict, delay: 2s }] }
map:
  input: { items: [a, b] }
  max_parallel: 2
  agent_template:
    - claude: "${item}"
"#,
    );
    assert_code(&go(&world), 0);
    assert_eq!(of_type(&world, "merge_conflict").len(), 1);
    assert_eq!(of_type(&world, "merge_conflict")[0]["paths"], json!(["simulated-conflict.txt"]));
}

#[test]
fn a_usage_limit_stops_every_agent_and_costs_no_item_an_attempt() {
    let world = map_world(
        r#"
agents:
  claude:
    type: simulated
    rules:
      - item: item-001
        fault: usage_limit
        reset_after: 2s
        edits: [{ path: "{item}.txt" }]
        commit: "Do {item}"
      - { edits: [{ path: "{item}.txt" }], commit: "Do {item}" }
map:
  input: { items: [1, 2, 3, 4] }
  max_parallel: 2
  agent_template:
    - claude: "${item}"
      commit_required: true
"#,
    );
    let seen = world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "job", "--no-wait"]);
    assert_code(&seen, 75);
    let paused = of_type(&world, "quota_paused");
    assert_eq!(paused.len(), 1, "{seen}");
    assert_eq!(paused[0]["limit"]["kind"], "usage");
    let seen = world.prodigy(&["resume", "job", "--no-wait=false"]);
    assert_code(&seen, 0);
    assert_eq!(counts(&world), (4, 0, 0), "{seen}");
    let most = of_type(&world, "agent_completed");
    let most = most.iter().map(|record| record["attempt"].as_u64().unwrap()).max();
    assert_eq!(most, Some(1));
}

#[test]
fn while_one_agent_tries_whether_a_limit_is_lifted_no_other_starts() {
    // Both are due long before the one that tries has ended. Which of them tries depends on how fast
    // the machine is, and does not matter.
    let world = map_world(
        r#"
agents:
  claude:
    type: simulated
    rules:
      - { prompt: first, fault: usage_limit, reset_after: 500ms, delay: 2s }
      - { answer: done, delay: 2s }
map:
  input: { items: [first, late] }
  item_key: item
  max_parallel: 2
  agent_template:
    - shell: test ${item} = first || test -e ROOT/tried || { touch ROOT/tried; exit 1; }
    - claude: "${item}"
error_policy:
  retry_config: { max_attempts: 2, backoff: { type: fixed, delay: 1500ms } }
"#,
    );
    assert_code(&go(&world), 0);
    let told = records(&world);
    let paused = told.iter().position(|record| record["event_type"] == "quota_paused").unwrap();
    let of = ["agent_started", "quota_resumed"];
    let mut items = Vec::new();
    let after = told.iter().skip(paused).filter_map(|record| {
        let kind = record["event_type"].as_str().filter(|kind| of.contains(kind))?;
        let item = record["item_id"].as_str().unwrap_or("job");
        if item != "job" && !items.contains(&item) {
            items.push(item);
        }
        let who =
            ["who tries", "the other"].into_iter().zip(&items).find(|(_, named)| **named == item);
        Some(format!("{} {kind}", who.map_or("job", |(who, _)| who)))
    });
    assert_snapshot!(after.collect::<Vec<_>>().join("\n"), @"
    who tries agent_started
    job quota_resumed
    the other agent_started
    ");
}

#[test]
fn what_a_limit_cut_off_is_not_made_again_where_something_outside_may_have_changed() {
    let world = map_world(
        r"
agents: { claude: { type: simulated, rules: [{ fault: usage_limit, reset_after: 300ms }] } }
map:
  input: { items: [a] }
  agent_template:
    - { claude: publish it, effects: external }
",
    );
    assert_code(&go(&world), 1);
    assert_snapshot!(trace_of(&world, "item-001"), @"
    item-001 agent_started 1
    item-001 agent_failed 1 unknown_commit_state then dead_letter
    item-001 item_dead_lettered 1 unknown_commit_state
    ");
}

#[test]
fn a_provider_without_room_halves_how_many_are_at_work_and_each_success_allows_one_more() {
    for fault in ["rate_limited", "overloaded"] {
        let world = map_world(&format!(
            r#"
agents: {{ claude: {{ type: simulated, rules: [{{ prompt: full, fault: {fault}, times: 1 }}, {{ answer: done }}] }} }}
map:
  input: {{ items: [full, b, c, d, next, f] }}
  item_key: item
  max_parallel: 4
  agent_template:
    - shell: case ${{item}} in b|c|d) until test -e ROOT/go; do sleep 0.01; done ;; esac
      timeout: 20s
    - claude: "${{item}}"
error_policy:
  retry_config: {{ max_attempts: 2, backoff: {{ type: fixed, delay: 1ms }} }}
"#
        ));
        let mut run = started(&world);
        run.until(&world, "there is less room", || has_told(&world, "concurrency_changed"));
        std::fs::write(world.root().join("go"), "").unwrap();
        assert_code(&run.seen(&world), 0);
        let changed = of_type(&world, "concurrency_changed");
        let most: Vec<_> = changed.iter().map(|record| record["max"].as_u64().unwrap()).collect();
        assert_eq!(most, [2, 3, 4], "{fault}");
        // Nobody began while three were at work and two were allowed.
        let told = records(&world);
        let at = |kind: &str, item: &str| {
            told.iter().position(|it| it["event_type"] == kind && it["item_id"] == item).unwrap()
        };
        let done = ["b", "c", "d"].map(|item| at("agent_completed", item));
        assert!(done.iter().min() < Some(&at("agent_started", "next")), "{fault}");
    }
}

#[test]
fn an_account_without_money_stops_the_job() {
    let world = faulty(&["out_of_credits"], "      commit_required: true");
    let seen = go(&world);
    assert_code(&seen, 6);
    assert_eq!(of_type(&world, "quota_paused")[0]["limit"]["kind"], "credits");
}

#[test]
fn what_a_step_allows_ends_the_agent() {
    let world = map_world(
        r#"
agents:
  claude:
    type: simulated
    rules: [{ prompt: turns, turns: 9 }, { prompt: money, cost_usd: 2.5 }, { answer: ok }]
map:
  input: { items: [turns, money, neither] }
  item_key: item
  agent_template:
    - claude: "${item}"
      max_turns: 5
      max_budget_usd: 1.5
"#,
    );
    assert_code(&go(&world), 0);
    assert_snapshot!(ends(&world, &["turns", "money", "neither"]), @"
    turns: turn_limit
    money: budget_exceeded
    neither: successful
    ");
}

#[test]
fn what_the_agent_used_is_recorded() {
    let world = map_world(
        r#"
agents:
  claude:
    type: simulated
    rules: [{ cost_usd: 0.25, tokens: { input: 1000, output: 50 }, model: small }]
map:
  input: { items: [a] }
  agent_template:
    - claude: "${item}"
"#,
    );
    assert_code(&go(&world), 0);
    let usage = &of_type(&world, "agent_usage")[0];
    let fields = ["cost_usd", "tokens", "model"].map(|name| usage[name].to_string());
    assert_snapshot!(fields.join(" "), @r#"0.25 {"input_tokens":1000,"output_tokens":50} "small""#);
}

#[test]
fn what_is_huge_unless_told_otherwise_is_read_to_its_end() {
    let world = map_world(
        "
agents: { claude: { type: simulated, rules: [{ fault: huge, answer: the end }] } }
map:
  input: { items: [huge] }
  item_key: item
  agent_template:
    - { claude: work, capture: said }
",
    );
    let seen = go(&world);
    assert_code(&seen, 0);
    let transcript = world.home().join("logs/repo/job/huge/attempt-1.jsonl");
    let size = std::fs::metadata(transcript).unwrap().len();
    assert!(size > 16 << 20, "{size}");
    assert_eq!(of_type(&world, "agent_completed").len(), 1, "{seen}");
}
