//! Agreements that end: by time, by use, by a change of what was agreed to, by a crash.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;
use rustix::process::Signal;

use crate::{
    dlq::retry::{WORKFLOW, assert_whole, fails_with, mend, statuses},
    fixture::{
        approvals::{
            POLICY, approve, ask, audited, by, office, plain, refused, replays, request, retry,
            rule, typed,
        },
        effects::{DIE, WITH_CHECK, item_world, made, put},
        map_job::{assert_code, go, of_type, write_workflow},
        workflow::SpawnedProdigy,
    },
};

#[test]
fn a_request_ends_with_its_time() {
    let world = office(&POLICY.replace("30m", "1ms"), &["a"]);
    let digest = ask(&world);
    assert_eq!(request(&world)["state"], "expired");
    assert_eq!(refused(&world, "carol", &digest), "expired");
    assert_snapshot!(plain(&by(&world, "carol", &["dlq", "approvals", "job"])), @r#"
    item         item-001
    state        expired: `prodigy dlq retry` asks anew
    action       replay (replay 1)
    failed with  denied: `sh $ROOT/work ${item}` failed with exit code 1
    why          rule `ask` says require_approval; the approval by `governance` has expired
    data         "a"
    commit       [commit]
    asked by     ben@example.com, [time]
    until        [time]
    digest       [digest]
    next         prodigy dlq retry job item-001
    "#);
    // What holds longer is another policy, and something else to agree to.
    rule(&world, POLICY);
    let renewed = ask(&world);
    assert_ne!(renewed, digest);
    assert_eq!(refused(&world, "carol", &digest), "digest_mismatch");
    assert_code(&approve(&world, "carol", &renewed), 0);
    assert_code(&retry(&world, "ben", &[]), 0);
    assert_eq!(statuses(&world), "item-001 resolved");
}

#[test]
fn an_agreement_is_for_one_replay() {
    let world = office(POLICY, &["a"]);
    let digest = ask(&world);
    assert_code(&approve(&world, "carol", &digest), 0);
    fails_with(&world, "a", "denied");
    assert_code(&retry(&world, "ben", &[]), 3);
    assert_eq!(statuses(&world), "item-001 open");
    assert_eq!(refused(&world, "carol", &digest), "consumed");
    assert_eq!(refused(&world, "dan", &digest), "consumed");
    mend(&world, "a");
    let again = ask(&world);
    assert_ne!(again, digest);
    assert_eq!(replays(&world), "item-001 by ben@example.com approved");
    assert_code(&approve(&world, "carol", &again), 0);
    assert_code(&retry(&world, "ben", &[]), 0);
    assert_eq!(statuses(&world), "item-001 resolved");
    // It is closed, and what was agreed to is used up.
    assert_eq!(refused(&world, "dan", &again), "consumed");
    assert_whole(&world);
}

/// Has Carol agree, changes something, and checks that this counts no more.
#[track_caller]
fn void_after(change: impl FnOnce(&TestEnv), code: &str, retried: &[&str]) -> TestEnv {
    let world = office(POLICY, &["a"]);
    let digest = ask(&world);
    assert_code(&approve(&world, "carol", &digest), 0);
    change(&world);
    assert_eq!(request(&world)["state"], "void");
    assert_eq!(refused(&world, "dan", &digest), code);
    assert_code(&retry(&world, "ben", retried), 8);
    assert_eq!(replays(&world), "");
    assert_eq!(refused(&world, "dan", &digest), "digest_mismatch");
    let again = request(&world)["digest"].as_str().unwrap().to_owned();
    assert_code(&approve(&world, "carol", &again), 0);
    assert_code(&retry(&world, "ben", retried), 0);
    assert_eq!(statuses(&world), "item-001 resolved");
    assert_eq!(replays(&world), "item-001 by ben@example.com approved");
    world
}

#[test]
fn an_agreement_is_void_once_the_item_is_another() {
    let edit = ["dlq", "edit", "job", "item-001", "--data", "\"z\"", "--reason", "it is z"];
    let world =
        void_after(|world| assert_code(&by(world, "ben", &edit), 0), "digest_mismatch", &[]);
    assert_eq!(world.read("z.txt"), "z\n");
}

#[test]
fn an_agreement_is_void_once_the_entry_is_another() {
    void_after(
        |world| {
            for (change, more) in [("quarantine", "look"), ("release", "looked")] {
                let args = ["dlq", change, "job", "item-001", "--reason", more];
                assert_code(&by(world, "ben", &args), 0);
            }
        },
        "digest_mismatch",
        &[],
    );
}

#[test]
fn an_agreement_is_void_once_the_policy_is_another() {
    void_after(|world| rule(world, &POLICY.replace("30m", "31m")), "policy_mismatch", &[]);
}

#[test]
fn an_agreement_is_about_the_workflow_that_would_run() {
    let world = office(POLICY, &["a"]);
    let digest = ask(&world);
    assert_code(&approve(&world, "carol", &digest), 0);
    let newest = |more: &str| {
        write_workflow(&world, &WORKFLOW.replace("${item}\n", &format!("${{item}} {more}\n")));
    };
    newest("again");
    // That the file has changed says nothing about what runs.
    assert_eq!(request(&world)["state"], "granted");
    assert_code(&retry(&world, "ben", &["--use-current-workflow"]), 8);
    assert_eq!(refused(&world, "dan", &digest), "digest_mismatch");
    let about_newest = request(&world)["digest"].as_str().unwrap().to_owned();
    assert_snapshot!(plain(&by(&world, "carol", &["dlq", "approvals", "job"])), @r#"
    item         item-001
    state        pending: 0 of 1 approvals
    action       replay (replay 1)
    failed with  denied: `sh $ROOT/work ${item}` failed with exit code 1
    why          rule `ask` says require_approval; 0 of 1 approvals by `governance`
    data         "a"
    workflow     another than the one it failed with
    commit       [commit]
    asked by     ben@example.com, [time]
    until        [time]
    digest       [digest]
    next         prodigy dlq approve job item-001 --expect [digest]
    "#);
    newest("and again");
    assert_eq!(refused(&world, "carol", &about_newest), "digest_mismatch");
    newest("again");
    assert_code(&approve(&world, "carol", &about_newest), 0);
    // Nobody agreed to the old one any more.
    assert_code(&retry(&world, "ben", &["--use-current-workflow", "--dry-run"]), 0);
    assert_code(&retry(&world, "ben", &["--dry-run"]), 8);
    assert_code(&retry(&world, "ben", &["--use-current-workflow"]), 0);
    assert_eq!(replays(&world), "item-001 by ben@example.com approved");
}

#[test]
fn an_agreement_is_void_once_more_is_known_of_what_was_changed_outside() {
    let world = item_world(WITH_CHECK);
    rule(
        &world,
        "version: v1\ndlq_rules:\n  - id: ask\n    match: { class: commit }\n    \
         action: require_approval\n",
    );
    put(&world, "does.before.a", DIE);
    assert_eq!(go(&world).code, None);
    assert_code(&by(&world, "ann", &["resume", "job", "-y"]), 1);
    let force = ["dlq", "retry", "job", "-y", "--force", "item-001", "--reason", "I looked"];
    assert_code(&by(&world, "ben", &force), 8);
    assert_snapshot!(plain(&by(&world, "carol", &["dlq", "approvals", "job"])), @r#"
    item         item-001
    state        pending: 0 of 1 approvals
    action       replay, lifting what speaks against it (replay 1)
    failed with  unknown_commit_state: prodigy died while something outside was being changed; whether it was is not known
    why          rule `ask` says require_approval; something outside may have been changed, and nobody has looked; somebody takes the decision on themselves; 0 of 1 approvals
    data         "a"
    commit       [commit]
    outside      job:item-001:deed is prepared
    asked by     ben@example.com, [time]
    until        [time]
    digest       [digest]
    next         prodigy dlq approve job item-001 --expect [digest]
    "#);
    let digest = request(&world)["digest"].as_str().unwrap().to_owned();
    assert_code(&approve(&world, "carol", &digest), 0);
    assert_code(&by(&world, "dan", &["dlq", "check", "job"]), 0);
    assert_eq!(request(&world)["state"], "void");
    assert_eq!(refused(&world, "dan", &digest), "digest_mismatch");
    // It is known by now that nothing is there, so there is nothing left to take on oneself.
    assert_code(&by(&world, "ben", &force), 8);
    let again = request(&world);
    assert_eq!((&again["shown"]["action"], made(&world)), (&"replay".into(), 0));
    assert_code(&approve(&world, "carol", again["digest"].as_str().unwrap()), 0);
    assert_code(&retry(&world, "ben", &[]), 0);
    assert_eq!((statuses(&world).as_str(), made(&world)), ("item-001 resolved", 1));
}

#[test]
fn what_was_agreed_to_and_not_begun_outlives_a_crash_and_is_used_once() {
    let world = office(POLICY, &["a", "b"]);
    assert_code(&by(&world, "ben", &["dlq", "retry", "job"]), 8);
    for item in ["item-001", "item-002"] {
        let asked = by(&world, "eve", &["dlq", "approvals", "job", "--json"]);
        let asked: serde_json::Value = serde_json::from_str(&asked.stdout).unwrap();
        let all = asked["approvals"].as_array().unwrap();
        let one = all.iter().find(|one| one["item_id"] == item).unwrap();
        let digest = one["digest"].as_str().unwrap();
        let seen = by(&world, "carol", &["dlq", "approve", "job", item, "--expect", digest]);
        assert_code(&seen, 0);
    }
    // The second replay may not begin for an hour, so it is only agreed to when prodigy dies.
    let slowly = ["dlq", "retry", "job", "-y", "--rate", "1/h"];
    let mut run = SpawnedProdigy::of(&mut typed(&world, "ben", &slowly));
    let is_merged = |record: &serde_json::Value| record["item_id"] == "item-001";
    run.until(&world, "one is replayed", || {
        of_type(&world, "worktree_merged").iter().any(is_merged)
    });
    run.signal(Signal::KILL);
    assert_eq!(run.seen(&world).code, None);
    assert_eq!(replays(&world), "item-001 by ben@example.com approved");
    assert_eq!(request(&world)["item_id"], "item-002");
    assert_eq!(request(&world)["state"], "granted");
    assert_code(&by(&world, "ben", &["dlq", "retry", "job", "-y"]), 0);
    assert_eq!(
        replays(&world),
        "item-001 by ben@example.com approved, item-002 by ben@example.com approved"
    );
    assert_eq!(statuses(&world), "item-001 resolved, item-002 resolved");
    let asked = audited(&world);
    assert_eq!(asked.iter().filter(|line| line.contains("replay intended")).count(), 2);
    assert_whole(&world);
}

#[test]
fn a_replay_that_was_cut_off_needs_no_second_agreement() {
    let world = office(POLICY, &["a"]);
    let digest = ask(&world);
    assert_code(&approve(&world, "carol", &digest), 0);
    let hold = "touch ROOT/begun; while test -e ROOT/hold; do sleep 0.02; done";
    std::fs::write(world.root().join("hold"), "").unwrap();
    crate::dlq::retry::does(&world, "a", hold);
    let retried = ["dlq", "retry", "job", "-y"];
    let mut run = SpawnedProdigy::of(&mut typed(&world, "ben", &retried));
    run.until(&world, "the replay begins", || world.root().join("begun").exists());
    run.signal(Signal::KILL);
    assert_eq!(run.seen(&world).code, None);
    std::fs::remove_file(world.root().join("hold")).unwrap();
    assert_eq!(statuses(&world), "item-001 replaying");
    // Nobody can agree to it any more: it is used up.
    assert_eq!(refused(&world, "dan", &digest), "consumed");
    assert_code(&by(&world, "ben", &retried), 0);
    assert_eq!(replays(&world), "item-001 by ben@example.com approved");
    assert_eq!(statuses(&world), "item-001 resolved");
}
