//! `prodigy dlq plan`, and what `prodigy dlq retry` and `prodigy resume` do by a policy.

use insta::assert_snapshot;
use serde_json::Value;

use crate::{
    dlq::retry::{assert_whole, mend, replayed, retry, statuses},
    fixture::{
        map_job::{assert_code, of_type, resume, write_workflow},
        replay::{WORKFLOW, died_of, died_of_workflow, dlq, trail, write_policy},
        workflow::{records, stable},
    },
};

/// A policy with limits, whose other reasons have to be looked at.
const STRICT: &str = "version: v1
dlq_rules:
  - id: again
    match: { reason_code: network_error }
    action: auto_replay
    max_replays: 1
defaults: { action: manual_review }
";

#[test]
fn a_plan_says_what_would_become_of_each_entry_and_why() {
    let world =
        died_of(STRICT, &[("a", "network_error"), ("b", "timeout"), ("c", "network_error")]);
    let before = records(&world).len();
    assert_snapshot!(dlq(&world, "ben", &["plan", "job"]), @"
    replay     item-003  rule `again` says auto_replay
    review     item-002  rule `defaults` says manual_review
    replay     item-001  rule `again` says auto_replay
    ----- stderr -----

    replay     2 entries by rule `again`
    review     1 entry by rule `defaults`
               then: prodigy dlq retry job --force item-002 --reason TEXT
    nothing was changed
    ");
    assert_snapshot!(dlq(&world, "ben", &["plan", "job", "item-002"]), @"
    review     item-002  rule `defaults` says manual_review
    ----- stderr -----

    review     1 entry by rule `defaults`
               then: prodigy dlq retry job --force item-002 --reason TEXT
    nothing was changed
    [exit 10]
    ");
    assert_snapshot!(dlq(&world, "ben", &["plan", "job", "--force", "item-002", "--reason", "x"]), @"
    replay     item-002  forced  rule `defaults` says manual_review; somebody takes the decision on themselves
    ----- stderr -----

    replay     1 entry by rule `defaults`
    nothing was changed
    ");
    assert_snapshot!(dlq(&world, "ben", &["plan", "job", "--filter", "reason_code == 'denied'"]), @"
    ----- stderr -----
    no matching dead letters in job `job`
    ");
    let limited = dlq(&world, "ben", &["plan", "job", "--limit", "1"]).stdout;
    assert_eq!(limited.lines().count(), 1, "{limited}");
    let json = dlq(&world, "ben", &["plan", "job", "--json"]).stdout;
    let document: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(document["entries"].as_array().unwrap().len(), 3);
    assert_eq!(
        document["summary"][0],
        serde_json::json!({"verdict": "replay", "rule": "again", "entries": 2})
    );
    assert_eq!(records(&world).len(), before);
    assert_eq!(trail(&world), "");
}

#[test]
fn another_policy_can_be_tried_out() {
    let world = died_of(STRICT, &[("a", "network_error"), ("b", "timeout")]);
    world.write("other.yml", STRICT.replace("network_error", "timeout").replace("again", "slow"));
    assert_snapshot!(dlq(&world, "ben", &["plan", "job", "--policy", "other.yml"]), @"
    item-002  review → replay  (`defaults` → `slow`)
    item-001  replay → review  (`again` → `defaults`)
    ----- stderr -----

    `other.yml` decides otherwise over 2 of 2 entries; nothing was changed
      replay → review: 1 entry
      review → replay: 1 entry
    ");
    let json = dlq(&world, "ben", &["plan", "job", "--policy", "other.yml", "--json"]).stdout;
    let document: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(document["changes"].as_array().unwrap().len(), 2);
    assert_eq!(document["decided"], 2);
    world.write("other.yml", "version: v1\nrules: []\n");
    assert_code(&dlq(&world, "ben", &["plan", "job", "--policy", "other.yml"]), 9);
    assert_code(&dlq(&world, "ben", &["plan", "job", "--policy", "nowhere.yml"]), 2);
}

#[test]
fn what_the_policy_denies_is_recorded_each_by_itself_if_it_was_named() {
    let world = died_of(STRICT, &[("a", "timeout"), ("b", "timeout"), ("c", "agent_error")]);
    assert_code(&retry(&world, &["item-001", "item-003"]), 10);
    assert_code(&retry(&world, &[]), 10);
    assert_snapshot!(trail(&world), @"
    ann replay denied item-001 [review defaults]
    ann replay denied item-003 [review defaults]
    ann replay denied 3 entries [review defaults]
    ");
    assert_eq!(replayed(&world), "");
}

#[test]
fn a_limit_of_the_policy_binds_who_asks_and_is_lifted_by_force() {
    let world = died_of(STRICT, &[("a", "network_error")]);
    assert_code(&retry(&world, &[]), 3);
    assert_snapshot!(retry(&world, &[]), @"
    ----- stderr -----
    not replayed: 1 entry: item-001: it was replayed as often, or for as much, as is allowed
      rule `again` says auto_replay; it was replayed once, and rule `again` allows 1
      then: prodigy dlq retry job --force item-001 --reason TEXT
    nothing was replayed
    [exit 10]
    ");
    assert_code(&retry(&world, &["--force", "item-001", "--reason", "the cable is mended"]), 3);
    assert_eq!(replayed(&world), "item-001 item-001");
    let claims = of_type(&world, "replay_started");
    let allowed: Vec<_> = claims.iter().map(|claim| claim["allowed"]["rule"].clone()).collect();
    assert_eq!(allowed, ["again", "again"]);
    assert_snapshot!(trail(&world), @"
    ann replay intended item-001 [replay again]
    ann replay failed item-001 [replay again]
    ann replay denied 1 entries [limit again]
    ann replay intended item-001 [replay again]
    ann replay failed item-001 [replay again]
    ");
}

#[test]
fn entries_of_one_cause_share_a_limit() {
    let policy = format!("{STRICT}limits: {{ replays_per_signature: 2 }}\n");
    let world =
        died_of(&policy, &[("a", "network_error"), ("b", "network_error"), ("c", "network_error")]);
    for item in ["a", "b", "c"] {
        mend(&world, item);
    }
    let seen = stable(&retry(&world, &[]));
    assert!(seen.contains("entries of its signature were replayed 2 times"), "{seen}");
    assert_eq!(statuses(&world), "item-001 open, item-002 resolved, item-003 resolved");
    // Entries that were deleted still count.
    assert_code(&dlq(&world, "ben", &["clear", "job", "--yes"]), 0);
    assert_code(&retry(&world, &[]), 10);
    assert_whole(&world);
}

#[test]
fn a_policy_that_cannot_be_used_stops_every_decision() {
    let world = died_of("", &[("a", "network_error")]);
    write_policy(
        &world,
        "version: v1\ndlq_rules:\n  - match: { reason_code: network_eror }\n    action: auto_replay\n",
    );
    for args in [&["retry", "job"][..], &["plan", "job"], &["approvals", "job"]] {
        assert_code(&dlq(&world, "ben", args), 9);
    }
    assert_code(&dlq(&world, "ben", &["release", "job", "item-001", "--reason", "x"]), 9);
    assert_code(&world.prodigy(&["policy", "explain", "job", "item-001"]), 9);
    // Looking at entries goes on, without what the policy says.
    let seen = dlq(&world, "ben", &["list", "job"]);
    assert_code(&seen, 0);
    assert!(seen.stdout.contains("network_error  ?"), "{seen}");
    assert_eq!(replayed(&world), "");
}

#[test]
fn a_decision_is_explained_in_sentences() {
    let world = died_of(STRICT, &[("a", "network_error"), ("b", "timeout")]);
    assert_snapshot!(world.prodigy(&["policy", "explain", "job", "item-002"]), @"
    item         item-002 of job job
    failed with  timeout: `work` failed with exit code 1
    verdict      review: needs manual review
    because      rule `defaults` says manual_review
    policy       sha256:3a552665fbe8c1d5ed9804013e46dd92953588ad9ea2db3e50ef33f45650ce8b
    next         prodigy dlq retry job --force item-002 --reason TEXT
    ");
    let explain = ["policy", "explain", "job", "item-002", "--asked", "forced", "--json"];
    let json: Value = serde_json::from_str(&world.prodigy(&explain).stdout).unwrap();
    assert_eq!(json["verdict"], "replay");
    assert_eq!(json["why"][1], "somebody takes the decision on themselves");
    let unasked = ["policy", "explain", "job", "item-001", "--asked", "unasked"];
    assert_code(&world.prodigy(&unasked), 0);
    assert_code(&world.prodigy(&["policy", "explain", "job", "item-003"]), 2);
}

#[test]
fn replay_is_another_name_for_retry() {
    let world = died_of("", &[("a", "network_error")]);
    assert_code(&dlq(&world, "ben", &["replay", "job"]), 3);
    assert_eq!(replayed(&world), "item-001");
}

#[test]
fn another_workflow_lets_out_what_would_have_failed_again() {
    let world = died_of("", &[("a", "schema_invalid")]);
    mend(&world, "a");
    assert_code(&retry(&world, &[]), 10);
    write_workflow(&world, &WORKFLOW.replace("name: work", "name: other work"));
    assert_code(&retry(&world, &[]), 10);
    let seen = retry(&world, &["--use-current-workflow", "--dry-run"]);
    assert!(seen.stdout.contains("something changed since it failed"), "{seen}");
    assert_code(&retry(&world, &["--use-current-workflow"]), 0);
    assert_eq!(replayed(&world), "item-001");
    // What somebody put away stays away.
    let world = died_of("", &[("a", "network_error")]);
    let put = ["quarantine", "job", "item-001", "--reason", "odd"];
    assert_code(&dlq(&world, "ben", &put), 0);
    write_workflow(&world, &WORKFLOW.replace("name: work", "name: other work"));
    assert_code(&retry(&world, &["--use-current-workflow"]), 10);
}

#[test]
fn a_resume_replays_only_what_the_policy_lets() {
    let unfinished = format!("{WORKFLOW}reduce:\n  - shell: test -e ROOT/ready\n");
    let codes = [("a", "network_error"), ("b", "timeout"), ("c", "network_error")];
    let world = died_of_workflow(&unfinished, STRICT, &codes, 1);
    assert_code(&resume(&world), 1);
    assert_eq!(replayed(&world), "item-001 item-003");
    assert_code(&resume(&world), 1);
    assert_eq!(replayed(&world), "item-001 item-003", "the rule allows one replay");
    assert_code(&world.prodigy(&["resume", "job", "--no-dlq"]), 1);
    write_policy(&world, "version: v1\nrules: []\n");
    assert_code(&resume(&world), 9);
}

#[test]
fn an_entry_names_the_policy_that_was_in_force_when_its_item_died() {
    let named = |world: &prodigy_testkit::TestEnv| {
        let shown = world.prodigy(&["dlq", "show", "job", "item-001", "--json"]).stdout;
        let shown: Value = serde_json::from_str(&shown).unwrap();
        shown.pointer("/entry/policy_snapshot").unwrap().as_str().unwrap().to_owned()
    };
    let world = died_of(STRICT, &[("a", "network_error")]);
    let shown = world.prodigy(&["policy", "show"]);
    assert!(shown.to_string().contains(&named(&world)), "{shown}");
    let built_in = died_of("", &[("a", "network_error")]);
    assert_ne!(named(&world), named(&built_in));
    // A policy that cannot be used does not keep a job from running, and is told of.
    write_policy(&built_in, "version: v1\nrules: []\n");
    let seen = built_in.prodigy(&["run", "workflow.yml", "-y", "--job-id", "other"]);
    assert!(seen.stderr.contains("nothing is replayed until it is fixed"), "{seen}");
}
