//! The policy and the signers that decide: those that are committed on the branch of the job.

use std::fs;

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;
use serde_json::Value;

use crate::{
    dlq::retry::{failing, fails_with, mend, statuses},
    fixture::{
        approvals::{POLICY, approve, ask, by, office, plain, replays, request, retry},
        map_job::assert_code,
    },
};

const FILE: &str = ".prodigy/replay-policy.yml";

/// A policy that lets everything be replayed.
const LAX: &str = "version: v1\ndefaults: { action: auto_replay }\n";

#[test]
fn an_uncommitted_policy_is_refused() {
    let world = office(POLICY, &["a"]);
    world.write(FILE, LAX);
    let digest = format!("sha256:{}", "0".repeat(64));
    for args in [
        &["dlq", "retry", "job", "-y"][..],
        &["dlq", "approve", "job", "item-001", "--expect", &digest],
        &["dlq", "plan", "job"],
        &["resume", "job", "-y"],
    ] {
        let seen = by(&world, "ben", args);
        assert_code(&seen, 9);
        assert!(seen.stderr.contains("commit it"), "{seen}");
    }
    assert_snapshot!(plain(&retry(&world, "ben", &[])), @"
    ----- stderr -----
    error: `.prodigy/replay-policy.yml` differs from the one that is committed on `main`

    hint: commit it, or put it back with `git checkout -- .prodigy/replay-policy.yml`; what is not committed decides nothing
    [exit 9]
    ");
    world.git(&["add", FILE]);
    assert_code(&retry(&world, "ben", &[]), 9);
    world.git(&["commit", "--quiet", "--message", "Let all be replayed"]);
    assert_code(&retry(&world, "ben", &[]), 0);
    assert_eq!(replays(&world), "item-001 by ben@example.com alone");
}

#[test]
fn the_policy_is_that_of_the_branch_that_the_job_merges_into() {
    let world = office(POLICY, &["a"]);
    // Another branch is checked out, with another policy: the job merges into `main`.
    world.git(&["checkout", "--quiet", "-b", "side"]);
    world.write(FILE, LAX);
    world.commit_all("Let all be replayed");
    assert_code(&retry(&world, "ben", &[]), 8);
    assert_eq!(replays(&world), "");
    world.git(&["checkout", "--quiet", "main"]);
}

#[test]
fn a_checkout_without_the_policy_is_noticed() {
    let world = office(POLICY, &["a"]);
    fs::remove_file(world.repo().join(FILE)).unwrap();
    let seen = retry(&world, "ben", &[]);
    assert_code(&seen, 8);
    let note = "note: `.prodigy/replay-policy.yml` is missing in the checkout; the one that is committed on `main` decides";
    assert!(seen.stderr.contains(note), "{seen}");
    assert_eq!(replays(&world), "");
}

#[test]
fn a_policy_with_another_ending_is_noticed() {
    let world = office(POLICY, &["a"]);
    world.git(&["mv", FILE, ".prodigy/replay-policy.yaml"]);
    world.commit_all("Rename the policy");
    for args in [&["dlq", "retry", "job", "-y"][..], &["policy", "lint"], &["policy", "show"]] {
        let seen = by(&world, "ben", args);
        assert_code(&seen, 9);
        assert!(seen.stderr.contains("rename it to `.prodigy/replay-policy.yml`"), "{seen}");
    }
    assert_eq!(replays(&world), "");
}

/// Makes a world in which Carol has to sign, with the signers committed.
fn signed() -> (TestEnv, String) {
    let more = "    identity: signed\n    allowed_signers: .prodigy/allowed_signers\n";
    let world = office(&format!("{POLICY}{more}"), &["a"]);
    let key = world.root().join("carol.key").display().to_string();
    let args = ["-q", "-t", "ed25519", "-N", "", "-C", "carol", "-f", &key];
    assert!(world.command("ssh-keygen").args(args).output().unwrap().status.success());
    let public = fs::read_to_string(format!("{key}.pub")).unwrap();
    world.write(".prodigy/allowed_signers", format!("carol@example.com {public}"));
    world.commit_all("Name the signers");
    (world, key)
}

#[test]
fn signers_count_by_content_and_only_if_they_are_committed() {
    let (world, key) = signed();
    let digest = ask(&world);
    let signers = world.read(".prodigy/allowed_signers");
    let sign = |who: &str| {
        let expect = ["--expect", &digest, "--sign", "--key", &key];
        by(&world, who, &[&["dlq", "approve", "job", "item-001"], &expect[..]].concat())
    };
    // Dan puts Carol's key down as his own.
    world.write(".prodigy/allowed_signers", signers.replace("carol@", "dan@"));
    let seen = sign("dan");
    assert_code(&seen, 9);
    assert!(seen.stderr.contains("commit it"), "{seen}");
    world.commit_all("Dan has this key");
    let seen = sign("dan");
    assert_code(&seen, 1);
    assert!(seen.stderr.contains("(policy_mismatch)"), "{seen}");
    world.git(&["revert", "--no-edit", "HEAD"]);
    assert_eq!(request(&world)["state"], "void");
    let again = ask(&world);
    let expect = ["--expect", &again, "--sign", "--key", &key];
    let seen = by(&world, "carol", &[&["dlq", "approve", "job", "item-001"], &expect[..]].concat());
    assert_code(&seen, 0);
}

/// A job whose items write a policy: by a commit of prodigy's, or by one of their own.
const MEDDLING: &str = r"
map:
  input: { items: [a, b] }
  max_parallel: 1
  agent_template:
    - shell: sh ROOT/work ${item}
      auto_commit: true
";

/// Makes a world in which item `a` is denied and item `b` changes the policy to a lax one.
fn meddled(commits: &str) -> TestEnv {
    let world = failing(MEDDLING, &[]);
    fails_with(&world, "a", "denied");
    let write =
        format!("mkdir -p .prodigy; printf '{}' > {FILE}; {commits}", LAX.replace('\n', "\\n"));
    crate::dlq::retry::does(&world, "b", &write);
    crate::fixture::approvals::rule(&world, POLICY);
    assert_code(&by(&world, "ann", &["run", "workflow.yml", "-y", "--job-id", "job"]), 0);
    mend(&world, "a");
    assert_eq!(world.git(&["show", &format!("main:{FILE}")]), LAX.trim_end());
    world
}

#[test]
fn a_policy_that_a_job_committed_counts_once_a_person_confirmed_it() {
    for commits in ["", "git add .prodigy; git -c user.name=x -c user.email=x@y commit -qm Sly"] {
        let world = meddled(commits);
        let refused = retry(&world, "ben", &[]);
        assert_code(&refused, 9);
        let why = "`.prodigy/replay-policy.yml` was last changed by job `job`, and nobody has confirmed it";
        assert!(refused.stderr.contains(why), "{refused}");
        assert!(refused.stderr.contains("read it, then `prodigy policy confirm`"), "{refused}");
        let shown = by(&world, "dan", &["policy", "confirm"]);
        assert_code(&shown, 8);
        assert!(shown.stdout.contains("defaults: { action: auto_replay }"), "{shown}");
        let (_, digest) = shown.stderr.split_once("--expect ").unwrap();
        let digest = digest.split_whitespace().next().unwrap().to_owned();
        let wrong = by(&world, "dan", &["policy", "confirm", "--expect", "sha256:000000000000"]);
        assert_code(&wrong, 1);
        assert_code(&retry(&world, "ben", &[]), 9);
        assert_code(&by(&world, "dan", &["policy", "confirm", "--expect", &digest]), 0);
        assert_code(&retry(&world, "ben", &[]), 0);
        assert_eq!(statuses(&world), "item-001 resolved");
        let trail = fs::read_to_string(world.home().join("audit/repo/audit.jsonl")).unwrap();
        let records = trail.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let confirmed = |one: &Value| one["action"] == "confirm_policy" && one["outcome"] == "done";
        let confirmed: Vec<Value> = records.filter(confirmed).collect();
        assert_eq!(confirmed.len(), 1);
        assert_eq!(
            (&confirmed[0]["actor"], &confirmed[0]["digest"]),
            (&"dan@example.com".into(), &digest.into())
        );
        assert_code(&world.prodigy(&["audit", "verify"]), 0);
    }
}

#[test]
fn a_policy_that_a_person_changed_after_a_job_needs_no_confirmation() {
    let world = meddled("");
    crate::fixture::approvals::rule(&world, &format!("{POLICY}# Mine\n"));
    assert_code(&retry(&world, "ben", &[]), 8);
    let nothing = by(&world, "dan", &["policy", "confirm"]);
    assert_code(&nothing, 0);
    assert!(nothing.stderr.contains("nothing to confirm"), "{nothing}");
    let digest = request(&world)["digest"].as_str().unwrap().to_owned();
    assert_code(&approve(&world, "carol", &digest), 0);
}
