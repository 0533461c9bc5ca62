//! A usage limit that an agent runs into while it resolves a conflict.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use insta::assert_snapshot;
use prodigy_core::Timestamp;
use prodigy_testkit::{TestEnv, crash::check_processes};
use rustix::process::Signal;

use crate::{
    fixture::{
        map_job::{assert_code, counts, has_told, of_type, started, trace_of},
        workflow::{SpawnedProdigy, records},
    },
    map::conflicts::mended,
};

/// Makes a world whose conflict is resolved by an agent that is at its limit for a while.
fn limited(reset_after: &str) -> TestEnv {
    mended(&format!(
        r#"fault: usage_limit, reset_after: {reset_after}, cost_usd: 0.25, edits: [{{ path: list, content: "first\nsecond\n" }}]"#
    ))
}

/// Returns the seconds from the pause until the conflict was taken up for the last time.
fn waited(world: &TestEnv) -> f64 {
    let time = |kind: &str| {
        let record = records(world).into_iter().rfind(|record| record["event_type"] == kind);
        let text = record.unwrap()["timestamp"].as_str().unwrap().to_owned();
        text.parse::<Timestamp>().unwrap()
    };
    time("resolution_started").duration_since(time("quota_paused")).as_secs_f64()
}

/// Checks that both items are done, the conflict resolved once, and nobody was charged more.
#[track_caller]
fn check(world: &TestEnv) {
    assert_eq!(world.read("list"), "first\nsecond\n");
    assert_eq!(counts(world), (2, 0, 0));
    for item in ["first", "second"] {
        assert_eq!(trace_of(world, item).matches("agent_started 1").count(), 1, "{item}");
    }
    assert_eq!(of_type(world, "resolution_failed").len(), 0);
    assert_eq!(
        (of_type(world, "quota_paused").len(), of_type(world, "quota_resumed").len()),
        (1, 1)
    );
    assert_eq!(world.git(&["branch", "--list", "prodigy/*"]), "");
    assert_code(&world.prodigy(&["verify", "job"]), 0);
    check_processes(world).unwrap();
}

#[test]
fn a_conflict_waits_for_a_limit_and_is_resolved_afterwards() {
    let world = limited("2s");
    assert_code(&started(&world).seen(&world), 0);
    assert_snapshot!(trace_of(&world, "second"), @r#"
    second agent_started 1
    second agent_completed 1
    second merge_conflict ["list"]
    second resolution_started
    second resolution_started
    second resolution_completed
    "#);
    assert!(waited(&world) >= 1.9, "{}", waited(&world));
    check(&world);
}

#[test]
fn a_job_that_may_not_wait_keeps_the_conflict_for_later() {
    let world = limited("2s");
    let args = ["run", "workflow.yml", "-y", "--job-id", "job", "--no-wait"];
    assert_code(&SpawnedProdigy::new(&world, &args).seen(&world), 75);
    assert_eq!(world.git(&["log", "-1", "--format=%s", "prodigy/job/second"]), "second");
    assert_eq!(of_type(&world, "item_dead_lettered").len(), 0);
    assert_code(
        &SpawnedProdigy::new(&world, &["resume", "job", "--no-wait=false"]).seen(&world),
        0,
    );
    check(&world);
}

#[test]
fn a_job_that_is_killed_while_a_conflict_waits_resolves_it_after_the_limit() {
    let world = limited("3s");
    let mut run = started(&world);
    run.until(&world, "it waits", || has_told(&world, "quota_paused"));
    run.signal(Signal::KILL);
    run.seen(&world);
    assert_code(
        &SpawnedProdigy::new(&world, &["resume", "job", "--no-wait=false"]).seen(&world),
        0,
    );
    check(&world);
}
