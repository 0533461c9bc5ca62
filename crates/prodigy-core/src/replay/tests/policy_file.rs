//! Policy files: what is valid, what is not, and what they come to.

use crate::{
    diagnostic::{Diagnostic, Severity, Sources},
    replay::{LoadedPolicy, ReplayPolicy},
    workflow::Rejected,
};

/// The rules of the document that the format comes from.
const FIRST: &str = "\
version: v1
dlq_rules:
  - match:
      reason_code: max_scheduling_retries
    action: auto_replay
    max_replays: 2
    backoff: exponential_jitter
  - match:
      reason_code: schema_invalid
    action: quarantine
    owner: integration-team
  - match:
      reason_code: denied
    action: require_approval
    approver_group: platform-governance
  - match:
      reason_code: unknown_commit_state
    action: manual_review
";

/// The same with all that may be said beyond.
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
  - match: { reason_code: unknown_commit_state }
    action: manual_review
  - id: pr-uncertain                      # optional extensions from here on
    match: { reason_code: [push_rejected, "unknown_*"], class: commit, step: "open-pr", attempts_gte: 2, signature: "…" }
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

fn shown(sources: &Sources, found: &[Diagnostic]) -> String {
    let line = |found: &Diagnostic| {
        let (line, column) = sources.position(found.span).unwrap();
        let severity = match found.severity {
            Severity::Warning => "warning: ",
            Severity::Error => "",
        };
        let help = found.help.as_ref().map_or(String::new(), |help| format!("\n  help: {help}"));
        format!("{line}:{column}: {severity}{}{help}", found.message)
    };
    found.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Shows what is wrong with a file.
fn report(text: &str) -> String {
    match ReplayPolicy::read("policy.yml", text) {
        Ok(LoadedPolicy { sources, warnings, .. }) => shown(&sources, &warnings),
        Err(Rejected { sources, diagnostics }) => shown(&sources, &diagnostics),
    }
}

/// Shows what is wrong with one rule; it begins on line 3.
fn report_rule(rule: &str) -> String {
    report(&format!("version: v1\ndlq_rules:\n{rule}\n"))
}

#[track_caller]
fn read(text: &str) -> ReplayPolicy {
    let loaded = ReplayPolicy::read("policy.yml", text);
    loaded.map_err(|rejected| shown(&rejected.sources, &rejected.diagnostics)).unwrap().policy
}

#[test]
fn the_first_policy_file_is_valid_as_it_stands() {
    insta::assert_snapshot!(report(FIRST), @"
    15:21: warning: group `platform-governance` has no members, so nobody may approve
      help: name them: `approver_groups: { platform-governance: { members: [alice@example.com] } }`
    ");
    let rules = read(FIRST).rules;
    let names: Vec<&str> = rules.iter().take(5).map(|rule| rule.name.as_str()).collect();
    assert_eq!(names, ["rule 1", "rule 2", "rule 3", "rule 4", "built-in:timeout"]);
}

#[test]
fn a_policy_file_with_everything_is_valid_as_it_stands() {
    insta::assert_snapshot!(report(WHOLE), @"
    16:12: warning: `pr-uncertain` is never reached: `rule 4` matches all of it before
      help: put it first, or take it out
    16:28: warning: `push_rejected` is of another class, so it never matches
      help: take it out of the rule, or take out `class`
    16:117: warning: every signature begins like `…`
      help: write its first digits, or take it out
    ");
    let policy = serde_json::to_value(read(WHOLE)).unwrap();
    let (rules, rest) =
        policy.as_object().unwrap().iter().partition::<Vec<_>, _>(|(key, _)| *key == "rules");
    let rules = rules.iter().flat_map(|(_, rules)| rules.as_array().unwrap());
    let rules: Vec<String> = rules.map(ToString::to_string).collect();
    insta::assert_snapshot!(rules.join("\n"), @r#"
    {"name":"rule 1","match":{"reason_code":["max_scheduling_retries"],"step":null,"attempts_gte":null,"signature":null},"action":"auto_replay","max_replays":2,"backoff":"exponential_jitter","owner":null,"approver_group":null,"on_absent":"auto_replay","on_committed":"adopt","on_partial":"manual_review"}
    {"name":"rule 2","match":{"reason_code":["schema_invalid"],"step":null,"attempts_gte":null,"signature":null},"action":"quarantine","max_replays":null,"backoff":"none","owner":"integration-team","approver_group":null,"on_absent":"auto_replay","on_committed":"adopt","on_partial":"manual_review"}
    {"name":"rule 3","match":{"reason_code":["denied"],"step":null,"attempts_gte":null,"signature":null},"action":"require_approval","max_replays":null,"backoff":"none","owner":null,"approver_group":"platform-governance","on_absent":"auto_replay","on_committed":"adopt","on_partial":"manual_review"}
    {"name":"rule 4","match":{"reason_code":["unknown_commit_state"],"step":null,"attempts_gte":null,"signature":null},"action":"manual_review","max_replays":null,"backoff":"none","owner":null,"approver_group":null,"on_absent":"auto_replay","on_committed":"adopt","on_partial":"manual_review"}
    {"name":"pr-uncertain","match":{"reason_code":["unknown_commit_state"],"step":"open-pr","attempts_gte":2,"signature":null},"action":"check_then_replay","max_replays":null,"backoff":"none","owner":null,"approver_group":null,"on_absent":"auto_replay","on_committed":"adopt","on_partial":"manual_review"}
    {"name":"defaults","match":{"reason_code":null,"step":null,"attempts_gte":null,"signature":null},"action":"manual_review","max_replays":null,"backoff":"none","owner":null,"approver_group":null,"on_absent":"auto_replay","on_committed":"adopt","on_partial":"manual_review"}
    "#);
    let rest: Vec<String> = rest.iter().map(|(key, value)| format!("{key}: {value}")).collect();
    insta::assert_snapshot!(rest.join("\n"), @r#"
    limits: {"replays_per_item":3,"replays_per_signature":20,"cost_usd":10.0}
    velocity: {"rate":"6/min","concurrency":2,"canary":[1,5],"abort_failure_ratio":0.3}
    approver_groups: {"platform-governance":{"members":["alice@example.com"],"min_approvals":1,"ttl":1800.0,"distinct_from":["submitter","replayer"],"identity":"signed","allowed_signers":".prodigy/allowed_signers"}}
    alerts: {"growth_per_min":5.0,"denial_ratio":0.2,"unknown_commit_age":1800.0,"unclassified_ratio":0.05,"oldest":86400.0,"hook":"./notify.sh"}
    "#);
}

#[test]
fn a_policy_is_no_longer_than_a_decision_can_bear() {
    let rule = "- {match: {step: a}, action: never}\n";
    let text = |count| format!("version: v1\ndlq_rules:\n{}", rule.repeat(count));
    assert!(ReplayPolicy::read("policy.yml", &text(1_000)).is_ok());
    insta::assert_snapshot!(report(&text(20_000)), @"
    1003:3: a policy has at most 1000 rules
      help: `reason_code`, with lists and `*`, and `class` say more in one rule
    ");
}

#[test]
fn a_file_that_says_nothing_else_leaves_the_built_in_rules() {
    let policy = read("version: v1\n");
    assert_eq!(&policy, ReplayPolicy::builtin());
    assert_eq!(policy.snapshot(), ReplayPolicy::builtin().snapshot());
}

#[test]
fn the_snapshot_names_what_a_policy_means_and_not_how_it_is_written() {
    let name = |text: &str| read(text).snapshot().to_owned();
    let plain = name("version: v1\ndlq_rules: [{match: {class: commit}, action: never}]\n");
    assert_eq!(plain.len(), "sha256:".len() + 64);
    let other = "# a comment\ndlq_rules:\n  - action: never\n    match:\n      class: [commit]\n      reason_code: '*'\nversion: 'v1'\n";
    assert_eq!(name(other), plain);
    let others = [
        "version: v1\ndlq_rules: [{match: {class: commit}, action: manual_review}]\n",
        "version: v1\ndlq_rules: [{id: x, match: {class: commit}, action: never}]\n",
        "version: v1\ndlq_rules: [{match: {class: commit}, action: never}]\ndefaults: {action: never}\n",
        "version: v1\ndlq_rules: [{match: {class: commit}, action: never}]\nlimits: {cost_usd: 1}\n",
        "version: v1\ndlq_rules: [{match: {class: commit}, action: never}]\nalerts: {oldest: 1h}\n",
        "version: v1\ndlq_rules: [{match: {class: commit}, action: never}]\nvelocity: {rate: 1/s}\n",
    ];
    for other in others {
        assert_ne!(name(other), plain, "{other}");
    }
}

#[test]
fn what_is_no_policy_is_refused() {
    insta::assert_snapshot!(report(""), @"1:1: the file is empty");
    insta::assert_snapshot!(report("[]"), @"1:1: the policy must be a mapping, found a list");
    insta::assert_snapshot!(report("dlq_rules: []\n"), @"
    1:1: the policy needs `version`
      help: add `version: v1`
    ");
    insta::assert_snapshot!(report("version: v2\n"), @"
    1:10: `version` must be `v1`, found `v2`
      help: did you mean `v1`?
    ");
    insta::assert_snapshot!(report("version: v1\nversion: v1\n"), @"2:1: key `version` is given twice, in lines 1 and 2");
    insta::assert_snapshot!(report("version: v1\nrules: []\nmap: {}\ntimeout: 3\n"), @"
    2:1: unknown key `rules` in the policy
      help: its keys are `version`, `dlq_rules`, `defaults`, `limits`, `velocity`, `approver_groups` and `alerts`
    3:1: unknown key `map` in the policy
      help: its keys are `version`, `dlq_rules`, `defaults`, `limits`, `velocity`, `approver_groups` and `alerts`
    4:1: unknown key `timeout` in the policy
      help: its keys are `version`, `dlq_rules`, `defaults`, `limits`, `velocity`, `approver_groups` and `alerts`
    ");
    insta::assert_snapshot!(report("version: [\n"), @"2:1: not valid YAML: while parsing a node, did not find expected node content");
}

#[test]
fn a_rule_is_checked_key_by_key() {
    insta::assert_snapshot!(report_rule("  - match: {}\n    action: never"), @"
    3:12: `match` is empty
      help: `defaults` is for all dead letters that no rule matches
    ");
    insta::assert_snapshot!(report_rule("  - action: never"), @"
    3:5: a rule needs `match`
      help: add `match: …`
    ");
    insta::assert_snapshot!(report_rule("  - match: {reason_code: timeout}"), @"
    3:5: a rule needs `action`
      help: add `action: never`
    ");
    insta::assert_snapshot!(report_rule("  - match: {reason: timeout}\n    acton: never\n    max_replay: 2"), @"
    3:13: unknown key `reason` in `match`
      help: did you mean `reason_code`?
    4:5: unknown key `acton` in a rule
      help: did you mean `action`?
    5:5: unknown key `max_replay` in a rule
      help: did you mean `max_replays`?
    ");
    insta::assert_snapshot!(report_rule("  - match: {reason_code: timeout}\n    action: auto_retry"), @"
    4:13: `action` must be `auto_replay`, `check_then_replay`, `require_approval`, `manual_review`, `quarantine` or `never`, found `auto_retry`
      help: did you mean `auto_replay`?
    ");
    insta::assert_snapshot!(report_rule("  - match: {reason_code: timeout}\n    action: adopt"), @"4:13: `action` must be `auto_replay`, `check_then_replay`, `require_approval`, `manual_review`, `quarantine` or `never`, found `adopt`");
    insta::assert_snapshot!(report_rule("  - match: {reason_code: timeout}\n    action: auto_replay\n    max_replays: 0\n    backoff: linear"), @"
    5:18: `max_replays` must be a whole number from 1, found `0`
    6:14: `backoff` must be `none`, `fixed`, `exponential` or `exponential_jitter`, found `linear`
    ");
    insta::assert_snapshot!(report_rule("  - match: {reason_code: timeout}\n    action: auto_replay\n    max_replays: two"), @"5:18: `max_replays` must be a whole number from 1, found `two`");
}

#[test]
fn what_a_rule_matches_is_checked() {
    let with = |matches: &str| report_rule(&format!("  - match: {{{matches}}}\n    action: never"));
    insta::assert_snapshot!(with("reason_code: timeot"), @"
    3:26: there is no reason code `timeot`
      help: did you mean `timeout`?
    ");
    insta::assert_snapshot!(with("reason_code: [timeout, 'unknwn_*', 7, xyz]"), @"
    3:36: no reason code fits `unknwn_*`
      help: did you mean `unknown_*`?
    3:48: there is no reason code `7`
      help: `prodigy schema dlq-item` lists the reason codes
    3:51: there is no reason code `xyz`
      help: `prodigy schema dlq-item` lists the reason codes
    ");
    insta::assert_snapshot!(with("reason_code: []"), @"3:26: `reason_code` is empty");
    insta::assert_snapshot!(with("class: transent"), @"
    3:20: `class` must be `transient`, `resource`, `poison`, `agent`, `integration`, `policy`, `commit`, `control`, `internal` or a list, found `transent`
      help: did you mean `transient`?
    ");
    insta::assert_snapshot!(with("class: [commit, 3]"), @"3:29: each element of `class` must be `transient`, `resource`, `poison`, `agent`, `integration`, `policy`, `commit`, `control` or `internal`, found `3`");
    insta::assert_snapshot!(with("class: commit, reason_code: timeout"), @"
    3:12: warning: `rule 1` never matches: no reason code fulfils all of it
    3:41: warning: `timeout` is of another class, so it never matches
      help: take it out of the rule, or take out `class`
    ");
    insta::assert_snapshot!(with("step: ''"), @"
    3:19: `step` is empty
      help: name a step, or take it out
    ");
    insta::assert_snapshot!(with("attempts_gte: 0"), @"3:27: `attempts_gte` must be a whole number from 1, found `0`");
    insta::assert_snapshot!(with("signature: xyz"), @"
    3:24: `signature` must be up to 16 hexadecimal digits
      help: `prodigy dlq show` tells the signature of an entry
    ");
    insta::assert_snapshot!(with("signature: ''"), @"
    3:24: `signature` must be up to 16 hexadecimal digits
      help: `prodigy dlq show` tells the signature of an entry
    ");
    insta::assert_snapshot!(with("signature: 0123456789abcdef0"), @"
    3:24: `signature` must be up to 16 hexadecimal digits
      help: `prodigy dlq show` tells the signature of an entry
    ");
    assert_eq!(with("signature: 0123ABC…"), "");
    assert_eq!(with("signature: 1e5"), "");
}

#[test]
fn a_key_that_means_nothing_with_the_action_is_an_error() {
    let with =
        |rest: &str| report_rule(&format!("  - match: {{reason_code: timeout}}\n    {rest}"));
    insta::assert_snapshot!(with("action: auto_replay\n    on_absent: auto_replay\n    approver_group: x"), @"
    5:5: `on_absent` has no effect with `action: auto_replay`
      help: it belongs to `action: check_then_replay`
    6:5: `approver_group` has no effect with `action: auto_replay`
      help: `action: require_approval` asks a group
    6:21: warning: group `x` has no members, so nobody may approve
      help: name them: `approver_groups: { x: { members: [alice@example.com] } }`
    ");
    insta::assert_snapshot!(with("action: manual_review\n    max_replays: 2\n    backoff: fixed"), @"
    5:5: `max_replays` has no effect with `action: manual_review`
      help: only a replay that a rule allows is counted and waits
    6:5: `backoff` has no effect with `action: manual_review`
      help: only a replay that a rule allows is counted and waits
    ");
    insta::assert_snapshot!(with("action: check_then_replay\n    on_absent: adopt\n    on_committed: auto_replay\n    on_partial: auto_replay"), @"
    5:16: `on_absent` must be `auto_replay`, `require_approval`, `manual_review`, `quarantine` or `never`, found `adopt`
    6:19: `on_committed` must be `adopt`, `require_approval`, `manual_review`, `quarantine` or `never`, found `auto_replay`
    7:17: `on_partial` must be `require_approval`, `manual_review`, `quarantine` or `never`, found `auto_replay`
    ");
    insta::assert_snapshot!(with("action: check_then_replay\n    approver_group: x"), @"
    5:5: `approver_group` has no effect with `action: check_then_replay`
      help: `action: require_approval` asks a group
    5:21: warning: group `x` has no members, so nobody may approve
      help: name them: `approver_groups: { x: { members: [alice@example.com] } }`
    ");
    insta::assert_snapshot!(with("action: check_then_replay\n    on_partial: require_approval\n    approver_group: x"), @"
    6:21: warning: group `x` has no members, so nobody may approve
      help: name them: `approver_groups: { x: { members: [alice@example.com] } }`
    ");
    insta::assert_snapshot!(report("version: v1\ndefaults: {action: never, on_absent: never, match: {}}\n"), @"
    2:27: `on_absent` has no effect with `action: never`
      help: it belongs to `action: check_then_replay`
    2:45: unknown key `match` in `defaults`
      help: `match` belongs in a rule
    ");
}

#[test]
fn rules_have_names_of_their_own() {
    let rule = |id: &str| format!("  - id: {id}\n    match: {{step: x}}\n    action: never\n");
    let rules: String = ["a", "a", "defaults", "'b c'", "''"].map(rule).concat();
    insta::assert_snapshot!(report_rule(&rules), @"
    6:9: two rules have the id `a`
      help: each rule has a name of its own
    9:9: a rule cannot have the id `defaults`
      help: the rule for all other dead letters has this name
    12:9: this cannot be the id of a rule
      help: use letters, digits, `-`, `_` and `.`
    15:9: this cannot be the id of a rule
      help: use letters, digits, `-`, `_` and `.`
    ");
}

#[test]
fn a_rule_that_is_never_reached_is_pointed_out() {
    let rules = "  - match: {class: transient, attempts_gte: 2}
    action: never
  - match: {reason_code: [timeout, stalled], attempts_gte: 3}
    action: auto_replay
  - match: {reason_code: timeout, attempts_gte: 1}
    action: auto_replay
  - match: {signature: ab}
    action: never
  - match: {signature: abc, step: build}
    action: auto_replay
  - match: {step: build}
    action: auto_replay
  - match: {step: build, class: [commit, poison]}
    action: auto_replay
  - id: split
    match: {reason_code: [timeout, schema_invalid], step: build}
    action: auto_replay";
    insta::assert_snapshot!(report_rule(rules), @"
    5:12: warning: `rule 2` is never reached: `rule 1` matches all of it before
      help: put it first, or take it out
    11:12: warning: `rule 5` is never reached: `rule 4` matches all of it before
      help: put it first, or take it out
    15:12: warning: `rule 7` is never reached: `rule 6` matches all of it before
      help: put it first, or take it out
    15:12: warning: `rule 7` never replays `unknown_commit_state`: nobody knows what was changed outside
      help: `check_then_replay` finds out first, `manual_review` leaves it to a person
    18:12: warning: `split` is never reached: `rule 6` matches all of it before
      help: put it first, or take it out
    ");
}

#[test]
fn groups_are_checked() {
    let with = |group: &str, named: &str| {
        report(&format!(
            "version: v1\ndlq_rules:\n  - match: {{reason_code: denied}}\n    action: require_approval\n    approver_group: {named}\napprover_groups:\n  security: {{{group}}}\n"
        ))
    };
    assert_eq!(with("members: [a, b], min_approvals: 2", "security"), "");
    insta::assert_snapshot!(with("members: [a]", "securty"), @"
    5:21: there is no group `securty`
      help: did you mean `security`?
    ");
    insta::assert_snapshot!(with("members: [a]", "xyz"), @"
    5:21: there is no group `xyz`
      help: describe `xyz` in `approver_groups`
    ");
    insta::assert_snapshot!(with("members: [a, b], min_approvals: 3", "security"), @"
    7:46: 3 approvals needed, and the group has 2
      help: add members, or ask for fewer
    ");
    insta::assert_snapshot!(with("members: [a, '', a], min_approvals: 0", "security"), @"
    7:27: a member has no name
    7:31: `a` is listed twice
      help: take one out
    7:50: `min_approvals` must be a whole number from 1, found `0`
    ");
    for nobody in ["members: []", "min_approvals: 1"] {
        let warning = "7:3: warning: group `security` has no members, so nobody may approve\n  help: name them: `approver_groups: { security: { members: [alice@example.com] } }`";
        assert_eq!(with(nobody, "security").trim_end(), warning);
    }
    insta::assert_snapshot!(with("members: [a], identity: signed", "security"), @"
    7:38: signatures cannot be checked without `allowed_signers`
      help: add `allowed_signers: .prodigy/allowed_signers`
    ");
    insta::assert_snapshot!(with("members: [a], allowed_signers: x", "security"), @"
    7:28: `allowed_signers` has no effect without `identity: signed`
      help: add `identity: signed`
    ");
    insta::assert_snapshot!(with("members: [a], ttl: 0s, distinct_from: [author]", "security"), @"
    7:33: `ttl` must be longer than nothing
      help: an agreement has to hold until the replay begins
    7:53: each element of `distinct_from` must be `submitter` or `replayer`, found `author`
    ");
    insta::assert_snapshot!(with("members: [a], ttl: soon", "security"), @"7:33: `soon` is not a duration; write for example `30s` or `1h 30m`");
}

#[test]
fn numbers_times_and_rates_are_checked() {
    insta::assert_snapshot!(report("version: v1\nlimits: {replays_per_item: -1, cost_usd: lots, per_day: 3}\n"), @"
    2:28: `replays_per_item` must be a whole number from 0, found `-1`
    2:42: `cost_usd` must be a number from 0, found `lots`
    2:48: unknown key `per_day` in `limits`
      help: its keys are `replays_per_item`, `replays_per_signature` and `cost_usd`
    ");
    insta::assert_snapshot!(report("version: v1\nvelocity: {rate: fast, concurrency: 0, canary: [], abort_failure_ratio: 1.5}\n"), @"
    2:18: `fast` is not a rate; write for example `6/min` or `1/s`
    2:37: `concurrency` must be a whole number from 1, found `0`
    2:48: `canary` is empty
    2:73: `abort_failure_ratio` must be a number from 0 to 1, found `1.5`
    ");
    insta::assert_snapshot!(report("version: v1\nvelocity: {rate: 6/fortnight, canary: [1, 0]}\n"), @"
    2:18: `fortnight` is not a unit of time; use `ms`, `s`, `m`, `h`, `d` or `w`
    2:43: each element of `canary` must be a whole number from 1, found `0`
    ");
    insta::assert_snapshot!(report("version: v1\nalerts: {oldest: 5 parsecs, denial_ratio: 20, hook: ''}\n"), @"
    2:18: `parsecs` is not a unit of time; use `ms`, `s`, `m`, `h`, `d` or `w`
    2:43: `denial_ratio` must be a number from 0 to 1, found `20`
    2:53: `hook` must be a command, found empty text
    ");
}

#[test]
fn a_group_holds_for_the_rules_that_name_it() {
    let policy = read(WHOLE);
    let rule = policy.rules.iter().find(|rule| rule.name == "rule 3").unwrap();
    assert_eq!(policy.group(rule).members, ["alice@example.com"]);
    let other = policy.rules.first().unwrap();
    assert_eq!(policy.group(other), &crate::replay::ApproverGroup::default());
}
