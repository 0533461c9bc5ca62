//! Replays that somebody has to agree to: `prodigy dlq approvals`, `approve` and `reject`.

use std::fs;

use insta::assert_snapshot;
use serde_json::Value;

use crate::{
    dlq::retry::{WORKFLOW, assert_whole, does, failing, fails_with, mend, statuses},
    fixture::{
        approvals::{
            POLICY, approve, ask, audited, by, office, plain, refused, replays, request, retry,
            rule, typed,
        },
        map_job::{assert_code, of_type},
        workflow::SpawnedProdigy,
    },
};

#[test]
fn a_replay_that_somebody_else_agrees_to_is_made_once() {
    let world = office(POLICY, &["a"]);
    assert_snapshot!(plain(&retry(&world, "ben", &[])), @"
    ----- stderr -----
    not replayed: 1 entry: item-001: needs approval
      rule `ask` says require_approval; 0 of 1 approvals by `governance`
      then: prodigy dlq approvals job
    item-001 waits for 1 approval by `governance`, until [time]
      then: prodigy dlq approve job item-001 --expect [digest]
    nothing was replayed
    [exit 8]
    ");
    assert_eq!(statuses(&world), "item-001 open");
    assert_snapshot!(plain(&by(&world, "carol", &["dlq", "approvals", "job"])), @r#"
    item         item-001
    state        pending: 0 of 1 approvals
    action       replay (replay 1)
    failed with  denied: `sh $ROOT/work ${item}` failed with exit code 1
    why          rule `ask` says require_approval; 0 of 1 approvals by `governance`
    data         "a"
    commit       [commit]
    asked by     ben@example.com, [time]
    until        [time]
    digest       [digest]
    next         prodigy dlq approve job item-001 --expect [digest]
    "#);
    let digest = ask(&world);
    assert_snapshot!(plain(&approve(&world, "carol", &digest)), @r#"
    item         item-001
    state        pending: 0 of 1 approvals
    action       replay (replay 1)
    failed with  denied: `sh $ROOT/work ${item}` failed with exit code 1
    why          rule `ask` says require_approval; 0 of 1 approvals by `governance`
    data         "a"
    commit       [commit]
    asked by     ben@example.com, [time]
    until        [time]
    digest       [digest]
    approved  item-001 as carol@example.com (asserted)
    ----- stderr -----

    it can be replayed once, until [time]
    next, for ben@example.com: prodigy dlq retry job item-001
    "#);
    assert_snapshot!(plain(&by(&world, "ben", &["dlq", "approvals", "job"])), @r#"
    item         item-001
    state        granted: it can be replayed once
    action       replay (replay 1)
    failed with  denied: `sh $ROOT/work ${item}` failed with exit code 1
    why          rule `ask` says require_approval; 1 of 1 approvals by `governance`
    data         "a"
    commit       [commit]
    asked by     ben@example.com, [time]
    agreed       carol@example.com (asserted), [time]
    until        [time]
    digest       [digest]
    next         prodigy dlq retry job item-001
    "#);
    assert_snapshot!(plain(&retry(&world, "ben", &[])), @"
    ----- stderr -----
    · job job resumed · 2 of 3 items done
    ✓ item-001  [time] · 1 commit
    ✓ map: 3/3 done  [time]

    completed · [time]
    replayed: 1 resolved, 0 back in the DLQ
    job: 3 successful, 1 tried more than once
    merged into main at [commit]
    next: prodigy events job
    ");
    assert_eq!(statuses(&world), "item-001 resolved");
    assert_snapshot!(plain(&by(&world, "ben", &["dlq", "approvals", "job"])), @"
    ----- stderr -----
    no pending approvals in job `job`
    ");
    assert_eq!(world.read("a.txt"), "a\n");
    assert_whole(&world);
}

#[test]
fn what_is_to_be_agreed_to_is_told_to_programs() {
    let world = office(POLICY, &["a"]);
    ask(&world);
    let mut told = request(&world);
    let digest = told["digest"].as_str().unwrap().to_owned();
    for key in ["requested_at", "expires_at"] {
        assert!(told[key].as_str().unwrap().ends_with('Z'));
        told[key] = "[time]".into();
    }
    for key in ["digest", "next", "reason", "shown"] {
        assert!(!told[key].is_null(), "{key}");
    }
    assert_eq!(told["next"], format!("prodigy dlq approve job item-001 --expect {digest}"));
    assert_eq!(told["shown"]["action"], "replay");
    let object = told.as_object_mut().unwrap();
    for key in ["digest", "next", "reason", "shown"] {
        object.remove(key);
    }
    assert_snapshot!(format!("{told:#}"), @r#"
    {
      "item_id": "item-001",
      "grants": [],
      "state": "pending",
      "reason_code": "denied",
      "rejection": null,
      "why": [
        "rule `ask` says require_approval",
        "0 of 1 approvals by `governance`"
      ],
      "needed": 1,
      "missing": 1,
      "group": "governance",
      "requested_by": "ben@example.com",
      "requested_at": "[time]",
      "expires_at": "[time]",
      "forced": false
    }
    "#);
    let seen = by(&world, "eve", &["dlq", "approvals", "job", "--json"]);
    let listed: Value = serde_json::from_str(&seen.stdout).unwrap();
    assert_eq!((&listed["schema_version"], &listed["job_id"]), (&1.into(), &"job".into()));
}

#[test]
fn everybody_who_must_not_agree_is_refused_by_name() {
    let world = office(POLICY, &["a"]);
    let seen = approve(&world, "carol", "sha256:000000000000");
    assert_snapshot!(plain(&seen), @"
    ----- stderr -----
    error: the approval is refused (nothing_requested): no approval was requested for this entry; `prodigy dlq retry` requests one
    [exit 1]
    ");
    let digest = ask(&world);
    let seen = ["ann", "ben", "eve"].map(|who| {
        let why = plain(&approve(&world, who, &digest));
        why.lines().find(|line| line.starts_with("error")).unwrap().to_owned()
    });
    assert_snapshot!(seen.join("\n"), @"
    error: the approval is refused (self_approval): ann@example.com takes part in this and cannot approve it; ask somebody else
    error: the approval is refused (self_approval): ben@example.com takes part in this and cannot approve it; ask somebody else
    error: the approval is refused (not_in_group): eve@example.com is not a member of the group `governance`; ask somebody who is
    ");
    let codes = ["ann", "ben", "eve"].map(|who| refused(&world, who, &digest));
    assert_eq!(codes, ["self_approval", "self_approval", "not_in_group"]);
    let other = format!("sha256:{}", "0".repeat(64));
    assert_eq!(refused(&world, "carol", &other), "digest_mismatch");
    assert_code(&retry(&world, "ben", &[]), 8);
    assert_eq!(replays(&world), "");
}

#[test]
fn a_digest_can_be_given_by_its_first_digits() {
    let world = office(POLICY, &["a"]);
    let digest = ask(&world);
    for short in [&digest[..18], &digest[7..], "", "sha256:xyz"] {
        assert_code(&approve(&world, "carol", short), 2);
    }
    assert_snapshot!(plain(&approve(&world, "carol", "sha256:12")), @"
    ----- stderr -----
    error: `sha256:12` is not the digest of a request

    hint: it is `sha256:` and at least 12 hexadecimal digits; `prodigy dlq approvals job` shows it
    [exit 2]
    ");
    assert_code(&approve(&world, "carol", &digest[..19]), 0);
    let granted = of_type(&world, "approval_granted");
    assert_eq!(granted[0]["digest"], digest);
}

#[test]
fn several_people_have_to_agree_and_each_counts_once() {
    let world = office(&POLICY.replace("ttl: 30m", "min_approvals: 2"), &["a"]);
    let digest = ask(&world);
    let first = approve(&world, "carol", &digest);
    assert_code(&first, 0);
    assert_snapshot!(plain(&first).split_once("stderr").unwrap().1, @"
     -----

    1 more approval needed until [time]
    next: prodigy dlq approvals job
    ");
    assert_eq!(refused(&world, "carol", &digest), "already_approved");
    assert_eq!(refused(&world, "Carol", &digest), "already_approved");
    assert_code(&retry(&world, "ben", &[]), 8);
    // Asking again takes nothing away from what was said.
    assert_eq!(request(&world)["digest"], digest);
    assert_eq!(request(&world)["missing"], 1);
    assert_code(&approve(&world, "dan", &digest), 0);
    assert_code(&retry(&world, "ben", &[]), 0);
    assert_eq!(replays(&world), "item-001 by ben@example.com approved");
}

#[test]
fn taking_it_on_oneself_replaces_nobody_else() {
    let world = office(POLICY, &["a"]);
    let force = ["dlq", "retry", "job", "-y", "--force", "item-001", "--reason", "I want it"];
    assert_code(&by(&world, "ben", &force), 8);
    assert_eq!(replays(&world), "");
    // Nothing is in the way that would have to be lifted, so it is a replay like any other.
    assert_eq!(
        (&request(&world)["shown"]["action"], &request(&world)["forced"]),
        (&"replay".into(), &true.into())
    );
    let digest = request(&world)["digest"].as_str().unwrap().to_owned();
    assert_code(&approve(&world, "carol", &digest), 0);
    assert_code(&retry(&world, "ben", &[]), 0);
}

#[test]
fn who_agreed_does_not_replay() {
    let world = office(POLICY, &["a"]);
    let digest = ask(&world);
    assert_code(&approve(&world, "carol", &digest), 0);
    assert_snapshot!(plain(&retry(&world, "carol", &[])), @"
    ----- stderr -----
    not replayed: 1 entry: item-001: needs approval
      rule `ask` says require_approval; somebody who has a part in it agreed, and that does not count
      then: prodigy dlq approvals job
    item-001 waits for somebody else to replay it: who agreed does not, until [time]
      then: prodigy dlq retry job item-001
    nothing was replayed
    [exit 8]
    ");
    assert_eq!(
        (replays(&world), request(&world)["state"].clone()),
        (String::new(), "granted".into())
    );
    assert_code(&retry(&world, "dan", &[]), 0);
    assert_eq!(replays(&world), "item-001 by dan@example.com approved");
}

#[test]
fn a_resumed_job_takes_up_what_others_agreed_to() {
    let stopping =
        format!("max_failures: 1\n{}", WORKFLOW.replace("max_parallel: 2", "max_parallel: 1"));
    for (who, expected) in [("carol", ""), ("dan", "item-001 by dan@example.com approved")] {
        let world = failing(&stopping, &[]);
        fails_with(&world, "a", "denied");
        rule(&world, POLICY);
        assert_code(&by(&world, "ann", &["run", "workflow.yml", "-y", "--job-id", "job"]), 5);
        mend(&world, "a");
        let digest = ask(&world);
        assert_code(&approve(&world, "carol", &digest), 0);
        assert_code(&by(&world, who, &["resume", "job", "-y"]), 0);
        assert_eq!(replays(&world), expected);
        assert_whole(&world);
    }
}

#[test]
fn a_replay_that_was_rejected_is_not_made() {
    let world = office(POLICY, &["a"]);
    let digest = ask(&world);
    let reject = |who: &str, reason: &str| {
        let expect = ["--expect", &digest, "--reason", reason];
        by(&world, who, &[&["dlq", "reject", "job", "item-001"], &expect[..]].concat())
    };
    assert_code(&reject("carol", " "), 2);
    assert_code(&reject("eve", "no"), 1);
    assert_eq!(audited(&world).last().unwrap(), "eve reject refused not_in_group");
    assert_code(&approve(&world, "carol", &digest), 0);
    // Whoever asked may think better of it.
    assert_snapshot!(plain(&reject("ben", "it can wait")), @r#"
    item         item-001
    state        granted: it can be replayed once
    action       replay (replay 1)
    failed with  denied: `sh $ROOT/work ${item}` failed with exit code 1
    why          rule `ask` says require_approval; 1 of 1 approvals by `governance`
    data         "a"
    commit       [commit]
    asked by     ben@example.com, [time]
    agreed       carol@example.com (asserted), [time]
    until        [time]
    digest       [digest]
    rejected  item-001 as ben@example.com (asserted)
    ----- stderr -----

    it is not replayed as it is: change what you object to, or close it
    next: prodigy dlq drop job item-001 --reason TEXT
    "#);
    assert_eq!(refused(&world, "dan", &digest), "rejected");
    assert_snapshot!(plain(&retry(&world, "ben", &[])), @"
    ----- stderr -----
    not replayed: 1 entry: item-001: it is not replayed
      rule `ask` says require_approval; the approval was rejected
      then: prodigy dlq drop job item-001 --reason TEXT
    nothing was replayed
    [exit 10]
    ");
    assert_snapshot!(plain(&by(&world, "dan", &["dlq", "approvals", "job"])), @r#"
    item         item-001
    state        rejected: it is not replayed as it is
    action       replay (replay 1)
    failed with  denied: `sh $ROOT/work ${item}` failed with exit code 1
    why          rule `ask` says require_approval; the approval was rejected
    data         "a"
    commit       [commit]
    asked by     ben@example.com, [time]
    agreed       carol@example.com (asserted), [time]
    refused      ben@example.com: it can wait
    until        [time]
    digest       [digest]
    next         prodigy dlq drop job item-001 --reason TEXT
    "#);
    assert_eq!(replays(&world), "");
}

#[test]
fn the_rules_explain_themselves() {
    let world = office(POLICY, &["a"]);
    let explain = |who: &str, more: &[&str]| {
        by(&world, who, &[&["policy", "explain", "job", "item-001"], more].concat())
    };
    assert_snapshot!(plain(&explain("ben", &[])), @"
    item         item-001 of job job
    failed with  denied: `sh $ROOT/work ${item}` failed with exit code 1
    verdict      approval: needs approval
    because      rule `ask` says require_approval
    because      0 of 1 approvals by `governance`
    policy       [digest]
    next         prodigy dlq retry job item-001  (asks for it)
    ");
    let digest = ask(&world);
    assert_snapshot!(plain(&explain("ben", &[])), @"
    item         item-001 of job job
    failed with  denied: `sh $ROOT/work ${item}` failed with exit code 1
    verdict      approval: needs approval
    because      rule `ask` says require_approval
    because      0 of 1 approvals by `governance`
    policy       [digest]
    next         prodigy dlq approve job item-001 --expect [digest]
    ");
    assert_code(&approve(&world, "carol", &digest), 0);
    assert_snapshot!(plain(&explain("ben", &["--json"])), @r#"
    {
      "schema_version": 1,
      "job_id": "job",
      "item_id": "item-001",
      "revision": 1,
      "reason_code": "denied",
      "verdict": "replay",
      "action": "require_approval",
      "rule": "ask",
      "policy_snapshot": "[digest]",
      "not_before": null,
      "why": [
        "rule `ask` says require_approval",
        "1 of 1 approvals by `governance`"
      ],
      "approval": "granted",
      "next": "prodigy dlq retry job item-001"
    }
    "#);
    let of_carol: Value = serde_json::from_str(&explain("carol", &["--json"]).stdout).unwrap();
    assert_eq!(of_carol["verdict"], "approval");
    rule(
        &world,
        &POLICY
            .replace("require_approval", "quarantine")
            .replace("    approver_group: governance\n", ""),
    );
    assert_snapshot!(plain(&explain("ben", &[])), @"
    item         item-001 of job job
    failed with  denied: `sh $ROOT/work ${item}` failed with exit code 1
    verdict      quarantine: quarantined until changed or released
    because      rule `ask` says quarantine
    because      nothing changed since it failed
    policy       [digest]
    next         prodigy dlq release job item-001 --reason TEXT
    ----- stderr -----
    warning: no rule asks group `governance`
     --> .prodigy/replay-policy.yml:8:3
      |
    8 |   governance:
      |   ^^^^^^^^^^
      |
      = help: name it with `approver_group: governance`, or take it out
    ");
    assert_code(&by(&world, "ben", &["policy", "explain", "job", "nothing"]), 2);
}

#[test]
fn everything_about_an_agreement_is_in_the_audit_trail_and_the_journal() {
    let world = office(POLICY, &["a"]);
    let digest = ask(&world);
    refused(&world, "eve", &digest);
    assert_code(&approve(&world, "carol", &digest), 0);
    assert_code(&retry(&world, "ben", &[]), 0);
    assert_snapshot!(audited(&world).join("\n"), @"
    ben request_approval intended approval
    ben request_approval done approval
    eve approve refused not_in_group
    carol approve intended approval
    carol approve done approval
    ben replay intended replay
    ben replay done replay
    ");
    assert_code(&by(&world, "eve", &["audit", "verify"]), 0);
    let events = by(&world, "eve", &["events", "job", "--item", "item-001"]);
    let told = plain(&events);
    let said = |line: &str| line.split_once("  ").map(|(_, said)| said.to_owned());
    let lines = told.lines().filter_map(said).filter(|line| line.starts_with("approval_"));
    assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @"
    approval_requested  item-001  by ben@example.com  for ask
    approval_granted    item-001  by carol@example.com  asserted
    ");
}

#[test]
fn while_somebody_works_on_the_job_nobody_answers() {
    let world = office(POLICY, &["a", "b"]);
    let digest = ask(&world);
    assert_code(&by(&world, "ben", &["dlq", "retry", "job", "item-002"]), 8);
    assert_code(&approve(&world, "carol", &digest), 0);
    let hold = "touch ROOT/begun; while test -e ROOT/hold; do sleep 0.02; done";
    fs::write(world.root().join("hold"), "").unwrap();
    does(&world, "a", hold);
    let retry = ["dlq", "retry", "job", "item-001", "-y"];
    let mut run = SpawnedProdigy::of(&mut typed(&world, "ben", &retry));
    run.until(&world, "the replay begins", || world.root().join("begun").exists());
    let seen = by(&world, "carol", &["dlq", "approve", "job", "item-002", "--expect", &digest]);
    assert_code(&seen, 75);
    fs::remove_file(world.root().join("hold")).unwrap();
    assert_code(&run.seen(&world), 0);
}
