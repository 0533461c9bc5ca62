//! `prodigy policy`: the rules that decide over dead letters, checked and tried out.

use std::{fs, os::unix::fs::symlink};

use prodigy_testkit::{CommandOutput, TestEnv};

/// A policy with everything that can be said.
const WHOLE: &str = r#"version: v1
dlq_rules:
  - match: { reason_code: max_scheduling_retries }
    action: auto_replay
    max_replays: 2
    backoff: exponential_jitter
  - match: { reason_code: schema_invalid }
    action: quarantine
    owner: integration-team
  - match: { reason_code: denied }
    action: require_approval
    approver_group: platform-governance
  - id: pr-uncertain
    match: { reason_code: [push_rejected, "unknown_*"], class: [commit, integration], step: "open-pr", attempts_gte: 2, signature: "0a1b" }
    action: check_then_replay
    on_absent: auto_replay
    on_committed: adopt
    on_partial: manual_review
defaults: { action: manual_review }
limits: { replays_per_item: 3, replays_per_signature: 20, cost_usd: 10 }
velocity: { rate: 6/min, concurrency: 2, canary: [1, 5], abort_failure_ratio: 0.3 }
approver_groups:
  platform-governance: { members: [alice@example.com], min_approvals: 1, ttl: 30m, distinct_from: [submitter, replayer], identity: signed, allowed_signers: .prodigy/allowed_signers }
alerts: { growth_per_min: 5, denial_ratio: 0.2, unknown_commit_age: 30m, unclassified_ratio: 0.05, oldest: 24h, hook: "./notify.sh" }
"#;

fn world() -> TestEnv {
    TestEnv::with_repo(env!("CARGO_BIN_EXE_prodigy"))
}

/// A repository with a policy.
fn world_with(policy: &str) -> TestEnv {
    let world = world();
    world.write(".prodigy/replay-policy.yml", policy);
    world
}

/// Tests a policy with cases.
fn tested(policy: &str, cases: &str) -> CommandOutput {
    let world = world_with(policy);
    world.write(".prodigy/replay-policy.test.yml", cases);
    world.prodigy(&["policy", "test"])
}

#[test]
fn a_valid_policy_is_summed_up() {
    insta::assert_snapshot!(world_with(WHOLE).prodigy(&["policy", "lint"]), @".prodigy/replay-policy.yml: ok (4 rules and defaults)");
    let world = world_with("version: v1\ndlq_rules: [{match: {class: poison}, action: never}]\n");
    insta::assert_snapshot!(world.prodigy(&["policy", "lint"]), @".prodigy/replay-policy.yml: ok (1 rule, then the built-in ones)");
    insta::assert_snapshot!(world.prodigy(&["policy", "lint", ".prodigy/replay-policy.yml"]), @".prodigy/replay-policy.yml: ok (1 rule, then the built-in ones)");
}

#[test]
fn without_a_file_the_built_in_rules_hold() {
    insta::assert_snapshot!(world().prodigy(&["policy", "lint"]), @"
    ----- stderr -----
    there is no .prodigy/replay-policy.yml: the built-in rules hold
    ");
    insta::assert_snapshot!(world().prodigy(&["policy", "lint", "--format", "json"]), @r#"
    {"schema_version":1,"valid":true,"diagnostics":[]}
    ----- stderr -----
    there is no .prodigy/replay-policy.yml: the built-in rules hold
    "#);
    insta::assert_snapshot!(world().prodigy(&["policy", "lint", "other.yml"]), @"
    ----- stderr -----
    error: there is no file `other.yml`
    [exit 2]
    ");
    insta::assert_snapshot!(world().prodigy(&["policy", "show"]), @"
    policy    built in
    snapshot  sha256:221d2e88122fd5c3710a57225be30a2fe1991d395ff16b07ad044a73a0fe6702

    rules; the first that matches decides
      built-in:timeout                   timeout                   auto_replay, backoff exponential_jitter
      built-in:stalled                   stalled                   auto_replay, backoff exponential_jitter
      built-in:dependency_unavailable    dependency_unavailable    auto_replay, backoff exponential_jitter
      built-in:network_error             network_error             auto_replay, backoff exponential_jitter
      built-in:rate_limited              rate_limited              auto_replay, backoff exponential_jitter
      built-in:provider_overloaded       provider_overloaded       auto_replay, backoff exponential_jitter
      built-in:no_workers                no_workers                auto_replay, backoff exponential_jitter
      built-in:worker_lost               worker_lost               auto_replay, backoff exponential_jitter
      built-in:interrupted               interrupted               auto_replay, backoff exponential_jitter
      built-in:spawn_failed              spawn_failed              auto_replay, at most 1 replay
      built-in:max_scheduling_retries    max_scheduling_retries    auto_replay, backoff exponential_jitter
      built-in:store_unavailable         store_unavailable         auto_replay, backoff exponential_jitter
      built-in:oom_killed                oom_killed                auto_replay, at most 1 replay
      built-in:disk_full                 disk_full                 manual_review
      built-in:budget_exceeded           budget_exceeded           require_approval
      built-in:quota_exhausted           quota_exhausted           manual_review
      built-in:turn_limit                turn_limit                require_approval
      built-in:context_overflow          context_overflow          quarantine
      built-in:schema_invalid            schema_invalid            quarantine
      built-in:parse_error               parse_error               quarantine
      built-in:template_error            template_error            quarantine
      built-in:tool_contract_mismatch    tool_contract_mismatch    quarantine
      built-in:payload_too_large         payload_too_large         quarantine
      built-in:input_missing             input_missing             quarantine
      built-in:poison_repeat             poison_repeat             quarantine
      built-in:command_failed            command_failed            auto_replay, at most 1 replay
      built-in:validation_failed         validation_failed         auto_replay, at most 1 replay
      built-in:no_commit                 no_commit                 auto_replay, at most 1 replay
      built-in:output_unparseable        output_unparseable        auto_replay, at most 1 replay
      built-in:output_too_large          output_too_large          auto_replay, at most 1 replay
      built-in:agent_crashed             agent_crashed             auto_replay, backoff exponential_jitter
      built-in:agent_error               agent_error               manual_review
      built-in:agent_refused             agent_refused             manual_review
      built-in:merge_conflict            merge_conflict            auto_replay, at most 1 replay
      built-in:worktree_error            worktree_error            auto_replay, backoff exponential_jitter
      built-in:dirty_target              dirty_target              manual_review
      built-in:hook_failed               hook_failed               quarantine
      built-in:push_rejected             push_rejected             check_then_replay, absent: auto_replay, committed: adopt, partial: manual_review
      built-in:denied                    denied                    require_approval
      built-in:approval_required         approval_required         require_approval
      built-in:approval_rejected         approval_rejected         never
      built-in:approval_expired          approval_expired          require_approval
      built-in:policy_snapshot_mismatch  policy_snapshot_mismatch  require_approval
      built-in:permission_denied         permission_denied         quarantine
      built-in:auth_failed               auth_failed               quarantine
      built-in:secret_detected           secret_detected           quarantine
      built-in:unknown_commit_state      unknown_commit_state      check_then_replay, absent: auto_replay, committed: adopt, partial: manual_review
      built-in:partial_external_write    partial_external_write    manual_review
      built-in:effect_check_failed       effect_check_failed       manual_review
      built-in:compensation_failed       compensation_failed       manual_review
      built-in:idempotency_conflict      idempotency_conflict      manual_review
      built-in:replay_denied             replay_denied             manual_review
      built-in:replay_budget_exhausted   replay_budget_exhausted   manual_review
      built-in:cancelled                 cancelled                 never
      built-in:internal_error            internal_error            manual_review
      built-in:corrupt_record            corrupt_record            manual_review
      built-in:reconstructed             reconstructed             manual_review
      built-in:unclassified              unclassified              manual_review
    ");
    let outside = TestEnv::new(env!("CARGO_BIN_EXE_prodigy"));
    assert_eq!(
        outside.prodigy(&["policy", "show"]).stdout,
        world().prodigy(&["policy", "show"]).stdout
    );
}

#[test]
fn mistakes_are_shown_where_they_stand() {
    let world = world_with(
        "version: v1\ndlq_rules:\n  - match: { reason_code: timeot }\n    action: auto_replay\n    max_replay: 2\n",
    );
    insta::assert_snapshot!(world.prodigy(&["policy", "lint"]), @"
    .prodigy/replay-policy.yml: invalid (2 errors)
    ----- stderr -----
    error: there is no reason code `timeot`
     --> .prodigy/replay-policy.yml:3:27
      |
    3 |   - match: { reason_code: timeot }
      |                           ^^^^^^
      |
      = help: did you mean `timeout`?

    error: unknown key `max_replay` in a rule
     --> .prodigy/replay-policy.yml:5:5
      |
    5 |     max_replay: 2
      |     ^^^^^^^^^^
      |
      = help: did you mean `max_replays`?

    [exit 9]
    ");
    insta::assert_snapshot!(world.prodigy(&["policy", "lint", "--format", "github"]), @"
    ::error file=.prodigy/replay-policy.yml,line=3,col=27::there is no reason code `timeot`%0Ahelp: did you mean `timeout`?
    ::error file=.prodigy/replay-policy.yml,line=5,col=5::unknown key `max_replay` in a rule%0Ahelp: did you mean `max_replays`?
    [exit 9]
    ");
    insta::assert_snapshot!(world.prodigy(&["policy", "lint", "--format", "json"]), @r#"
    {"schema_version":1,"valid":false,"diagnostics":[{"severity":"error","file":".prodigy/replay-policy.yml","line":3,"column":27,"end_line":3,"end_column":33,"message":"there is no reason code `timeot`","help":"did you mean `timeout`?"},{"severity":"error","file":".prodigy/replay-policy.yml","line":5,"column":5,"end_line":5,"end_column":15,"message":"unknown key `max_replay` in a rule","help":"did you mean `max_replays`?"}]}
    [exit 9]
    "#);
}

#[test]
fn warnings_leave_a_policy_valid() {
    let world = world_with(
        "version: v1\ndlq_rules:\n  - match: { class: policy }\n    action: require_approval\n    approver_group: security\n  - match: { reason_code: denied }\n    action: never\n",
    );
    insta::assert_snapshot!(world.prodigy(&["policy", "lint"]), @"
    .prodigy/replay-policy.yml: ok (2 rules, then the built-in ones, 2 warnings)
    ----- stderr -----
    warning: group `security` has no members, so nobody may approve
     --> .prodigy/replay-policy.yml:5:21
      |
    5 |     approver_group: security
      |                     ^^^^^^^^
      |
      = help: name them: `approver_groups: { security: { members: [alice@example.com] } }`

    warning: `rule 2` is never reached: `rule 1` matches all of it before
     --> .prodigy/replay-policy.yml:6:12
      |
    6 |   - match: { reason_code: denied }
      |            ^^^^^^^^^^^^^^^^^^^^^^^
      |
      = help: put it first, or take it out
    ");
}

#[test]
fn a_policy_that_is_there_and_cannot_be_used_is_never_taken_for_none() {
    let world = world_with("version: v1\ndefault: {action: never}\n");
    insta::assert_snapshot!(world.prodigy(&["policy", "show"]), @"
    ----- stderr -----
    error: unknown key `default` in the policy
     --> .prodigy/replay-policy.yml:2:1
      |
    2 | default: {action: never}
      | ^^^^^^^
      |
      = help: did you mean `defaults`?

    error: `.prodigy/replay-policy.yml` cannot be used

    hint: `prodigy policy lint` lists what is wrong; until that is fixed, nothing is decided over dead letters
    [exit 9]
    ");
    let path = world.repo().join(".prodigy/replay-policy.yml");
    fs::remove_file(&path).unwrap();
    symlink("nowhere", &path).unwrap();
    insta::assert_snapshot!(world.prodigy(&["policy", "show"]), @"
    ----- stderr -----
    error: `.prodigy/replay-policy.yml` cannot be read
      caused by: there is no file `$ROOT/repo/.prodigy/replay-policy.yml`
    [exit 9]
    ");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    insta::assert_snapshot!(world.prodigy(&["policy", "show"]), @"
    ----- stderr -----
    error: `.prodigy/replay-policy.yml` cannot be read
      caused by: `$ROOT/repo/.prodigy/replay-policy.yml` is a directory, not a file
    [exit 9]
    ");
    fs::remove_dir(&path).unwrap();
    fs::write(&path, b"version: v1 \xff\n").unwrap();
    insta::assert_snapshot!(world.prodigy(&["policy", "show"]), @"
    ----- stderr -----
    error: `.prodigy/replay-policy.yml` cannot be read
      caused by: `$ROOT/repo/.prodigy/replay-policy.yml` is not UTF-8 text: byte 12 is wrong
    [exit 9]
    ");
}

#[test]
fn the_policy_is_shown_with_every_default() {
    let world = world_with(WHOLE);
    insta::assert_snapshot!(world.prodigy(&["policy", "show"]), @"
    policy    .prodigy/replay-policy.yml
    snapshot  sha256:679ddcc656b8a8fb3da9c88e27fec9a980d841594aa6afa9c8da3c239a6d7a04

    rules; the first that matches decides
      rule 1        max_scheduling_retries  auto_replay, at most 2 replays, backoff exponential_jitter
      rule 2        schema_invalid          quarantine, owner integration-team
      rule 3        denied                  require_approval, by platform-governance
      pr-uncertain  push_rejected or unknown_commit_state, step open-pr, 2 attempts or more, signature 0a1b  check_then_replay, absent: auto_replay, committed: adopt, partial: manual_review
      defaults      everything else         manual_review

    limits
      replays_per_item       3
      replays_per_signature  20
      cost_usd               10

    velocity
      rate                 6/min
      concurrency          2
      canary               1, 5
      abort_failure_ratio  0.3

    alerts
      growth_per_min      5
      denial_ratio        0.2
      unknown_commit_age  30m 00s
      unclassified_ratio  0.05
      oldest              1d 00h
      hook                ./notify.sh

    approver groups
      platform-governance  1 of alice@example.com; holds for 30m 00s; not who started the job; not who asks for the replay; signed, with keys of .prodigy/allowed_signers
    ");
    fs::create_dir(world.repo().join("below")).unwrap();
    let below = world
        .prodigy_command(&["policy", "show"])
        .current_dir(world.repo().join("below"))
        .output()
        .unwrap();
    assert_eq!(world.to_output(&below).stdout, world.prodigy(&["policy", "show"]).stdout);
}

#[test]
fn the_policy_is_shown_as_json_for_programs() {
    let shown = world_with(WHOLE).prodigy(&["policy", "show", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(document["schema_version"], 1);
    assert_eq!(document["file"], ".prodigy/replay-policy.yml");
    let snapshot = document["snapshot"].as_str().unwrap();
    let plain = world_with(WHOLE).prodigy(&["policy", "show"]).stdout;
    assert_eq!(plain.lines().nth(1), Some(format!("snapshot  {snapshot}").as_str()));
    let policy = &document["policy"];
    insta::assert_snapshot!(policy["rules"][3], @r#"{"name":"pr-uncertain","match":{"reason_code":["push_rejected","unknown_commit_state"],"step":"open-pr","attempts_gte":2,"signature":"0a1b"},"action":"check_then_replay","max_replays":null,"backoff":"none","owner":null,"approver_group":null,"on_absent":"auto_replay","on_committed":"adopt","on_partial":"manual_review"}"#);
    insta::assert_snapshot!(policy["approver_groups"], @r#"{"platform-governance":{"members":["alice@example.com"],"min_approvals":1,"ttl":1800.0,"distinct_from":["submitter","replayer"],"identity":"signed","allowed_signers":".prodigy/allowed_signers"}}"#);
    let builtin = world().prodigy(&["policy", "show", "--json"]).stdout;
    let builtin: serde_json::Value = serde_json::from_str(&builtin).unwrap();
    assert_eq!(builtin["file"], serde_json::Value::Null);
    assert_ne!(builtin["snapshot"], document["snapshot"]);
}

#[test]
fn every_key_of_a_policy_is_in_its_schema_and_in_these_tests() {
    let schema = world().prodigy(&["schema", "policy"]).stdout;
    let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
    let definitions = schema["definitions"].as_object().unwrap();
    let keys = definitions.values().flat_map(|it| it["properties"].as_object().unwrap().keys());
    let unused: Vec<&String> = keys.filter(|key| !WHOLE.contains(&format!("{key}:"))).collect();
    assert_eq!(unused, [""; 0], "each key is driven by the policy of these tests");
    assert_eq!(schema["allOf"][0]["$ref"], "#/definitions/policy");
}

#[test]
fn cases_are_tested_one_by_one() {
    let cases = r"cases:
  - name: a broken schema waits for a change
    entry: { reason_code: schema_invalid }
    expect: { verdict: quarantine, action: quarantine, rule: rule 2 }
  - name: and is replayed after one
    entry: { reason_code: schema_invalid, changed: true }
    expect: { verdict: replay, action: auto_replay }
  - name: a release lifts both kinds of quarantine
    entry: { reason_code: max_scheduling_retries, quarantined: true, released: true }
    expect: { verdict: replay }
  - name: force does not
    entry: { reason_code: max_scheduling_retries, quarantined: true }
    asked: forced
    expect: { verdict: quarantine }
  - name: a pull request that may be there is looked for
    entry: { reason_code: push_rejected, step: open-pr, attempts: 2, signature: 0A1B2C, commit_state: unknown, evidence: prepared, can_check: true }
    expect: { verdict: check, rule: pr-uncertain }
  - name: what is not there is replayed
    entry: { reason_code: push_rejected, step: open-pr, attempts: 2, signature: 0a1b2c, commit_state: unknown, evidence: absent }
    expect: { verdict: replay, action: auto_replay, rule: pr-uncertain }
  - name: the third replay is one too many
    entry: { reason_code: max_scheduling_retries, replays: 2 }
    expect: { verdict: limit }
  - name: so is one that costs too much
    entry: { reason_code: max_scheduling_retries }
    counters: { signature_replays: 19, cost_usd: 10 }
    expect: { verdict: limit }
  - name: a replay waits after one that failed
    entry: { reason_code: max_scheduling_retries, replays: 1, age: 14s }
    asked: unasked
    expect: { verdict: later }
  - name: somebody has to agree
    entry: { reason_code: denied }
    expect: { verdict: approval }
  - entry: { reason_code: denied, approval: granted }
    expect: { verdict: replay }
  - entry: { reason_code: denied, approval: expired }
    expect: { verdict: approval }
";
    insta::assert_snapshot!(tested(WHOLE, cases), @"
    ok      a broken schema waits for a change
    ok      and is replayed after one
    ok      a release lifts both kinds of quarantine
    ok      force does not
    ok      a pull request that may be there is looked for
    ok      what is not there is replayed
    ok      the third replay is one too many
    ok      so is one that costs too much
    ok      a replay waits after one that failed
    ok      somebody has to agree
    ok      case 11
    ok      case 12
    12 cases: 12 ok, 0 failed
    ");
}

#[test]
fn a_case_that_comes_out_otherwise_says_what_came_out_and_why() {
    let cases = r"cases:
  - name: everything is replayed
    entry: { reason_code: agent_error }
    expect: { verdict: replay, action: auto_replay, rule: pr-uncertain }
  - entry: { reason_code: max_scheduling_retries }
    expect: { verdict: replay }
  - entry: { reason_code: max_scheduling_retries, commit_state: unknown }
    expect: { rule: rule 1, verdict: replay }
";
    insta::assert_snapshot!(tested(WHOLE, cases), @"
    FAILED  everything is replayed
      expected  verdict replay, action auto_replay, rule pr-uncertain
      actual    verdict review, action manual_review, rule defaults
                rule `defaults` says manual_review
    ok      case 2
    FAILED  case 3
      expected  verdict replay, rule rule 1
      actual    verdict review, action auto_replay, rule rule 1
                rule `rule 1` says auto_replay
                something outside may have been changed, and nobody has looked
                what may have happened is never done again without a person's decision, whatever the rules say
    3 cases: 1 ok, 2 failed
    [exit 1]
    ");
}

#[test]
fn cases_and_policy_may_stand_anywhere() {
    let world = world();
    world.write("never.yml", "version: v1\ndefaults: { action: never }\n");
    world.write(
        "cases.yml",
        "cases:\n  - entry: { reason_code: timeout }\n    expect: { verdict: never }\n",
    );
    insta::assert_snapshot!(world.prodigy(&["policy", "test", "cases.yml", "--policy", "never.yml"]), @"
    ok      case 1
    1 case: 1 ok, 0 failed
    ");
    insta::assert_snapshot!(world.prodigy(&["policy", "test", "cases.yml"]), @"
    FAILED  case 1
      expected  verdict never
      actual    verdict replay, action auto_replay, rule built-in:timeout
                rule `built-in:timeout` says auto_replay
    1 case: 0 ok, 1 failed
    [exit 1]
    ");
    insta::assert_snapshot!(world.prodigy(&["policy", "test"]), @"
    ----- stderr -----
    error: there is no file `.prodigy/replay-policy.test.yml`

    hint: `prodigy policy test --help` shows what a case looks like
    [exit 2]
    ");
    insta::assert_snapshot!(world.prodigy(&["policy", "test", "nowhere.yml"]), @"
    ----- stderr -----
    error: there is no file `nowhere.yml`
    [exit 2]
    ");
    insta::assert_snapshot!(world.prodigy(&["policy", "test", "--policy", "nowhere.yml"]), @"
    ----- stderr -----
    error: there is no file `nowhere.yml`
    [exit 2]
    ");
}

#[test]
fn the_case_in_the_help_is_one() {
    let help = world().prodigy(&["policy", "test", "--help"]).stdout;
    let case = help.split("looks like this:").nth(1).unwrap().split("Usage:").next().unwrap();
    insta::assert_snapshot!(tested("version: v1\n", case), @"
    ok      a push that was refused is looked for first
    1 case: 1 ok, 0 failed
    ");
}

#[test]
fn wrong_cases_are_refused_with_their_place() {
    let cases = r"cases:
  - entry: { reason_code: timeot, attempt: 2 }
    expect: { verdict: retry }
  - entry: { age: soon, reason_code: timeout, approval: yes }
    expect: {}
    asked: please
  - expect: { verdict: never }
";
    insta::assert_snapshot!(tested(WHOLE, cases), @"
    ----- stderr -----
    error: `reason_code` must be a reason code such as `timeout`, found `timeot`
     --> .prodigy/replay-policy.test.yml:2:27
      |
    2 |   - entry: { reason_code: timeot, attempt: 2 }
      |                           ^^^^^^
      |
      = help: did you mean `timeout`?

    error: unknown key `attempt` in `entry`
     --> .prodigy/replay-policy.test.yml:2:35
      |
    2 |   - entry: { reason_code: timeot, attempt: 2 }
      |                                   ^^^^^^^
      |
      = help: did you mean `attempts`?

    error: `verdict` must be `replay`, `adopt`, `check`, `approval`, `review`, `quarantine`, `later`, `limit`, `never`, `running`, `closed` or `damaged`, found `retry`
     --> .prodigy/replay-policy.test.yml:3:24
      |
    3 |     expect: { verdict: retry }
      |                        ^^^^^

    error: `soon` is not a duration; write for example `30s` or `1h 30m`
     --> .prodigy/replay-policy.test.yml:4:19
      |
    4 |   - entry: { age: soon, reason_code: timeout, approval: yes }
      |                   ^^^^

    error: `approval` must be `pending`, `granted`, `expired`, `rejected` or `void`, found `yes`
     --> .prodigy/replay-policy.test.yml:4:57
      |
    4 |   - entry: { age: soon, reason_code: timeout, approval: yes }
      |                                                         ^^^

    error: `expect` is empty
     --> .prodigy/replay-policy.test.yml:5:13
      |
    5 |     expect: {}
      |             ^^
      |
      = help: a case without expectation tests nothing: add `verdict: …`

    error: `asked` must be `unasked`, `asked` or `forced`, found `please`
     --> .prodigy/replay-policy.test.yml:6:12
      |
    6 |     asked: please
      |            ^^^^^^

    error: a case needs `entry`
     --> .prodigy/replay-policy.test.yml:7:5
      |
    7 |   - expect: { verdict: never }
      |     ^^^^^^
      |
      = help: add `entry: …`

    error: `.prodigy/replay-policy.test.yml` cannot be used
    [exit 9]
    ");
    insta::assert_snapshot!(tested(WHOLE, "cases: []\n"), @"
    ----- stderr -----
    error: `cases` is empty
     --> .prodigy/replay-policy.test.yml:1:8
      |
    1 | cases: []
      |        ^^

    error: `.prodigy/replay-policy.test.yml` cannot be used
    [exit 9]
    ");
    insta::assert_snapshot!(tested("version: v3\n", "cases: []\n"), @"
    ----- stderr -----
    error: `version` must be `v1`, found `v3`
     --> .prodigy/replay-policy.yml:1:10
      |
    1 | version: v3
      |          ^^
      |
      = help: did you mean `v1`?

    error: `.prodigy/replay-policy.yml` cannot be used

    hint: `prodigy policy lint` lists what is wrong; until that is fixed, nothing is decided over dead letters
    [exit 9]
    ");
}

#[test]
fn rules_that_come_to_nothing_are_pointed_out() {
    let world = world_with(
        "version: v1\ndlq_rules:\n  - match: { reason_code: unknown_commit_state }\n    action: auto_replay\n  - match: { reason_code: timeout, step: open-pr }\n    action: never\n  - match: { step: map.2 }\n    action: never\n",
    );
    let first = "warning: `rule 1` never replays `unknown_commit_state`: nobody knows what was changed outside";
    let linted = world.prodigy(&["policy", "lint"]);
    assert_eq!(linted.code, Some(0), "{linted}");
    assert!(linted.stderr.contains(first), "{linted}");
    // Without a workflow nobody can tell which steps there are.
    assert!(!linted.stderr.contains("has a step"), "{linted}");
    let steps = "    - { id: review, shell: 'true' }\n";
    world.write(
        "flows/work.yml",
        format!("mode: mapreduce\nmap:\n  input: {{ items: [a] }}\n  agent_template:\n{steps}"),
    );
    let linted = world.prodigy(&["policy", "lint"]);
    assert_eq!(linted.code, Some(0), "{linted}");
    for step in ["open-pr", "map.2"] {
        let warning = format!("warning: no workflow of the repository has a step `{step}`");
        assert!(linted.stderr.contains(&warning), "{linted}");
    }
    let more = "    - { id: open-pr, shell: 'true' }\n";
    world.write(
        "flows/work.yml",
        format!(
            "mode: mapreduce\nmap:\n  input: {{ items: [a] }}\n  agent_template:\n{steps}{more}"
        ),
    );
    let linted = world.prodigy(&["policy", "lint"]);
    assert!(!linted.stderr.contains("has a step"), "{linted}");
}
