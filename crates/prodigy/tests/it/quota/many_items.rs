//! A usage limit with many items outstanding: nothing starts while it holds, and nobody pays.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use std::time::Duration;

use prodigy_testkit::{TestEnv, crash::check_processes};
use rustix::process::Signal;
use serde_json::Value;

use crate::fixture::{
    map_job::{assert_code, counts, has_told, map_world, of_type, started},
    workflow::{SpawnedProdigy, records},
};

const ITEMS: usize = 50;
const AT_ONCE: usize = 10;

/// The longest that a run may take.
const BOUND: Duration = Duration::from_secs(60);

/// Makes a world whose agents all run into one limit, which is lifted soon.
fn limited_world() -> TestEnv {
    map_world(&format!(
        r#"
agents:
  claude:
    type: simulated
    rules: [{{ fault: usage_limit, reset_after: 5s, edits: [{{ path: "{{item}}.txt" }}], commit: "Do {{item}}" }}]
map:
  input: "seq {ITEMS}"
  max_parallel: {AT_ONCE}
  agent_template:
    - claude: "${{item}}"
      commit_required: true
"#
    ))
}

/// Returns what happened, and to which item.
fn told(world: &TestEnv) -> Vec<(String, String)> {
    let field = |record: &Value, name: &str| record[name].as_str().unwrap_or_default().to_owned();
    records(world).iter().map(|it| (field(it, "event_type"), field(it, "item_id"))).collect()
}

/// Checks that while the limit held one agent tried and none else started, that those that ran
/// into it were set back, and that every item was done in its first attempt.
#[track_caller]
fn check(world: &TestEnv) {
    let told = told(world);
    let at = |kind: &str| told.iter().position(|(found, _)| found == kind).unwrap();
    let count = |told: &[(String, String)], kind: &str| {
        told.iter().filter(|(found, _)| found == kind).count()
    };
    let (paused, resumed) = (at("quota_paused"), at("quota_resumed"));
    assert_eq!((count(&told, "quota_paused"), count(&told, "quota_resumed")), (1, 1));
    assert_eq!(count(&told[..paused], "agent_started"), AT_ONCE);
    assert_eq!(count(&told[paused..resumed], "agent_started"), 1, "the one that tries");
    assert_eq!(count(&told, "agent_released"), AT_ONCE);
    assert_eq!(count(&told, "agent_started"), ITEMS + AT_ONCE);
    for kind in ["agent_failed", "agent_retrying", "item_dead_lettered"] {
        assert_eq!(count(&told, kind), 0, "{kind}");
    }
    let done = of_type(world, "agent_completed");
    assert_eq!(done.len(), ITEMS);
    assert!(done.iter().all(|record| record["attempt"] == 1));
    assert_eq!(counts(world), (ITEMS, 0, 0));
    assert_eq!(world.git(&["ls-files", "item-*.txt"]).lines().count(), ITEMS);
    assert_code(&world.prodigy(&["verify", "job"]), 0);
    check_processes(world).unwrap();
}

#[test]
fn while_a_limit_holds_one_agent_tries_and_no_item_pays() {
    let world = limited_world();
    assert_code(&started(&world).seen_within(&world, BOUND), 0);
    check(&world);
}

#[test]
fn a_job_that_is_killed_while_it_waits_for_a_limit_goes_on_waiting() {
    let world = limited_world();
    let mut run = started(&world);
    run.until(&world, "all that ran are set back", || {
        has_told(&world, "quota_paused") && of_type(&world, "agent_released").len() == AT_ONCE
    });
    run.signal(Signal::KILL);
    run.seen(&world);
    let resumed = SpawnedProdigy::new(&world, &["resume", "job", "-y"]);
    assert_code(&resumed.seen_within(&world, BOUND), 0);
    check(&world);
}
