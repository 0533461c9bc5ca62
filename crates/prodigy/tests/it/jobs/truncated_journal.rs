//! A journal that lost its end: cut, or put back from an older copy.

use std::{fs, path::PathBuf};

use prodigy_testkit::TestEnv;

use crate::fixture::{
    approvals::{POLICY, approve, ask, audited, by, office, replays, retry},
    effects::{WITH_CHECK, effects, item_world, made, put, steps_world},
    map_job::{assert_code, go, of_type, resume},
    workflow::records,
};

fn journal(world: &TestEnv) -> PathBuf {
    let directory = world.home().join("events/repo/job");
    let mut files: Vec<_> = fs::read_dir(directory).unwrap().map(|it| it.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
}

/// Cuts the journal before its first record of a type.
fn cut_before(world: &TestEnv, kind: &str) {
    let path = journal(world);
    let text = fs::read_to_string(&path).unwrap();
    let kind = format!("\"event_type\":\"{kind}\"");
    let kept: Vec<_> = text.lines().take_while(|line| !line.contains(&kind)).collect();
    assert!(kept.len() < text.lines().count(), "{text}");
    fs::write(path, format!("{}\n", kept.join("\n"))).unwrap();
}

/// Fails the last step, which comes after the change outside.
const FAIL: &str = "exit 3";

#[test]
fn resume_refuses_a_journal_that_lost_its_end_and_names_what_is_ahead() {
    let world = steps_world("");
    put(&world, "does.last", FAIL);
    assert_code(&go(&world), 1);
    assert_eq!(made(&world), 1);
    fs::remove_file(world.root().join("does.last")).unwrap();
    let whole = fs::read_to_string(journal(&world)).unwrap();
    let known = records(&world).len();
    cut_before(&world, "effect_prepared");
    let last = records(&world).len();

    let seen = resume(&world);
    assert_code(&seen, 1);
    let more = known - last;
    let said =
        format!("its last record is {last}, and the checkpoint knows record {known} ({more} more)");
    assert!(seen.stderr.contains(&said), "{said}: {seen}");
    assert!(seen.stderr.contains("prodigy repair job --accept-lost-end"), "{seen}");
    assert_eq!(made(&world), 1);
    let seen = world.prodigy(&["verify", "job"]);
    assert_code(&seen, 1);
    assert!(seen.stdout.contains("the journal lost its end"), "{seen}");
    assert!(!seen.to_string().contains("delete"), "{seen}");
    let seen = world.prodigy(&["repair", "job"]);
    assert_code(&seen, 0);
    assert!(seen.stdout.contains("its end is lost: the checkpoint knows record"), "{seen}");

    // With the journal back, the job goes on and makes nothing twice.
    fs::write(journal(&world), whole).unwrap();
    assert_code(&resume(&world), 0);
    assert_eq!(made(&world), 1);
}

#[test]
fn after_an_accepted_loss_changes_outside_are_unknown() {
    accepted_loss();
}

/// A job that goes on although its journal lost its end.
pub(crate) fn accepted_loss() -> TestEnv {
    let world = steps_world("");
    put(&world, "does.last", FAIL);
    assert_code(&go(&world), 1);
    fs::remove_file(world.root().join("does.last")).unwrap();
    cut_before(&world, "effect_prepared");
    let seen = world.prodigy(&["repair", "job", "--accept-lost-end", "--reason", "the disk died"]);
    assert_code(&seen, 0);
    assert!(seen.stdout.contains("what it changes outside counts as unknown"), "{seen}");
    assert_eq!(of_type(&world, "journal_end_lost").len(), 1);
    let seen = world.prodigy(&["audit", "show"]);
    assert!(seen.stdout.contains("accept_lost_end  done"), "{seen}");
    assert!(seen.stdout.contains("the disk died"), "{seen}");
    // The step has no check: nobody knows, so nothing is run.
    let seen = resume(&world);
    assert_code(&seen, 1);
    assert!(seen.stderr.contains("changed something outside is not known"), "{seen}");
    assert_eq!(made(&world), 1);
    assert_code(&world.prodigy(&["verify", "job"]), 0);
    world
}

#[test]
fn after_an_accepted_loss_a_check_says_what_was_made() {
    let world = steps_world(WITH_CHECK);
    put(&world, "does.last", FAIL);
    assert_code(&go(&world), 1);
    fs::remove_file(world.root().join("does.last")).unwrap();
    cut_before(&world, "effect_prepared");
    assert_code(&world.prodigy(&["repair", "job", "--accept-lost-end"]), 0);
    let seen = resume(&world);
    assert_code(&seen, 0);
    assert_eq!(made(&world), 1, "{}", effects(&world));
}

#[test]
fn an_item_is_not_done_twice_after_an_accepted_loss() {
    let world = item_world("");
    assert_code(&go(&world), 0);
    assert_eq!(made(&world), 1);
    cut_before(&world, "agent_started");
    assert_code(&resume(&world), 1);
    assert_code(&world.prodigy(&["repair", "job", "--accept-lost-end"]), 0);
    let seen = resume(&world);
    assert_eq!(made(&world), 1, "{seen}");
    let dead = of_type(&world, "item_dead_lettered");
    assert_eq!(dead[0]["failure"]["kind"], "unknown_commit_state", "{seen}");
    assert_code(&world.prodigy(&["dlq", "show", "job", "item-001"]), 0);
}

#[test]
fn an_approval_is_used_once_although_the_journal_was_put_back() {
    let world = office(POLICY, &["a"]);
    let digest = ask(&world);
    assert_code(&approve(&world, "carol", &digest), 0);
    let before = fs::read_to_string(journal(&world)).unwrap();
    let state = world.home().join("state/repo/mapreduce/jobs/job/checkpoint.json");
    let checkpoint = fs::read_to_string(&state).unwrap();
    put(&world, "does.a", "exit 4");
    retry(&world, "ben", &[]);
    assert_eq!(replays(&world), "item-001 by ben@example.com approved");

    // An older copy of the journal, and of everything that is made of it.
    fs::write(journal(&world), &before).unwrap();
    fs::write(&state, &checkpoint).unwrap();
    fs::remove_dir_all(world.home().join("dlq")).unwrap();
    let seen = retry(&world, "ben", &[]);
    assert_code(&seen, 1);
    assert!(seen.stderr.contains("the audit trail knows record"), "{seen}");
    assert_eq!(replays(&world), "");

    assert_code(&by(&world, "ben", &["repair", "job", "--accept-lost-end"]), 0);
    // The approval is still used up: people have to be asked anew.
    let seen = retry(&world, "ben", &[]);
    assert_code(&seen, 8);
    assert_eq!(replays(&world), "");
    let count = audited(&world).iter().filter(|line| line.contains("replay intended")).count();
    assert_eq!(count, 1);
}

#[test]
fn deciding_by_hand_is_refused_while_the_end_is_lost() {
    let world = office(POLICY, &["a"]);
    assert_code(&world.prodigy(&["dlq", "quarantine", "job", "item-001", "--reason", "x"]), 0);
    cut_before(&world, "dlq_item_updated");
    let files = world.home().join("dlq/repo/job/mapreduce/dlq/job/items/item-001.json");
    let entry = fs::read_to_string(&files).unwrap();
    for args in [
        &["dlq", "release", "job", "item-001", "--reason", "x"][..],
        &["dlq", "drop", "job", "item-001", "--reason", "x"],
        &["dlq", "fsck", "job"],
        &["dlq", "retry", "job", "-y"],
    ] {
        let seen = world.prodigy(args);
        assert_code(&seen, 1);
        assert!(seen.stderr.contains("lost its end"), "{args:?}: {seen}");
        assert!(seen.stderr.contains("--accept-lost-end"), "{args:?}: {seen}");
    }
    assert_eq!(fs::read_to_string(files).unwrap(), entry);
}
