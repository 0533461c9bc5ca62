//! Fields that the documents promise: each is there, and says what it should.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use std::fs;

use prodigy_testkit::TestEnv;
use serde_json::{Value, json};

use crate::fixture::{
    map_job::{assert_code, go, letter, map_world, of_type},
    workflow::world,
};

/// Three items of which `a` succeeds and the others fail, twice each, with an agent before.
const WORKFLOW: &str = r#"
agents: { claude: { type: simulated, rules: [{ answer: done, cost_usd: 0.5 }] } }
setup: [{ shell: 'true' }]
map:
  input: { items: [a, b, c] }
  item_key: item
  max_parallel: 2
  agent_template:
    - claude: "do ${item}"
    - shell: |
        test ${item} = a && exit 0
        test ${item} = c && echo x > left
        exit 3
error_policy: { retry_config: { max_attempts: 2, backoff: { type: fixed, delay: 1ms } } }
reduce: [{ shell: 'true' }]
"#;

/// Returns the checkpoint of the job.
fn checkpoint(world: &TestEnv) -> Value {
    let path = world.home().join("state/repo/mapreduce/jobs/job/checkpoint.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns the figures of the checkpoint.
fn figures(world: &TestEnv) -> Value {
    let stored = checkpoint(world);
    let names = [
        "phase",
        "items_processed",
        "items_total",
        "items_remaining",
        "successful_items",
        "failed_items",
    ];
    Value::from(names.map(|name| stored[name].clone()).to_vec())
}

#[test]
fn checkpoint_counts_the_items_of_a_job() {
    let world = map_world(WORKFLOW);
    assert_code(&go(&world), 0);
    assert_eq!(figures(&world), json!(["merge", 3, 3, [], 1, 2]));
    let segment = checkpoint(&world)["journal"]["segment"].clone();
    let file = segment.as_str().unwrap();
    assert!(world.home().join("events/repo/job").join(file).is_file(), "{file}");
}

#[test]
fn checkpoint_of_a_stopped_job_names_the_items_that_are_left() {
    let world = map_world(
        "
map:
  input: { items: [a, b, c, d] }
  item_key: item
  max_parallel: 1
  agent_template: [{ shell: 'test ${item} != b' }]
error_policy: { on_item_failure: stop }
",
    );
    assert_code(&go(&world), 5);
    let stored = checkpoint(&world);
    let processed = stored["items_processed"].as_u64().unwrap();
    let left = stored["items_remaining"].as_array().unwrap();
    assert_eq!(processed + u64::try_from(left.len()).unwrap(), 4, "{stored:#}");
    assert_eq!(stored["successful_items"], 1);
    assert!(left.contains(&json!("d")), "{left:?}");
}

#[test]
fn checkpoint_is_announced_at_the_end_of_each_phase() {
    let world = map_world(WORKFLOW);
    assert_code(&go(&world), 0);
    let kinds: Vec<String> = crate::fixture::workflow::events(&world);
    for (at, kind) in kinds.iter().enumerate() {
        if kind == "phase_completed" {
            let rest = &kinds[at + 1..];
            let next = rest.iter().find(|kind| *kind != "phase_started").unwrap();
            assert_eq!(next, "checkpoint_created", "after record {}: {kinds:#?}", at + 1);
        }
    }
    assert!(of_type(&world, "checkpoint_created").len() >= 3, "{kinds:#?}");
}

#[test]
fn verify_names_a_wrong_figure_of_the_checkpoint() {
    let world = map_world(WORKFLOW);
    assert_code(&go(&world), 0);
    assert_code(&world.prodigy(&["verify", "job"]), 0);
    let path = world.home().join("state/repo/mapreduce/jobs/job/checkpoint.json");
    for (name, wrong) in
        [("items_processed", json!(1)), ("items_total", json!(0)), ("successful_items", json!(0))]
    {
        let right = fs::read_to_string(&path).unwrap();
        let mut stored = checkpoint(&world);
        stored[name] = wrong;
        fs::write(&path, stored.to_string()).unwrap();
        let seen = world.prodigy(&["verify", "job"]);
        assert_code(&seen, 1);
        assert!(seen.stdout.contains(&format!("`{name}` is ")), "{seen}");
        fs::write(&path, right).unwrap();
    }
}

#[test]
fn history_of_a_dead_letter_names_the_conversation_of_each_attempt() {
    let world = map_world(WORKFLOW);
    assert_code(&go(&world), 0);
    let told: Vec<Value> = of_type(&world, "agent_session_started")
        .iter()
        .filter(|record| record["item_id"] == "b")
        .map(|record| record["session_id"].clone())
        .collect();
    let history = letter(&world, "b")["failure_history"].clone();
    let named: Vec<Value> =
        history.as_array().unwrap().iter().map(|detail| detail["session_id"].clone()).collect();
    assert_eq!(named, told);
    assert_eq!(named.len(), 2);
}

#[test]
fn attempts_say_how_they_ended_and_whose_work_they_were() {
    let world = map_world(WORKFLOW);
    assert_code(&go(&world), 0);
    let done = of_type(&world, "agent_completed");
    assert_eq!(done.iter().map(|it| it["status"].clone()).collect::<Vec<_>>(), ["success"]);
    let starts = of_type(&world, "agent_started");
    for failed in of_type(&world, "agent_failed") {
        let begun = starts.iter().find(|it| it["item_id"] == failed["item_id"]).unwrap();
        assert_eq!(failed["correlation_id"], begun["correlation_id"]);
        assert!(failed["correlation_id"].is_string());
    }
}

#[test]
fn first_attempt_is_when_the_item_was_first_worked_on() {
    let world = map_world(WORKFLOW);
    assert_code(&go(&world), 0);
    let starts = of_type(&world, "agent_started");
    let began = starts.iter().find(|it| it["item_id"] == "b").unwrap();
    let entry = letter(&world, "b");
    assert_eq!(entry["first_attempt"], began["timestamp"]);
    assert_eq!(entry["last_attempt"], entry["failure_history"][1]["timestamp"]);
}

#[test]
fn failed_step_of_a_long_command_is_named_by_its_first_line() {
    let world = map_world(WORKFLOW);
    assert_code(&go(&world), 0);
    let entry = letter(&world, "b");
    assert_eq!(entry["failure_history"][0]["step_failed"], "shell: test ${item} = a && exit 0");
    assert_eq!(entry["topic"], "map.2");
}

#[test]
fn every_dead_letter_says_where_it_was_worked_on() {
    let world = map_world(WORKFLOW);
    assert_code(&go(&world), 0);
    let trees = world.home().join("worktrees/repo/job");
    let left = letter(&world, "b")["worktree_artifacts"].clone();
    let path = left["worktree_path"].as_str().unwrap();
    assert!(path.starts_with(&trees.join("agent-").display().to_string()), "{path}");
    assert_eq!(left["branch_name"], "prodigy/job/b");
    assert_eq!(left["uncommitted_changes"], "none");
    assert_eq!((&left["preserved"], &left["commits"]), (&json!(false), &json!(0)));
    let left = letter(&world, "c")["worktree_artifacts"].clone();
    assert_eq!(left["worktree_path"], trees.join("c").display().to_string());
    assert_eq!(left["branch_name"], "prodigy/job/c");
    assert_eq!(left["uncommitted_changes"], "left new");
    assert_eq!(left["preserved"], true);
    // What leads nowhere is not shown to people.
    let shown = world.prodigy(&["dlq", "show", "job", "b"]);
    assert!(!shown.stdout.contains("worktree"), "{shown}");
}

#[test]
fn dead_letters_of_items_that_share_a_worktree_name_that_of_the_job() {
    let world = map_world(
        "
map:
  input: { items: [1] }
  isolation: shared
  agent_template: [{ shell: exit 1 }]
",
    );
    assert_code(&go(&world), 1);
    let left = letter(&world, "item-001")["worktree_artifacts"].clone();
    let tree = world.home().join("worktrees/repo/job/job");
    assert_eq!(left["worktree_path"], tree.display().to_string());
    assert_eq!(left["branch_name"], "prodigy/job/job");
}

#[test]
fn unmerged_commits_are_counted_and_their_branch_is_shown() {
    let world = map_world(
        "
map:
  input: { items: [1] }
  agent_template:
    - shell: echo x > a && git add a && git commit --quiet -m a && exit 1
error_policy: { preserve_worktrees: never }
",
    );
    assert_code(&go(&world), 1);
    let left = letter(&world, "item-001")["worktree_artifacts"].clone();
    assert_eq!((&left["commits"], &left["preserved"]), (&json!(1), &json!(false)));
    assert_eq!(left["branch_name"], "prodigy/job/item-001");
    assert_eq!(left["uncommitted_changes"], "none");
    let shown = world.prodigy(&["dlq", "show", "job", "item-001"]);
    assert!(shown.stdout.contains("branch    prodigy/job/item-001"), "{shown}");
}

#[test]
fn verbose_runs_show_every_event_and_what_failed_steps_printed() {
    let world = world("- shell: echo so it is >&2; test -e ../go\n- shell: 'true'\n");
    let seen = world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "job", "-v"]);
    assert_code(&seen, 1);
    for wanted in ["job_started", "step_started", "step_failed", "    so it is", "job_failed"] {
        assert!(seen.stderr.contains(wanted), "`{wanted}` is missing: {seen}");
    }
    fs::create_dir_all(world.home().join("worktrees/repo/job/go")).unwrap();
    let seen = world.prodigy(&["resume-job", "job", "-v"]);
    assert_code(&seen, 0);
    for wanted in ["job_resumed", "step_completed", "phase_completed", "job_completed"] {
        assert!(seen.stderr.contains(wanted), "`{wanted}` is missing: {seen}");
    }
}

#[test]
fn offset_is_told_against_the_items_that_are_left_after_distinct() {
    let world = map_world(
        "
map:
  input: { items: [{ n: 1 }, { n: 1 }, { n: 2 }] }
  distinct: item.n
  offset: 2
  agent_template: [{ shell: 'true' }]
",
    );
    let seen = go(&world);
    assert_code(&seen, 0);
    assert!(seen.stderr.contains("`offset: 2` passes over all of the 2 distinct items"), "{seen}");
}

#[test]
fn events_stats_counts_errors_by_reason() {
    let world = map_world(WORKFLOW);
    assert_code(&go(&world), 0);
    let seen = world.prodigy(&["events", "stats", "job", "--json"]);
    assert_code(&seen, 0);
    let errors = serde_json::from_str::<Value>(&seen.stdout).unwrap()["errors"].clone();
    assert_eq!(
        errors,
        json!({
            "failures": 4, "failed_steps": 4, "failed_attempts": 4, "retries": 2,
            "dead_letters": 2, "skipped_items": 0, "by_reason": { "command_failed": 4 },
        })
    );
    let seen = world.prodigy(&["events", "stats", "job"]);
    assert!(seen.stdout.contains("\nerrors\n       4  failed steps\n"), "{seen}");
}

#[test]
fn an_entry_of_the_shape_for_triage_is_listed_and_shown() {
    let world = world("- shell: 'true'\n");
    let directory = world.home().join("dlq/repo/job_74c2");
    fs::create_dir_all(&directory).unwrap();
    let entry = json!({
        "job_id": "job_74c2",
        "topic": "tool.github.pr.create",
        "status": "FAILED",
        "reason_code": "max_scheduling_retries",
        "reason": "max scheduling retries exceeded (attempts=50)",
        "attempts": 50,
        "idempotency_key": "run_2f91:step_3",
        "policy_snapshot": "sha256:ab91...",
        "replay_status": "pending_review",
    });
    fs::write(directory.join("step_3.json"), entry.to_string()).unwrap();
    let listed = world.prodigy(&["dlq", "list", "job_74c2", "--json"]);
    assert_code(&listed, 0);
    assert!(listed.stdout.contains("max_scheduling_retries"), "{listed}");
    let shown = world.prodigy(&["dlq", "show", "job_74c2", "step_3", "--json"]);
    assert_code(&shown, 0);
    assert!(shown.stdout.contains("run_2f91:step_3"), "{shown}");
    assert!(shown.stdout.contains("tool.github.pr.create"), "{shown}");
}
