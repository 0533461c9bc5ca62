//! Rules of approvals that no missing setting loosens: members, submitters, the commit that a
//! replay runs on, and processes below a running step.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use std::fs;

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;
use serde_json::Value;

use crate::{
    dlq::retry::statuses,
    fixture::{
        approvals::{
            POLICY, approve, ask, by, office, plain, refused, replays, request, retry, rule,
        },
        map_job::{assert_code, letter},
    },
};

/// The lines of the seed document that say who approves: a group that nobody describes.
const SEED: &str = "
version: v1
dlq_rules:
  - match: { reason_code: denied }
    action: require_approval
    approver_group: platform-governance
";

#[test]
fn a_group_without_members_lets_nobody_approve() {
    let described = format!("{SEED}approver_groups:\n  platform-governance: {{ ttl: 1h }}\n");
    for policy in [SEED, &described] {
        let world = office(policy, &["a"]);
        let asked = retry(&world, "ben", &[]);
        assert_code(&asked, 8);
        assert!(asked.stderr.contains("has no members"), "{asked}");
        let digest = format!("sha256:{}", "0".repeat(64));
        for who in ["ann", "ben", "carol"] {
            assert_eq!(refused(&world, who, &digest), "no_members");
        }
        let said = approve(&world, "carol", &digest);
        assert!(said.stderr.contains("members: [alice@example.com]"), "{said}");
        assert_code(&retry(&world, "ben", &[]), 8);
        assert_eq!(replays(&world), "");
        let linted = world.prodigy(&["policy", "lint"]);
        assert_code(&linted, 0);
        assert!(linted.stderr.contains("nobody may approve"), "{linted}");
    }
}

#[test]
fn a_submitter_does_not_approve_unless_the_policy_says_so() {
    let silent = POLICY.replace("    distinct_from: [submitter, replayer]\n", "");
    let groupless = "version: v1\ndlq_rules:\n  - id: ask\n    match: { reason_code: denied }\n    \
                     action: require_approval\n";
    for policy in [silent.as_str(), groupless] {
        let world = office(policy, &["a"]);
        let digest = ask(&world);
        assert_eq!(refused(&world, "ann", &digest), "self_approval");
        assert_code(&approve(&world, "carol", &digest), 0);
    }
    let free = POLICY.replace("[submitter, replayer]", "[]");
    let world = office(&free, &["a"]);
    let digest = ask(&world);
    assert_code(&approve(&world, "ann", &digest), 0);
}

#[test]
fn an_approval_is_void_once_the_replay_would_run_on_another_commit() {
    let world = office(POLICY, &["a"]);
    let digest = ask(&world);
    assert_code(&approve(&world, "carol", &digest), 0);
    world.write("deploy.sh", "rm -rf /\n");
    world.commit_all("Add another way to deploy");
    assert_eq!(request(&world)["state"], "void");
    assert_eq!(refused(&world, "dan", &digest), "digest_mismatch");
    assert_code(&retry(&world, "ben", &[]), 8);
    assert_eq!(replays(&world), "");
    let again = request(&world)["digest"].as_str().unwrap().to_owned();
    assert_code(&approve(&world, "carol", &again), 0);
    assert_code(&retry(&world, "ben", &[]), 0);
    assert_eq!(statuses(&world), "item-001 resolved");
}

/// Asks for the replay of items as Ben, and has Carol approve all of them.
fn approve_all(world: &TestEnv) {
    assert_code(&by(world, "ben", &["dlq", "retry", "job", "-y"]), 8);
    let asked = by(world, "carol", &["dlq", "approvals", "job", "--json"]);
    let asked: Value = serde_json::from_str(&asked.stdout).unwrap();
    for one in asked["approvals"].as_array().unwrap() {
        let [item, digest] = ["item_id", "digest"].map(|key| one[key].as_str().unwrap());
        let seen = by(world, "carol", &["dlq", "approve", "job", item, "--expect", digest]);
        assert_code(&seen, 0);
    }
}

#[test]
fn approvals_of_several_items_survive_the_replay_of_the_first() {
    let both = "item-001 by ben@example.com approved, item-002 by ben@example.com approved";
    for (fast_forward, meanwhile) in [("true", false), ("false", false), ("true", true)] {
        let world = office(POLICY, &["a", "b"]);
        world.git(&["config", "merge.ff", fast_forward]);
        approve_all(&world);
        let replay = |item| by(&world, "ben", &["dlq", "retry", "job", item, "-y"]);
        assert_code(&replay("item-001"), 0);
        if meanwhile {
            // What somebody else commits is another matter, also behind the job's own merges.
            world.write("deploy.sh", "rm -rf /\n");
            world.commit_all("Add another way to deploy");
            assert_code(&replay("item-002"), 8);
            assert_eq!(replays(&world), "item-001 by ben@example.com approved");
        } else {
            assert_code(&replay("item-002"), 0);
            assert_eq!(replays(&world), both);
        }
    }
}

/// Runs prodigy in a step of another job, in several ways, and returns what it said.
fn in_a_step(world: &TestEnv, args: &str) -> Vec<String> {
    let (root, program) = (world.root().display(), env!("CARGO_BIN_EXE_prodigy"));
    let program = format!("{program} --home {}", world.home().display());
    let run = format!("{program} {args} > {root}/said.$1 2>&1; echo \"exit $?\" >> {root}/said.$1");
    fs::write(world.root().join("prodigy.sh"), run).unwrap();
    let step =
        |name: &str, before: &str| format!("  - shell: '{before} sh {root}/prodigy.sh {name}'\n");
    let daemon = format!(
        "  - shell: 'setsid sh -c \"env -u PRODIGY_AUTOMATION sh {root}/prodigy.sh daemon; touch \
         {root}/ended\" > /dev/null 2>&1 & while ! test -e {root}/ended; do sleep 0.05; done'\n"
    );
    let steps = format!(
        "steps:\n{}{}{daemon}",
        step("plain", ""),
        step("unset", "env -u PRODIGY_AUTOMATION")
    );
    fs::remove_file(world.root().join("ended")).ok();
    fs::write(world.root().join("step.yml"), steps).unwrap();
    let workflow = world.root().join("step.yml").display().to_string();
    assert_code(&by(world, "carol", &["run", &workflow, "-y"]), 0);
    let said = |name| fs::read_to_string(world.root().join(format!("said.{name}"))).unwrap();
    ["plain", "unset", "daemon"].map(said).to_vec()
}

#[test]
fn a_running_step_neither_approves_nor_replays() {
    refused_below_a_step();
}

/// A job whose step tries to approve and to replay, and is refused.
pub(crate) fn refused_below_a_step() -> TestEnv {
    let world = office(POLICY, &["a"]);
    let digest = ask(&world);
    for said in in_a_step(&world, &format!("dlq approve job item-001 --expect {digest}")) {
        assert!(said.contains("error: a step of a job cannot approve a replay"), "{said}");
        assert!(said.ends_with("exit 10\n"), "{said}");
    }
    assert_code(&approve(&world, "carol", &digest), 0);
    for command in ["dlq retry job item-001 -y", "dlq adopt job item-001 --reason x"] {
        for said in in_a_step(&world, command) {
            assert!(said.ends_with("exit 10\n"), "{said}");
        }
    }
    assert_eq!((replays(&world).as_str(), statuses(&world).as_str()), ("", "item-001 open"));
    // The trail says so, too.
    assert_code(&retry(&world, "ben", &[]), 0);
    let trail = fs::read_to_string(world.home().join("audit/repo/audit.jsonl")).unwrap();
    let records: Vec<Value> =
        trail.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let tried = |action: &str| {
        let is = |one: &&Value| one["action"] == action && one["automation"] == true;
        let all: Vec<_> = records.iter().filter(is).collect();
        assert!(all.iter().all(|one| one["decision"] == "automation"), "{all:?}");
        all.len()
    };
    assert_eq!((tried("approve"), tried("replay"), tried("adopt")), (3, 3, 3));
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    for record in &records {
        assert_eq!(record["host"], host.trim(), "{record}");
        assert!(record["os_user"].is_string(), "{record}");
        assert!(record["automation"].is_boolean(), "{record}");
    }
    assert_code(&world.prodigy(&["audit", "verify"]), 0);
    world
}

#[test]
fn one_key_under_alerts_keeps_the_other_defaults() {
    let world = office(POLICY, &["a"]);
    rule(&world, "version: v1\nalerts: { growth_per_min: 9 }\n");
    assert_snapshot!(plain(&world.prodigy(&["policy", "show"])).split_once("\nalerts\n").unwrap().1, @"
      growth_per_min      9
      denial_ratio        0.2
      unknown_commit_age  30m [time]
      unclassified_ratio  0.05
      oldest              1d 00h
    ");
}

#[test]
fn the_owner_of_a_rule_reaches_entry_list_and_alerts() {
    let owned = "version: v1\ndlq_rules:\n  - match: { reason_code: timeout }\n    action: never\n  \
                 - match: { reason_code: denied }\n    action: quarantine\n    \
                 owner: integration-team\nalerts: { oldest: 0s }\n";
    let world = office(owned, &["a"]);
    assert_eq!(letter(&world, "item-001")["owner"], "integration-team");
    let shown = world.prodigy(&["dlq", "show", "job", "item-001"]);
    assert!(shown.stdout.contains("integration-team"), "{shown}");
    let listed = world.prodigy(&["dlq", "list", "job"]);
    assert!(listed.stdout.contains("quarantine (integration-team)"), "{listed}");
    let listed = world.prodigy(&["dlq", "list", "job", "--json"]);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(listed["entries"][0]["owner"], "integration-team");
    let alerted = world.prodigy(&["dlq", "status", "--json"]);
    let alerted: Value = serde_json::from_str(&alerted.stdout).unwrap();
    let oldest = alerted["alerts"].as_array().unwrap().iter();
    let oldest = oldest.clone().find(|alert| alert["alert"] == "oldest").unwrap();
    assert_eq!(
        (&oldest["owner"], &alerted["oldest"]["owner"]),
        (&"integration-team".into(), &"integration-team".into())
    );
    assert!(oldest["text"].as_str().unwrap().contains("(owner: integration-team)"), "{oldest}");
    // The list can be made anew from the journal, and says the same.
    fs::remove_dir_all(world.home().join("dlq")).unwrap();
    assert_code(&world.prodigy(&["dlq", "fsck", "job"]), 0);
    assert_eq!(letter(&world, "item-001")["owner"], "integration-team");
}
