//! `prodigy dlq drill`.

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;

fn world() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_prodigy"))
}

#[test]
fn every_scenario_ends_as_it_must_and_nothing_of_the_user_is_touched() {
    let world = world();
    let seen = world.prodigy(&["dlq", "drill", "--json"]);
    assert_eq!(seen.code, Some(0), "{seen}");
    let document: serde_json::Value = serde_json::from_str(&seen.stdout).unwrap();
    assert_eq!(document["schema_version"], 1);
    let scenarios = document["scenarios"].as_array().unwrap();
    let names: Vec<_> = scenarios.iter().map(|one| one["scenario"].as_str().unwrap()).collect();
    assert_snapshot!(names.join("\n"), @"
    denied-replay
    crash-before-effect
    crash-after-effect
    racing-replayers
    expired-approval
    self-approval
    policy-changed
    missing-input
    cut-audit-tail
    no-members
    uncommitted-policy
    policy-by-job
    other-commit
    step-approves
    ");
    for scenario in scenarios {
        let findings = scenario["findings"].as_array().unwrap();
        let effects = findings.iter().find(|finding| finding["what"] == "effects").unwrap();
        assert_eq!(effects["actual"], "1", "{scenario}");
        assert_eq!(scenario["ok"], true, "{scenario}");
    }
    assert!(!world.home().exists(), "the home of the user is not used");
}

#[test]
fn one_scenario_is_played_for_people_and_can_be_kept() {
    let world = world();
    let scratch = world.root().join("scratch");
    std::fs::create_dir(&scratch).unwrap();
    let world = world.env("TMPDIR", &scratch.to_string_lossy());
    assert_snapshot!(world.prodigy(&["dlq", "drill", "denied-replay"]), @"
    ✓ denied-replay: the policy keeps an entry back until somebody releases it
        ✓ replay is denied: 10
        ✓ entry stays: open
        ✓ effects so far: 0
        ✓ denials in the audit trail: 1
        ✓ release: 0
        ✓ replay: 0
        ✓ effects: 1
        ✓ entry: resolved
        ✓ audit verify: 0
    ----- stderr -----

    1 scenario, all passed
    ");
    assert_eq!(std::fs::read_dir(&scratch).unwrap().count(), 0, "nothing is left");
    let kept = world.prodigy(&["dlq", "drill", "denied-replay", "--keep"]);
    assert_eq!(kept.code, Some(0), "{kept}");
    let place = std::fs::read_dir(&scratch).unwrap().next().unwrap().unwrap().path();
    let name = place.file_name().unwrap().to_string_lossy().into_owned();
    assert!(kept.stderr.contains(&format!("kept in $ROOT/scratch/{name}")), "{kept}");
    assert!(place.join("home/audit").is_dir());
}

#[test]
fn the_scenarios_are_listed_and_an_unknown_one_is_refused() {
    let world = world();
    assert_snapshot!(world.prodigy(&["dlq", "drill", "--list"]), @"
    denied-replay        the policy keeps an entry back until somebody releases it
    crash-before-effect  prodigy dies right before something outside is changed
    crash-after-effect   prodigy dies right after something outside was changed
    racing-replayers     two replays of one entry are asked for at once
    expired-approval     somebody agrees when it is too late
    self-approval        somebody agrees to their own replay
    policy-changed       the policy changes after somebody agreed
    missing-input        the item's input is gone until somebody names another
    cut-audit-tail       the end of the audit trail is cut off
    no-members           the approver group has no members
    uncommitted-policy   somebody changes the policy and does not commit it
    policy-by-job        a job commits a policy that allows more
    other-commit         somebody commits to the branch after somebody agreed
    step-approves        a running step agrees to a replay
    ");
    let seen = world.prodigy(&["dlq", "drill", "earthquake"]);
    assert_eq!(seen.code, Some(2), "{seen}");
    assert!(seen.stderr.contains("there is no such scenario; there are denied-replay"), "{seen}");
}
