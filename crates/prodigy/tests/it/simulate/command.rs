//! `prodigy simulate`.

use std::fs;

use insta::assert_snapshot;
use prodigy_testkit::{CommandOutput, TestEnv, crash::check_processes};
use rustix::process::Signal;
use serde_json::Value;

use crate::fixture::{
    map_job::{assert_code, map_world},
    workflow::{SpawnedProdigy, stable},
};

const WORKFLOW: &str = r#"
setup:
  - shell: git config --get remote.origin.url > /dev/null && git push --quiet origin HEAD:pushed
map:
  input: { items: [a, b, c] }
  max_parallel: 2
  agent_template:
    - claude: "Fix ${item}"
      id: fix
      commit_required: true
    - shell: touch "ROOT/outside-${item_id}"
      id: publish
      effects: external
reduce:
  - shell: test -e simulated && test -n "$PRODIGY_HOME"
error_policy:
  retry_config: { max_attempts: 2, backoff: { type: fixed, delay: 10m } }
"#;

/// Makes a world with a remote repository and a scratch directory of its own.
pub(crate) fn world(workflow: &str) -> TestEnv {
    let world = map_world(workflow);
    fs::create_dir(world.root().join("scratch")).unwrap();
    world.git(&["clone", "--quiet", "--bare", ".", "../remote.git"]);
    world.git(&["remote", "add", "origin", "../remote.git"]);
    world.git(&["fetch", "--quiet", "origin"]);
    let scratch = world.root().join("scratch").display().to_string();
    world.env("TMPDIR", &scratch)
}

/// Returns all that a person could notice of a change.
fn everything(world: &TestEnv) -> String {
    let remote = world.root().join("remote.git").display().to_string();
    let mut outside: Vec<_> = fs::read_dir(world.root())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    outside.sort();
    [
        world.git(&["for-each-ref"]),
        world.git(&["status", "--porcelain", "--ignored"]),
        world.git(&["worktree", "list"]),
        world.git(&["config", "--local", "--list"]),
        world.git(&["count-objects", "-v"]),
        world.git(&["--git-dir", &remote, "for-each-ref"]),
        outside.join("\n"),
    ]
    .join("\n--\n")
}

fn is_scratch_empty(world: &TestEnv) -> bool {
    fs::read_dir(world.root().join("scratch")).unwrap().next().is_none()
}

/// Rehearses the workflow and checks that nothing is changed and nothing left.
#[track_caller]
pub(crate) fn simulate(world: &TestEnv, more: &[&str]) -> CommandOutput {
    let before = everything(world);
    let args = [&["simulate", "workflow.yml"], more].concat();
    let seen = world.prodigy(&args);
    assert_eq!(everything(world), before, "{seen}");
    assert!(!world.home().exists(), "{seen}");
    assert!(is_scratch_empty(world), "{seen}");
    check_processes(world).unwrap();
    seen
}

#[test]
fn a_workflow_is_rehearsed_and_nothing_is_changed() {
    let seen = simulate(&world(WORKFLOW), &["--max-parallel", "1"]);
    assert_snapshot!(stable(&seen), @r#"
    ----- stderr -----
    warning: `git push` changes something outside, and the step does not say so
     --> workflow.yml:3:62
      |
    3 |   - shell: git config --get remote.origin.url > /dev/null && git push --quiet origin HEAD:pushed
      |                                                              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
      = help: declare `effects: external`, best with a `check`; `effects: local` if it is harmless

    · job rehearsal · workflow.yml · mapreduce
    ✓ setup.1 shell: git config --get remote.origin.url > /dev/null && git push…  [time]
    · 3 items
    ✓ item-001  [time] · 1 commit
    ✓ item-002  [time] · 1 commit
    ✓ item-003  [time] · 1 commit
    ✓ map: 3/3 done  [time]
    ✓ reduce.1 shell: test -e simulated && test -n "$PRODIGY_HOME"  [time]

    completed · 3 of 3 items done · [time]
    items: 3 successful
    would be merged into main
    policies: none had to act
    would run, and did not:
      3 × shell: touch "$ROOT/outside-${item_id}"
    simulated cost: $0.00
    this was a rehearsal: your repository is unchanged; commands may have had outside effects
    next: prodigy run workflow.yml
    "#);
}

#[test]
fn what_goes_wrong_and_what_the_policies_do_is_told() {
    let world = world(WORKFLOW);
    world.write(
        "faults.yml",
        r"
default: { cost_usd: 0.5 }
rules:
  - { item: item-001, step: fix, fault: overloaded, times: 1 }
  - { item: item-002, step: fix, fault: crash }
  - { item: item-003, step: publish, fault: error, answer: no route to host }
",
    );
    let flags = ["--faults", "faults.yml", "--speed", "10000", "--max-parallel", "1"];
    let seen = simulate(&world, &flags);
    assert_snapshot!(stable(&seen), @r#"
    ----- stderr -----
    warning: `git push` changes something outside, and the step does not say so
     --> workflow.yml:3:62
      |
    3 |   - shell: git config --get remote.origin.url > /dev/null && git push --quiet origin HEAD:pushed
      |                                                              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
      = help: declare `effects: external`, best with a `check`; `effects: local` if it is harmless

    note: 1 uncommitted change in your checkout is not part of this run
    · job rehearsal · workflow.yml · mapreduce
    ✓ setup.1 shell: git config --get remote.origin.url > /dev/null && git push…  [time]
    · 3 items
    ✓ item-001  [time] · 1 commit
    ~ map: 1/3 done · 2 failed · 2 in DLQ  [time]
    ✓ reduce.1 shell: test -e simulated && test -n "$PRODIGY_HOME"  [time]

    completed with failures · 1 of 3 items done · [time] · cost at least $1.50
    items: 1 successful, 2 in the DLQ, 2 tried more than once
    failures:
      agent_crashed: the agent was ended by signal 9  item-002
      network_error: no route to host  item-003
    cost: at least $1.50 per completed item · at least $1.00 spent on failed attempts
    would be merged into main
    policies:
      tried again: 1 × provider_overloaded, 1 × agent_crashed
      dead letter: item-002 after 2 attempts: agent_crashed
      dead letter: item-003 after 1 attempt: network_error
    would run, and did not:
      1 × shell: touch "$ROOT/outside-${item_id}"
    simulated cost: $1.50
    this was a rehearsal: your repository is unchanged; commands may have had outside effects
    next: prodigy run workflow.yml
    "#);
    let seen = simulate(&world, &[&flags[..], &["--json", "--fail-on-dlq"]].concat());
    assert_code(&seen, 3);
    assert_snapshot!(seen.stdout, @r#"
    {
      "schema_version": 1,
      "status": "completed_with_failures",
      "exit_code": 3,
      "retries": {
        "provider_overloaded": 1,
        "agent_crashed": 1
      },
      "circuit_breaker": {
        "opened": 0,
        "open": false
      },
      "pauses": [],
      "released": 0,
      "pace_changes": 0,
      "merge_conflicts": 0,
      "skipped": 0,
      "dead_letters": [
        {
          "item_id": "item-002",
          "attempts": 2,
          "reason_code": "agent_crashed",
          "message": "the agent was ended by signal 9"
        },
        {
          "item_id": "item-003",
          "attempts": 1,
          "reason_code": "network_error",
          "message": "no route to host"
        }
      ],
      "stopped": null,
      "would_run": [
        {
          "step": "shell: touch \"$ROOT/outside-${item_id}\"",
          "times": 1
        }
      ],
      "cost_usd": 1.5,
      "tokens": {},
      "kept": null
    }
    "#);
}

#[test]
fn the_seed_decides_over_what_is_random() {
    let world = world(
        r#"
map:
  input: { items: [1, 2, 3, 4, 5, 6, 7, 8] }
  max_parallel: 4
  agent_template:
    - claude: "Fix ${item}"
"#,
    );
    world.write("faults.yml", "rules: [{ fault: error, probability: 0.5 }]\n");
    let dead = |seed: &str| {
        let seen = simulate(&world, &["--faults", "faults.yml", "--json", "--seed", seed]);
        let document: Value = serde_json::from_str(&seen.stdout).unwrap();
        let mut dead: Vec<String> = document["dead_letters"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["item_id"].as_str().unwrap().to_owned())
            .collect();
        dead.sort();
        dead
    };
    let first = dead("1");
    assert_eq!(first, dead("1"));
    assert_ne!(first, dead("2"));
    assert!((1..8).contains(&first.len()), "{first:?}");
}

#[test]
fn a_rehearsal_can_be_kept_and_looked_at() {
    let world = world(WORKFLOW);
    let before = world.git(&["for-each-ref"]);
    let seen = world.prodigy(&["simulate", "workflow.yml", "--keep", "--json"]);
    assert_code(&seen, 0);
    let document: Value = serde_json::from_str(&seen.stdout).unwrap();
    let root = world.root().display().to_string();
    let kept = document["kept"].as_str().unwrap().replace("$ROOT", &root);
    let home = format!("{kept}/home");
    let mut verify = world.prodigy_command(&["--home", &home, "verify", "rehearsal"]);
    let verified = verify.current_dir(format!("{kept}/repo")).output().unwrap();
    assert_code(&world.to_output(&verified), 0);
    assert_eq!(world.git(&["for-each-ref"]), before);
}

#[test]
fn a_rehearsal_that_is_stopped_leaves_nothing() {
    let world = world(WORKFLOW);
    world.write("faults.yml", "rules: [{ fault: hang }]\n");
    let before = everything(&world);
    let mut started =
        SpawnedProdigy::new(&world, &["simulate", "workflow.yml", "--faults", "faults.yml"]);
    let is_told = || {
        let journals = glob(&world, "scratch/*/home/events/repo/rehearsal/*.jsonl");
        journals.iter().any(|path| {
            fs::read_to_string(path).unwrap_or_default().contains("agent_session_started")
        })
    };
    started.until(&world, "an agent hangs", is_told);
    started.signal(Signal::INT);
    let seen = started.seen(&world);
    assert_code(&seen, 130);
    assert_eq!(everything(&world), before, "{seen}");
    assert!(is_scratch_empty(&world), "{seen}");
    check_processes(&world).unwrap();
}

/// Returns the files below the world that a pattern with `*` for one name fits.
fn glob(world: &TestEnv, pattern: &str) -> Vec<std::path::PathBuf> {
    let mut found = vec![world.root().to_owned()];
    for part in pattern.split('/') {
        let suffix = part.strip_prefix('*');
        found = found
            .iter()
            .flat_map(|path| match suffix {
                Some(suffix) => fs::read_dir(path)
                    .into_iter()
                    .flatten()
                    .flatten()
                    .map(|entry| entry.path())
                    .filter(|path| path.to_string_lossy().ends_with(suffix))
                    .collect(),
                None => vec![path.join(part)],
            })
            .collect();
    }
    found
}

#[test]
fn the_exit_code_is_that_of_the_run() {
    let world = world(
        r#"
map:
  input: { items: [1, 2, 3] }
  max_parallel: 1
  agent_template:
    - claude: "Fix ${item}"
error_policy: { max_failures: 1 }
"#,
    );
    world.write("stop.yml", "rules: [{ fault: error }]\n");
    assert_code(&simulate(&world, &["--faults", "stop.yml"]), 5);
    world.write("limit.yml", "rules: [{ fault: usage_limit, reset_after: 1h }]\n");
    assert_code(&simulate(&world, &["--faults", "limit.yml", "--no-wait"]), 75);
    let seen = simulate(&world, &["--faults", "limit.yml", "--speed", "3600"]);
    assert_code(&seen, 0);
    world.write("money.yml", "default: { cost_usd: 2 }\n");
    assert_code(&simulate(&world, &["--faults", "money.yml", "--budget-usd", "3"]), 6);
}

#[test]
fn a_simulated_agent_keeps_its_rules_behind_those_of_the_rehearsal() {
    let world = world(
        r#"
agents:
  claude:
    type: simulated
    rules: [{ fault: error, times: 1, edits: [{ path: "{item}.txt" }], commit: "Own work" }]
map:
  input: { items: [1, 2] }
  agent_template:
    - claude: "Fix ${item}"
reduce:
  - shell: test -e item-001.txt && test "$(git log -1 --format=%s -- item-001.txt)" = "Own work"
error_policy:
  retry_config: { max_attempts: 2, backoff: { type: fixed, delay: 10ms } }
"#,
    );
    world.write("faults.yml", "rules: [{ item: item-002, fault: refusal }]\n");
    let seen = simulate(&world, &["--faults", "faults.yml", "--json"]);
    assert_code(&seen, 0);
    let document: Value = serde_json::from_str(&seen.stdout).unwrap();
    assert_eq!(document["retries"], serde_json::json!({"agent_error": 1, "agent_refused": 1}));
    assert_eq!(document["dead_letters"][0]["item_id"], "item-002");
}

#[test]
fn a_file_of_faults_with_mistakes_is_refused_with_their_places() {
    let world = world(WORKFLOW);
    world.write(
        "faults.yml",
        "seed: -1\ndefaults: { cost_usd: 1 }\nrules:\n  - { fault: rate_limit }\n  - { fault: crash, reset_after: 5m }\n  - { fault: usage_limit, resets_at: soon }\n",
    );
    let seen = simulate(&world, &["--faults", "faults.yml"]);
    assert_snapshot!(seen, @"
    ----- stderr -----
    warning: `git push` changes something outside, and the step does not say so
     --> workflow.yml:3:62
      |
    3 |   - shell: git config --get remote.origin.url > /dev/null && git push --quiet origin HEAD:pushed
      |                                                              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
      = help: declare `effects: external`, best with a `check`; `effects: local` if it is harmless

    error: `seed` must be a whole number from 0, found `-1`
     --> faults.yml:1:7
      |
    1 | seed: -1
      |       ^^

    error: unknown key `defaults` in the file of faults
     --> faults.yml:2:1
      |
    2 | defaults: { cost_usd: 1 }
      | ^^^^^^^^
      |
      = help: did you mean `default`?

    error: `fault` must be `crash`, `hang`, `lie`, `error`, `permission_denied`, `denied_worked_around`, `rate_limited`, `overloaded`, `server_error`, `auth_failed`, `usage_limit`, `out_of_credits`, `refusal`, `max_turns`, `over_budget`, `garbage`, `zero_turns`, `partial`, `no_commit`, `conflict`, `schema_mismatch`, `not_satisfied`, `slow` or `huge`, found `rate_limit`
     --> faults.yml:4:14
      |
    4 |   - { fault: rate_limit }
      |              ^^^^^^^^^^
      |
      = help: did you mean `rate_limited`?

    error: `reset_after` has no effect with `fault: crash`
     --> faults.yml:5:21
      |
    5 |   - { fault: crash, reset_after: 5m }
      |                     ^^^^^^^^^^^
      |
      = help: it belongs to `fault: usage_limit`

    error: `soon` is not a moment
     --> faults.yml:6:38
      |
    6 |   - { fault: usage_limit, resets_at: soon }
      |                                      ^^^^
      |
      = help: write it like `2026-01-02T03:04:05Z`

    error: `faults.yml` cannot be used
    [exit 9]
    ");
    let seen = simulate(&world, &["--faults", "nowhere.yml"]);
    assert_snapshot!(seen, @"
    ----- stderr -----
    warning: `git push` changes something outside, and the step does not say so
     --> workflow.yml:3:62
      |
    3 |   - shell: git config --get remote.origin.url > /dev/null && git push --quiet origin HEAD:pushed
      |                                                              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
      = help: declare `effects: external`, best with a `check`; `effects: local` if it is harmless

    error: there is no file `nowhere.yml`

    hint: `prodigy schema faults` shows what it may hold
    [exit 2]
    ");
}

#[test]
fn an_agent_that_nobody_configured_is_refused_as_in_a_run() {
    let world = world(
        "map:\n  input: { items: [1] }\n  agent_template:\n    - agent: { use: reviewer, prompt: Look }\n",
    );
    assert_snapshot!(simulate(&world, &[]), @"
    ----- stderr -----
    error: no agent named `reviewer` is configured, and `reviewer: Look` needs it

    hint: add `agents: { reviewer: { type: command, command: [PROGRAM] } }` to the workflow or to `.prodigy/config.yml`
    [exit 9]
    ");
}

#[test]
fn what_worktrees_get_from_the_checkout_is_there() {
    let world = world(
        r#"
map:
  input: { items: [1] }
  worktree: { copy: [.env], link: [cache] }
  agent_template:
    - shell: test "$(cat .env)" = secret && echo more >> cache/file
"#,
    );
    world.write(".gitignore", ".env\ncache/\n");
    world.commit_all("Ignore");
    world.write(".env", "secret\n");
    world.write("cache/file", "one\n");
    assert_code(&simulate(&world, &["--fail-on-dlq"]), 0);
    assert_eq!(world.read("cache/file"), "one\n");
}
