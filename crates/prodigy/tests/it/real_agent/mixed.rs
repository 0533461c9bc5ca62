//! Many items and every fault at once, with real Claude Code, killed in the middle.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use std::{collections::BTreeMap, time::Duration};

use prodigy_testkit::{
    TestEnv,
    crash::check_processes,
    model::{ModelBehaviour, ModelScript, ScriptedModel},
};
use rustix::process::Signal;

use crate::fixture::{
    map_job::{assert_code, of_type, write_workflow},
    real_agents::claude_world,
    workflow::SpawnedProdigy,
};

/// The longest that one run may take; on two idle processors it is a third of that.
const LIMIT: Duration = Duration::from_secs(90);

/// Items: what they are called, how many there are, and why they die; `None` lives.
const ITEMS: &[(&str, usize, Option<&str>)] = &[
    ("fine", 9, None),
    ("flaky", 3, None),
    ("broken", 2, None),
    ("lazy", 2, None),
    ("blocked", 1, None),
    ("rate", 1, Some("rate_limited")),
    ("busy", 1, Some("provider_overloaded")),
    ("server", 1, Some("dependency_unavailable")),
    ("idle", 1, Some("no_commit")),
    ("denied", 1, Some("permission_denied")),
    ("refused", 1, Some("agent_refused")),
    ("endless", 1, Some("turn_limit")),
    ("costly", 1, Some("budget_exceeded")),
    ("overflow", 1, Some("context_overflow")),
    ("malformed", 1, Some("network_error")),
    ("cut", 1, Some("network_error")),
    ("killed", 1, Some("agent_crashed")),
    ("hung", 1, Some("stalled")),
];

fn script() -> ModelScript {
    let answer = || ModelBehaviour::Answer("All is fine.".to_owned());
    ModelScript::new(ModelBehaviour::Commit)
        .on("item=flaky", ModelBehaviour::Overloaded.times(1).then(ModelBehaviour::Commit))
        .on("item=broken", ModelBehaviour::ServerError.times(1).then(ModelBehaviour::Commit))
        .on("item=lazy", answer().times(1).then(ModelBehaviour::Commit))
        .on("item=blocked", ModelBehaviour::DeniedThenWorks)
        .on("item=rate", ModelBehaviour::RateLimited)
        .on("item=busy", ModelBehaviour::Overloaded)
        .on("item=server", ModelBehaviour::ServerError)
        .on("item=idle", answer())
        .on("item=denied", ModelBehaviour::Denied)
        .on("item=refused", ModelBehaviour::Refusal)
        .on("item=endless", ModelBehaviour::Endless)
        .on("item=costly", ModelBehaviour::Costly(100_000))
        .on("item=overflow", ModelBehaviour::ContextOverflow)
        .on("item=malformed", ModelBehaviour::Malformed)
        .on("item=cut", ModelBehaviour::Cut)
        .on("item=killed", ModelBehaviour::Kill)
        .on("item=hung", ModelBehaviour::Hang)
}

/// Returns the names of all items, mixed.
fn names() -> Vec<(String, Option<&'static str>)> {
    let rounds = ITEMS.iter().map(|(_, count, _)| *count).max().unwrap_or_default();
    let round = |number: usize| {
        let of_round = ITEMS.iter().filter(move |(_, count, _)| number < *count);
        of_round.map(move |(name, _, code)| (format!("{name}-{number}"), *code))
    };
    (0..rounds).flat_map(round).collect()
}

/// Returns the workflow for the first so many items.
fn workflow(count: usize) -> String {
    let items: Vec<_> = names().into_iter().take(count).map(|(name, _)| name).collect();
    format!(
        r#"
agents:
  claude:
    type: claude
    allowed_tools: ["Bash(git add *)", "Bash(git commit *)"]
    max_turns: 5
    max_budget_usd: 0.5
map:
  input: {{ items: [{}] }}
  item_key: item
  max_parallel: 4
  agent_template:
    - claude: "Work. item=${{item}}-${{workflow.job_id}}"
      when: "starts_with(item, 'hung')"
      idle_timeout: 1s
    - claude: "Work. item=${{item}}-${{workflow.job_id}}"
      when: "!starts_with(item, 'hung')"
      commit_required: true
error_policy:
  retry_config:
    max_attempts: 2
    backoff: {{ type: fixed, delay: 100ms }}
    retry_on: [provider_overloaded, dependency_unavailable, no_commit]
"#,
        items.join(", ")
    )
}

/// Returns how each item of a job ended: nothing where its work is in `main`.
fn ends(world: &TestEnv, job: &str) -> BTreeMap<String, Option<String>> {
    let told = world.prodigy(&["events", job, "--json"]).stdout;
    let records = told.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let mut ends = BTreeMap::new();
    for record in records {
        let (kind, item) = (&record["event_type"], record["item_id"].as_str());
        let Some(item) = item else { continue };
        if kind == "item_dead_lettered" {
            let code = record["failure"]["kind"].as_str().unwrap().to_owned();
            ends.insert(item.to_owned(), Some(code));
        } else if kind == "worktree_merged" {
            ends.insert(item.to_owned(), None);
        }
    }
    ends
}

/// Checks that every item of a job is accounted for, and the work of each that lives done once.
#[track_caller]
fn check(world: &TestEnv, job: &str, count: usize) {
    let items: Vec<_> = names().into_iter().take(count).collect();
    let expected: BTreeMap<_, _> =
        items.iter().map(|(name, code)| (name.clone(), code.map(str::to_owned))).collect();
    assert_eq!(expected.len(), count);
    assert_eq!(ends(world, job), expected);
    let subjects = world.git(&["log", "--format=%s", "main"]);
    for (name, code) in items {
        let subject = format!("Work on {name}-{job}");
        let done = subjects.lines().filter(|line| *line == subject).count();
        assert_eq!(done, usize::from(code.is_none()), "{name}");
    }
    check_processes(world).unwrap();
}

/// Runs prodigy, within bounds, and expects it to succeed.
#[track_caller]
fn succeeds(world: &TestEnv, args: &[&str]) {
    assert_code(&SpawnedProdigy::new(world, args).seen_within(world, LIMIT), 0);
}

#[test]
fn thirty_items_and_every_fault_survive_a_kill_and_another_job() {
    let model = ScriptedModel::start(script());
    let world = claude_world(&model, &workflow(30));
    let mut job = SpawnedProdigy::new(&world, &["run", "workflow.yml", "-y", "--job-id", "job"]);
    job.until(&world, "ten turns have begun", || model.turns().len() >= 10);
    job.signal(Signal::KILL);
    job.seen(&world);
    check_processes(&world).unwrap();
    let merged = of_type(&world, "worktree_merged").len();
    assert!(merged < 17, "{merged} items were merged before the kill");
    succeeds(&world, &["resume", "job", "-y", "--no-dlq"]);
    check(&world, "job", 30);

    // The same again beside what is there.
    write_workflow(&world, &workflow(10));
    world.commit_all("Take fewer items");
    succeeds(&world, &["run", "workflow.yml", "-y", "--job-id", "again"]);
    check(&world, "again", 10);
}
