//! Usage limits of a subscription, as real Claude Code tells of them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use insta::assert_snapshot;
use prodigy_core::Timestamp;
use prodigy_testkit::{
    crash::check_processes,
    model::{ModelBehaviour, ModelScript, ScriptedModel},
};

use crate::fixture::{
    map_job::{assert_code, go, of_type, trace_of},
    real_agents::{CLAUDE, codex_world, deaths, subscribed_world},
    workflow::SpawnedProdigy,
};

const MAP: &str = r#"map:
  input: { items: [a, b, c] }
  item_key: item
  max_parallel: 2
  agent_template:
    - claude: "Work. item=${item}"
      commit_required: true
"#;

/// Returns a model that is at its limit when `a` is worked on for the first time.
fn limited(wait: Duration) -> ScriptedModel {
    let acts = ModelBehaviour::LimitFor(wait).times(1).then(ModelBehaviour::Commit);
    ScriptedModel::start(ModelScript::new(ModelBehaviour::Commit).on("item=a", acts))
}

#[test]
fn at_a_limit_the_job_waits_and_no_item_pays_for_it() {
    let wait = Duration::from_secs(8);
    let model = limited(wait);
    let world = subscribed_world(&model, &format!("{CLAUDE}{MAP}"));
    assert_code(&go(&world), 0);
    assert_eq!(deaths(&world), "");
    for item in ["a", "b", "c"] {
        assert_eq!(world.read(&format!("{item}.txt")), format!("{item} is done\n"));
    }
    let turns = model.turns_of("a");
    assert_eq!(turns.len(), 2);
    assert!(turns[1].at.duration_since(turns[0].at).unwrap() >= wait);
    assert_eq!(turns[0].session, turns[1].session);
    assert_snapshot!(trace_of(&world, "a"), @"
    a agent_started 1
    a agent_started 1
    a agent_completed 1
    ");
    let paused = of_type(&world, "quota_paused");
    assert_eq!((paused.len(), of_type(&world, "quota_resumed").len()), (1, 1));
    assert_eq!(paused[0]["limit"]["window"], "five_hour");
    check_processes(&world).unwrap();
}

#[test]
fn without_waiting_the_job_ends_at_a_limit_and_is_resumed_later() {
    let model = limited(Duration::from_secs(8));
    let world = subscribed_world(&model, &format!("{CLAUDE}{MAP}"));
    let seen = world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "job", "--no-wait"]);
    assert_code(&seen, 75);
    assert_eq!(deaths(&world), "");
    check_processes(&world).unwrap();
    assert_code(
        &SpawnedProdigy::new(&world, &["resume", "job", "--no-wait=false"]).seen(&world),
        0,
    );
    assert_eq!(model.turns_of("a").len(), 2);
    assert_eq!(world.read("a.txt"), "a is done\n");
}

#[test]
fn codex_at_its_limit_makes_the_job_wait_and_no_item_pays_for_it() {
    let until = SystemTime::now() + Duration::from_secs(3600);
    let until = until.duration_since(UNIX_EPOCH).unwrap().as_secs();
    let model = ScriptedModel::start(ModelScript::new(ModelBehaviour::Limit(until)));
    let world = codex_world(&model, &MAP.replace("claude:", "codex:"));
    let args = ["run", "workflow.yml", "-y", "--job-id", "job", "--no-wait"];
    assert_code(&SpawnedProdigy::new(&world, &args).seen(&world), 75);
    let paused = of_type(&world, "quota_paused");
    assert_eq!(paused.len(), 1);
    assert_eq!(paused[0]["limit"]["kind"], "usage");
    // Codex tells the minute.
    let told: Timestamp = paused[0]["limit"]["resets_at"].as_str().unwrap().parse().unwrap();
    assert_eq!(told.as_second(), i64::try_from(until / 60 * 60).unwrap());
    assert_eq!(of_type(&world, "agent_started").len(), 2);
    assert_eq!(of_type(&world, "agent_released").len(), 2);
    assert_eq!(of_type(&world, "agent_failed").len(), 0);
    assert_eq!(deaths(&world), "");
    check_processes(&world).unwrap();

    // Before the limit is lifted nothing is tried.
    let turns = model.turns().len();
    assert_code(
        &SpawnedProdigy::new(&world, &["resume", "job", "-y", "--no-wait"]).seen(&world),
        75,
    );
    assert_eq!(model.turns().len(), turns);
    assert_eq!(of_type(&world, "agent_started").len(), 2);
}
