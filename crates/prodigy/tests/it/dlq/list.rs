//! `prodigy dlq list`, and choosing dead letters.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use insta::assert_snapshot;
use serde_json::Value;

use crate::{
    fixture::{
        dead_letters::{failed_tests, five, put, write},
        journal::{completed, layout, record, started, world},
    },
    security::hostile_values::on_a_terminal_of,
};

/// Returns the items that a listing shows.
fn items(world: &prodigy_testkit::TestEnv, more: &[&str]) -> Vec<String> {
    let mut args = vec!["dlq", "list", "job", "--json"];
    args.extend(more);
    let seen = world.prodigy(&args);
    assert_eq!(seen.code, Some(0), "{seen}");
    let document: Value = serde_json::from_str(&seen.stdout).unwrap();
    let entries = document["entries"].as_array().unwrap();
    entries.iter().map(|entry| entry["item_id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn open_entries_are_listed_the_newest_first() {
    let world = five();
    assert_snapshot!(world.prodigy(&["dlq", "list", "job"]), @"
    ITEM      REASON          REPLAY      TRIES  LAST FAILURE      CAUSE
    item-002  command_failed  yes         2      2026-01-02 03:40  `cargo test` ended with exit code <n>
    item-003  template_error  quarantine  2      2026-01-02 03:30  `<s>` has no value
    item-001  command_failed  yes         2      2026-01-02 03:10  `cargo test` ended with exit code <n>
    ----- stderr -----

    next:
      see one   prodigy dlq show job item-002
      by cause  prodigy dlq analyze job
    ");
    assert_snapshot!(world.prodigy(&["dlq", "ls", "job", "--all", "--limit", "2"]), @"
    ITEM      STATUS   REASON          REPLAY  TRIES  LAST FAILURE      CAUSE
    item-005  dropped  command_failed  closed  2      2026-01-02 03:50  `cargo test` ended with exit code <n>
    item-002  open     command_failed  yes     2      2026-01-02 03:40  `cargo test` ended with exit code <n>
    ----- stderr -----

    and more; `--limit 10` shows more of them

    next:
      see one   prodigy dlq show job item-005
      by cause  prodigy dlq analyze job
    ");
    assert_snapshot!(world.prodigy(&["dlq", "list", "job", "--limit", "1"]), @"
    ITEM      REASON          REPLAY  TRIES  LAST FAILURE      CAUSE
    item-002  command_failed  yes     2      2026-01-02 03:40  `cargo test` ended with exit code <n>
    ----- stderr -----

    and 2 more; `--limit 3` shows them all

    next:
      see one   prodigy dlq show job item-002
      by cause  prodigy dlq analyze job
    ");
    assert_snapshot!(world.prodigy(&["dlq", "list", "job", "--limit", "1", "--json"]), @r#"
    {
      "schema_version": 1,
      "entries": [
        {
          "job_id": "job",
          "verdict": "replay",
          "item_id": "item-002",
          "status": "open",
          "reason_code": "command_failed",
          "class": "agent",
          "error_signature": "c0ffeec0ffeec0ff",
          "error_pattern": "CommandFailed::`cargo test` ended with exit code <n>",
          "attempts": 2,
          "replays": 0,
          "last_attempt": "2026-01-02T03:40:05Z",
          "reprocess_eligible": true,
          "manual_review_required": false,
          "standing": {
            "topic": "map.2",
            "step": "shell: cargo test",
            "commit_state": "local",
            "ran_with": "09f29a1fdda4de46",
            "replay_cost_usd": 0.0
          },
          "owner": null
        }
      ],
      "more": true
    }
    "#);
}

#[test]
fn flags_and_expressions_choose_entries() {
    let world = five();
    let open = ["item-002", "item-003", "item-001"];
    assert_eq!(items(&world, &[]), open);
    assert_eq!(items(&world, &["--all"]).len(), 5);
    assert_eq!(items(&world, &["--reason", "template_error"]), ["item-003"]);
    assert_eq!(items(&world, &["--reason", "timeout,template_error"]), ["item-003"]);
    assert_eq!(items(&world, &["--class", "agent"]), ["item-002", "item-001"]);
    assert_eq!(items(&world, &["--signature", "C0FFEE"]), ["item-002", "item-001"]);
    assert_eq!(items(&world, &["--signature", "0ffee"]), [""; 0]);
    assert_eq!(items(&world, &["--since", "2026-01-02T03:30:00Z"]), ["item-002", "item-003"]);
    assert_eq!(items(&world, &["--since", "1s"]), [""; 0]);
    let filter = |text| items(&world, &["--filter", text]);
    assert_eq!(filter("item.priority >= 5"), ["item-002", "item-003"]);
    assert_eq!(filter("item.priority >= 5 && reason_code == 'command_failed'"), ["item-002"]);
    assert_eq!(filter("item.file matches '001'"), ["item-001"]);
    assert_eq!(filter("attempts == 2 && class == 'poison'"), ["item-003"]);
    assert_eq!(filter("failure_history[0].cost_usd > 1"), [""; 0]);
    assert_eq!(items(&world, &["--all", "--filter", "status == 'dropped'"]), ["item-005"]);
    assert_eq!(items(&world, &["--class", "agent", "--limit", "1"]), ["item-002"]);
}

#[test]
fn what_makes_no_sense_is_refused_with_what_would() {
    let world = five();
    let list = |more: &[&str]| world.prodigy(&[&["dlq", "list", "job"], more].concat());
    assert_snapshot!(list(&["--filter", "item.priority >"]), @"
    ----- stderr -----
    error: `--filter` at character 16: expected a value, found the end
    [exit 2]
    ");
    assert_snapshot!(list(&["--filter", "priority > 1"]), @"
    ----- stderr -----
    error: an entry has no field `priority`

    hint: write `item.priority` for the item's data; the entry's fields are item_id, status, reason_code, class, error_signature, error_pattern, attempts, replays, last_attempt, reprocess_eligible, manual_review_required, item_data, job_id, topic, replay_status, cause_code, reason, first_attempt, failure_count, failure_history, worktree_artifacts, commit_state, effects, not_before, owner, closed, correlation_id, idempotency_key, input_hash, workflow_hash, policy_snapshot, schema_version, revision, journal_seq, record_hash
    [exit 2]
    ");
    assert_snapshot!(list(&["--class", "bad"]), @"
    ----- stderr -----
    error: there is no class `bad`

    hint: the classes are transient, resource, poison, agent, integration, policy, commit, control, internal
    [exit 2]
    ");
    assert_snapshot!(list(&["--signature", "xyz"]), @"
    ----- stderr -----
    error: `xyz` is not a signature

    hint: a signature has up to 16 hexadecimal digits; `prodigy dlq analyze` lists them
    [exit 2]
    ");
    assert_snapshot!(list(&["--since", "soon"]), @"
    ----- stderr -----
    error: `soon` is neither a time nor a duration

    hint: write `--since 10m` or `--since 2026-01-31T08:00:00Z`
    [exit 2]
    ");
    assert_eq!(list(&["--reason", "bad"]).code, Some(2));
    assert_eq!(list(&["--limit", "0"]).code, Some(2));
    assert_snapshot!(world.prodigy(&["dlq", "list", "other"]), @"
    ----- stderr -----
    error: there is no job `other`

    hint: `prodigy jobs` lists the jobs there are
    [exit 2]
    ");
}

#[test]
fn without_a_job_the_dead_letters_of_all_jobs_are_listed() {
    let world = five();
    record(&layout(&world), "newer", &[(60_000, started())]);
    put(&world, "newer", failed_tests("item-001", 5, 1));
    record(&layout(&world), "fine", &completed());
    assert_snapshot!(world.prodigy(&["dlq", "list"]), @"
    job newer: 1 open
    ITEM      REASON          REPLAY  TRIES  LAST FAILURE      CAUSE
    item-001  command_failed  yes     2      2026-01-02 03:05  `cargo test` ended with exit code <n>

    job job: 3 open
    ITEM      REASON          REPLAY      TRIES  LAST FAILURE      CAUSE
    item-002  command_failed  yes         2      2026-01-02 03:40  `cargo test` ended with exit code <n>
    item-003  template_error  quarantine  2      2026-01-02 03:30  `<s>` has no value
    item-001  command_failed  yes         2      2026-01-02 03:10  `cargo test` ended with exit code <n>
    ----- stderr -----

    next:
      see one   prodigy dlq show newer item-001
      by cause  prodigy dlq analyze
    ");
    assert_snapshot!(world.prodigy(&["dlq", "list", "--limit", "2"]), @"
    job newer: 1 open
    ITEM      REASON          REPLAY  TRIES  LAST FAILURE      CAUSE
    item-001  command_failed  yes     2      2026-01-02 03:05  `cargo test` ended with exit code <n>

    job job: 3 open
    ITEM      REASON          REPLAY  TRIES  LAST FAILURE      CAUSE
    item-002  command_failed  yes     2      2026-01-02 03:40  `cargo test` ended with exit code <n>
    ----- stderr -----

    and 2 more; `--limit 4` shows them all

    next:
      see one   prodigy dlq show newer item-001
      by cause  prodigy dlq analyze
    ");
    assert_snapshot!(world.prodigy(&["dlq", "list", "fine"]), @"
    ----- stderr -----
    job `fine` has no open dead letters; `--all` also lists closed ones
    ");
}

#[test]
fn where_nothing_was_given_up_nothing_is_listed() {
    let world = world();
    assert_snapshot!(world.prodigy(&["dlq", "list"]), @"
    ----- stderr -----
    there are no open dead letters; `--all` also lists closed ones
    ");
    assert_snapshot!(world.prodigy(&["dlq", "list", "--json"]), @r#"
    {
      "schema_version": 1,
      "entries": [],
      "more": false
    }
    "#);
}

#[test]
fn a_file_that_cannot_be_read_is_named_and_does_not_hide_the_others() {
    let world = five();
    write(&world, "job", "item-009", "{\"schema_version\": 2, \"item_id\": \n");
    let path = layout(&world).dlq_item(&"job".parse().unwrap(), &"item-001".parse().unwrap());
    let text = std::fs::read_to_string(&path).unwrap().replace("exit code 101", "exit code 0");
    std::fs::write(&path, text).unwrap();
    assert_snapshot!(world.prodigy(&["dlq", "list", "job"]), @"
    ITEM      REASON          REPLAY      TRIES  LAST FAILURE      CAUSE
    item-002  command_failed  yes         2      2026-01-02 03:40  `cargo test` ended with exit code <n>
    item-003  template_error  quarantine  2      2026-01-02 03:30  `<s>` has no value
    ----- stderr -----
    warning: job `job`: `$ROOT/home/dlq/repo/job/mapreduce/dlq/job/items/item-001.json` cannot be used: it was changed since it was written
    warning: job `job`: `$ROOT/home/dlq/repo/job/mapreduce/dlq/job/items/item-009.json` cannot be used: it is not a dead letter: EOF while parsing a value at line 2 column 0

    next:
      see one   prodigy dlq show job item-002
      by cause  prodigy dlq analyze job
    ");
}

#[test]
fn entries_of_older_programs_are_listed_and_shown() {
    let world = world();
    let history = r#"{"item_id":"item-7","item_data":{"a":1},"first_attempt":"2025-01-02T03:00:00Z","last_attempt":"2025-01-02T03:04:05Z","failure_count":2,"failure_history":[{"attempt_number":2,"timestamp":"2025-01-02T03:04:05Z","error_type":"Timeout","error_message":"timed out after 300 seconds","stack_trace":null,"agent_id":"agent-7","step_failed":"claude: /fix","duration_ms":300000}],"error_signature":"Timeout::x","reprocess_eligible":true,"manual_review_required":false}"#;
    let flat = r#"{"item_id":"item-8","item_data":"x","failure_reason":"exit code 1","error_details":"no such file","failed_at":"2025-01-02T03:05:05Z","attempt_count":1}"#;
    write(&world, "old", "item-7", history);
    write(&world, "old", "item-8", flat);
    assert_snapshot!(world.prodigy(&["dlq", "list", "old"]), @"
    ITEM    REASON        REPLAY  TRIES  LAST FAILURE      CAUSE
    item-8  unclassified  no      1      2025-01-02 03:05  exit code <n>
    item-7  timeout       no      2      2025-01-02 03:04  timed out after <n> seconds
    ----- stderr -----

    next:
      see one   prodigy dlq show old item-8
      by cause  prodigy dlq analyze old
    ");
    assert_snapshot!(world.prodigy(&["dlq", "show", "old", "item-7"]), @r#"
    item        item-7 of job old
    status      open
    reason      timeout (transient)
    message     timed out after 300 seconds
    cause       Timeout::timed out after <n> seconds [af6bb5a69ec4f6d7]
    where       step claude: /fix, attempt 2, agent-7
    failed      2 times, from 2025-01-02T03:00:00Z to 2025-01-02T03:04:05Z
    replay      it cannot be replayed: its job has no journal
    to do       export its item and run it in a new job, with `input: entries.json` and `json_path: '$[*].item_data'`

    attempts
      #  ENDED             TOOK    REASON   MESSAGE
      2  2025-01-02 03:04  5m 00s  timeout  timed out after 300 seconds

    item
      {
        "a": 1
      }
    ----- stderr -----

    next:
      export it    prodigy dlq export old --format json --output entries.json
      run it anew  prodigy run WORKFLOW
    "#);
    assert_snapshot!(world.prodigy(&["dlq", "retry", "old"]), @"
    ----- stderr -----
    error: job `old` has no journal: its dead letters can be read and not be replayed

    hint: `prodigy dlq export old --format json --output entries.json`, then `prodigy run WORKFLOW` with `input: entries.json` and `json_path: '$[*].item_data'`
    [exit 2]
    ");
    let listed = world.prodigy(&["dlq", "list", "old", "--json"]).stdout;
    assert!(!listed.contains("\"reprocess_eligible\": true"), "{listed}");
    let analyzed = world.prodigy(&["dlq", "analyze", "old"]).stdout;
    assert!(analyzed.contains("it cannot be replayed as it is"), "{analyzed}");
    assert_snapshot!(world.prodigy(&["dlq", "inspect", "old", "item-8"]), @r#"
    {
      "item_id": "item-8",
      "item_data": "x",
      "failure_reason": "exit code 1",
      "error_details": "no such file",
      "failed_at": "2025-01-02T03:05:05Z",
      "attempt_count": 1
    }
    ----- stderr -----
    file: $ROOT/home/dlq/repo/old/mapreduce/dlq/old/items/item-8.json
    hash: none: it has an older shape
    "#);
}

#[test]
fn a_listing_fits_the_terminal() {
    let world = five();
    let shown = |columns| {
        let args = ["dlq", "list", "job", "--all"];
        let (seen, code) = on_a_terminal_of(&world, &args, (columns, 24), |_| {});
        assert_eq!(code, 0, "{seen}");
        let table = seen.replace("\r\n", "\n");
        table.split("\n\n").next().unwrap().to_owned()
    };
    assert_snapshot!(shown(120), @"
    ITEM      STATUS    REASON          REPLAY      TRIES  LAST FAILURE      CAUSE
    item-005  dropped   command_failed  closed      2      2026-01-02 03:50  `cargo test` ended with exit code <n>
    item-002  open      command_failed  yes         2      2026-01-02 03:40  `cargo test` ended with exit code <n>
    item-003  open      template_error  quarantine  2      2026-01-02 03:30  `<s>` has no value
    item-004  resolved  command_failed  closed      2      2026-01-02 03:20  `cargo test` ended with exit code <n>
    item-001  open      command_failed  yes         2      2026-01-02 03:10  `cargo test` ended with exit code <n>
    ");
    assert_snapshot!(shown(80), @"
    ITEM      STATUS    REASON          CAUSE
    item-005  dropped   command_failed  `cargo test` ended with exit code <n>
    item-002  open      command_failed  `cargo test` ended with exit code <n>
    item-003  open      template_error  `<s>` has no value
    item-004  resolved  command_failed  `cargo test` ended with exit code <n>
    item-001  open      command_failed  `cargo test` ended with exit code <n>
    ");
    assert_snapshot!(shown(50), @"
    ITEM      STATUS    REASON          CAUSE
    item-005  dropped   command_failed  `cargo test` …
    item-002  open      command_failed  `cargo test` …
    item-003  open      template_error  `<s>` has no …
    item-004  resolved  command_failed  `cargo test` …
    item-001  open      command_failed  `cargo test` …
    ");
}
