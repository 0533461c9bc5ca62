//! Audit trails that were deleted, clocks that went back, and secrets in reasons.

use std::fs;

use prodigy_core::audit::{AuditAction, AuditOutcome, IdentityKind, NewAuditRecord};
use prodigy_testkit::TestEnv;
use serde_json::Value;

use crate::{
    dlq::retry::{WORKFLOW, failing, mend, retry},
    fixture::{
        journal::{at, world},
        map_job::{assert_code, go, of_type},
    },
    replay::audit::append_at,
};

fn replayed() -> TestEnv {
    let world = failing(WORKFLOW, &["b", "c"]);
    assert_code(&go(&world), 0);
    mend(&world, "b");
    assert_code(&retry(&world, &["item-002", "-y"]), 0);
    world
}

/// Deletes the trail and everything that anchors it.
fn delete_trail(world: &TestEnv) {
    fs::remove_dir_all(world.home().join("audit")).unwrap();
    for line in world.git(&["for-each-ref", "--format=%(refname)", "refs/prodigy/audit"]).lines() {
        world.git(&["update-ref", "-d", line]);
    }
}

#[test]
fn a_trail_that_was_deleted_with_its_anchor_is_missed() {
    let world = replayed();
    assert_code(&world.prodigy(&["audit", "verify"]), 0);
    delete_trail(&world);
    let seen = world.prodigy(&["audit", "verify"]);
    assert_code(&seen, 1);
    assert!(seen.stdout.contains("records are missing that the journals hold"), "{seen}");
    assert!(seen.stdout.contains("the journal of job `job` holds 1 replay more"), "{seen}");
    assert!(!seen.to_string().contains("update-ref -d"), "{seen}");
    let seen = world.prodigy(&["audit", "verify", "--json"]);
    let document: Value = serde_json::from_str(&seen.stdout).unwrap();
    assert_eq!(document["status"], "missing", "{seen}");
    let seen = world.prodigy(&["dlq", "status", "--check"]);
    assert_code(&seen, 2);

    // Nothing is decided on top of that.
    mend(&world, "c");
    let seen = retry(&world, &["item-003", "-y"]);
    assert_code(&seen, 1);
    assert!(seen.stderr.contains("it is gone, and the journal of job `job`"), "{seen}");
    assert_eq!(of_type(&world, "replay_started").len(), 1);

    let seen = world.prodigy(&["audit", "restart", "--reason", "no backup"]);
    assert_code(&seen, 0);
    assert_code(&retry(&world, &["item-003", "-y"]), 0);
    assert_code(&world.prodigy(&["audit", "verify"]), 0);
    let seen = world.prodigy(&["audit", "show"]);
    assert!(seen.stdout.contains("restart_trail"), "{seen}");
    assert!(seen.stdout.contains("no backup"), "{seen}");
}

#[test]
fn a_trail_that_was_made_anew_lacks_what_the_journals_hold() {
    let world = replayed();
    delete_trail(&world);
    // Somebody removes a job, which begins a trail if nothing is missed.
    let seen = world.prodigy(&["dlq", "drop", "job", "item-003", "--reason", "x"]);
    assert_code(&seen, 1);
    assert!(seen.stderr.contains("nothing was changed"), "{seen}");
}

#[test]
fn restart_keeps_the_old_trail_and_its_anchor() {
    let world = replayed();
    let file = world.home().join("audit/repo/audit.jsonl");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("item-002", "item-009")).unwrap();
    let seen = world.prodigy(&["audit", "verify"]);
    assert_code(&seen, 1);
    assert!(seen.stderr.contains("prodigy audit restart --reason TEXT"), "{seen}");
    let seen = world.prodigy(&["audit", "restart", "--reason", "it was edited"]);
    assert_code(&seen, 0);
    let kept = fs::read_dir(file.parent().unwrap()).unwrap();
    let kept = kept.map(|it| it.unwrap().file_name().into_string().unwrap());
    assert_eq!(kept.filter(|name| name.starts_with("audit.jsonl.kept-")).count(), 1);
    let refs = world.git(&["for-each-ref", "--format=%(refname)", "refs/prodigy/audit"]);
    assert_eq!(refs.lines().filter(|name| name.contains("-kept-")).count(), 1, "{refs}");
    assert_code(&world.prodigy(&["audit", "verify"]), 0);
}

#[test]
fn times_that_go_back_are_noted() {
    let world = world();
    let said = || {
        let job = "job".parse().unwrap();
        let record = NewAuditRecord::new("ada", IdentityKind::Asserted, AuditAction::Drop, job);
        record.with_outcome(AuditOutcome::Done)
    };
    append_at(&world, at(60_000), vec![said()]);
    append_at(&world, at(0), vec![said()]);
    let seen = world.prodigy(&["audit", "verify"]);
    assert_code(&seen, 0);
    let noted = "record 2 is earlier than the one before it: a clock was set back";
    assert!(seen.stdout.contains(noted), "{seen}");
}

#[test]
fn a_reason_is_recorded_without_secrets() {
    let world = failing(WORKFLOW, &["a", "b"]).env("DEPLOY_TOKEN", "hunter2-xK9q8Zw3vB7n");
    assert_code(&go(&world), 0);
    let reason = "leaked hunter2-xK9q8Zw3vB7n yesterday";
    assert_code(&world.prodigy(&["dlq", "drop", "job", "item-001", "--reason", reason]), 0);
    mend(&world, "b");
    assert_code(&retry(&world, &["item-002", "-y", "--reason", reason]), 0);
    let trail = fs::read_to_string(world.home().join("audit/repo/audit.jsonl")).unwrap();
    assert!(trail.contains("leaked *** yesterday"), "{trail}");
    assert!(!trail.contains("hunter2"), "{trail}");
    for kind in ["dlq_item_removed", "replay_started"] {
        let records = of_type(&world, kind);
        assert_eq!(records.last().unwrap().get("reason").unwrap(), "leaked *** yesterday");
    }
}
