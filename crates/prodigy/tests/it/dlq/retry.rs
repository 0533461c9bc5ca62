//! `prodigy dlq retry`, and the replays of `prodigy resume`.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use std::fs;

use insta::assert_snapshot;
use prodigy_testkit::{CommandOutput, TestEnv};

use crate::{
    fixture::{
        map_job::{assert_code, go, letter, map_world, of_type, trace_of},
        workflow::{records, stable},
    },
    resume::interrupted::assert_nothing_runs,
};

/// Each item does what the file `does.ITEM` beside the repository says, if there is one, and
/// commits a file of its own.
pub(crate) const WORKFLOW: &str = r#"
map:
  input: { items: [a, b, c] }
  max_parallel: 2
  agent_template:
    - shell: sh ROOT/work ${item}
      auto_commit: true
reduce:
  - shell: 'echo "${map.successful} of ${map.total}" >> counts'
    auto_commit: true
"#;

/// Makes a world in which items fail.
pub(crate) fn failing(workflow: &str, items: &[&str]) -> TestEnv {
    let world = map_world(workflow);
    let script = "echo \"$1 $PRODIGY_ATTEMPT\" >> ROOT/log\n\
                  if test -e ROOT/does.$1; then . ROOT/does.$1; fi\necho \"$1\" > \"$1.txt\"\n";
    let script = script.replace("ROOT", &world.root().display().to_string());
    fs::write(world.root().join("work"), script).unwrap();
    for item in items {
        does(&world, item, "exit 3");
    }
    world
}

/// Has an item do something before it does its work.
pub(crate) fn does(world: &TestEnv, item: &str, what: &str) {
    let text = what.replace("ROOT", &world.root().display().to_string());
    fs::write(world.root().join(format!("does.{item}")), text).unwrap();
}

/// Lets an item succeed from now on.
pub(crate) fn mend(world: &TestEnv, item: &str) {
    fs::remove_file(world.root().join(format!("does.{item}"))).unwrap();
}

/// Has an item fail with a reason code of its own.
pub(crate) fn fails_with(world: &TestEnv, item: &str, code: &str) {
    let said = format!("echo '{{\"reason_code\": \"{code}\"}}' > \"$PRODIGY_RESULT_FILE\"; exit 1");
    does(world, item, &said);
}

/// Replays dead letters of the job.
pub(crate) fn retry(world: &TestEnv, more: &[&str]) -> CommandOutput {
    world.prodigy(&[&["dlq", "retry", "job"], more].concat())
}

/// Returns which items were replayed, in order.
pub(crate) fn replayed(world: &TestEnv) -> String {
    let items = of_type(world, "replay_started");
    items.iter().map(|record| record["item_id"].as_str().unwrap()).collect::<Vec<_>>().join(" ")
}

/// Returns where each dead letter stands.
pub(crate) fn statuses(world: &TestEnv) -> String {
    let listed = world.prodigy(&["dlq", "list", "job", "--all", "--json"]).stdout;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let line = |entry: &serde_json::Value| {
        let text = |key: &str| entry[key].as_str().unwrap().to_owned();
        format!("{} {}", text("item_id"), text("status"))
    };
    let mut lines: Vec<_> = listed["entries"].as_array().unwrap().iter().map(line).collect();
    lines.sort();
    lines.join(", ")
}

/// Checks that the journal, the files and the repository agree.
#[track_caller]
pub(crate) fn assert_whole(world: &TestEnv) {
    assert_code(&world.prodigy(&["verify", "job"]), 0);
    assert_code(&world.prodigy(&["dlq", "fsck", "job", "--dry-run"]), 0);
    assert_eq!(world.git(&["status", "--porcelain"]), "");
    assert_nothing_runs(world);
}

#[test]
fn a_dead_letter_of_a_completed_job_is_replayed_and_merged() {
    let world = failing(WORKFLOW, &["b"]);
    assert_code(&go(&world), 0);
    assert_eq!(statuses(&world), "item-002 open");
    mend(&world, "b");
    assert_snapshot!(stable(&retry(&world, &[])), @"
    ----- stderr -----
    · job job resumed · 2 of 3 items done
    ✓ item-002  [time] · 1 commit
    ✓ map: 3/3 done  [time]

    completed · [time]
    replayed: 1 resolved, 0 back in the DLQ
    job: 3 successful, 1 tried more than once
    merged into main at [commit]
    next: prodigy events job
    ");
    assert_snapshot!(trace_of(&world, "item-002"), @"
        item-002 agent_started 1
        item-002 agent_failed 1 command_failed then dead_letter
        item-002 item_dead_lettered 1 command_failed
        item-002 replay_started 1
        item-002 agent_started 2
        item-002 agent_completed 2
        ");
    assert_eq!(statuses(&world), "item-002 resolved");
    let entry = letter(&world, "item-002");
    assert_eq!((&entry["replays"], &entry["replay_status"]), (&1.into(), &"closed".into()));
    assert_eq!(entry["failure_history"].as_array().unwrap().len(), 1);
    assert_eq!(world.read("b.txt"), "b\n");
    // The reduce phase had run, and nobody asked for it again.
    assert_eq!(world.read("counts"), "2 of 3\n");
    assert_eq!(world.git(&["branch", "--list", "prodigy/*"]), "");
    assert_whole(&world);
    assert_snapshot!(stable(&retry(&world, &[])), @"
        ----- stderr -----
        nothing to replay: no matching dead letters in job `job`
        ");
}

#[test]
fn an_item_that_fails_again_gets_one_more_record_in_its_history() {
    let world = failing(WORKFLOW, &["b"]);
    assert_code(&go(&world), 0);
    let before = letter(&world, "item-002");
    does(&world, "b", "exit 4");
    let seen = retry(&world, &["--fail-on-dlq", "--reason", "the server is back"]);
    assert_snapshot!(stable(&seen), @"
    ----- stderr -----
    · job job resumed · 2 of 3 items done
    ~ map: 2/3 done · 1 failed · 1 in DLQ  [time]

    completed with failures · [time]
    replayed: 0 resolved, 1 back in the DLQ
    job: 2 successful, 1 in the DLQ, 1 tried more than once
    failures:
      command_failed: `sh $ROOT/work ${item}` failed with exit code 4  item-002
    nothing to merge: the steps made no commit
    dead letters: $ROOT/home/dlq/repo/job/mapreduce/dlq/job/items
    next: prodigy dlq show job
    [exit 3]
    ");
    assert_eq!(statuses(&world), "item-002 open");
    let entry = letter(&world, "item-002");
    let history = entry["failure_history"].as_array().unwrap();
    assert_eq!(history[0], before["failure_history"][0]);
    let short = |detail: &serde_json::Value| {
        format!("{} {} {}", detail["attempt_number"], detail["exit_code"], detail["agent_id"])
    };
    assert_eq!(
        history.iter().map(short).collect::<Vec<_>>(),
        ["1 3 \"agent-2\"", "2 4 \"agent-1\""]
    );
    for same in ["correlation_id", "idempotency_key", "first_attempt", "input_hash", "item_data"] {
        assert_eq!(entry[same], before[same], "{same}");
    }
    assert_eq!((&entry["attempts"], &entry["replays"]), (&2.into(), &1.into()));
    let claim = &of_type(&world, "replay_started")[0];
    assert_eq!((&claim["replay"], &claim["reason"]), (&1.into(), &"the server is back".into()));
    assert_whole(&world);
}

#[test]
fn only_what_is_named_or_matches_is_replayed() {
    let all = ["item-001", "item-002", "item-003"];
    let signature = "signature";
    for (args, expected) in [
        (vec![], "item-001 item-002 item-003"),
        (vec!["item-003", "item-001", "item-003"], "item-001 item-003"),
        (vec!["--filter", "item == 'b'"], "item-002"),
        (vec!["--filter", "item_id != 'item-002' && attempts == 1"], "item-001 item-003"),
        (vec!["item-001", "item-002", "--filter", "item == 'b'"], "item-002"),
        (vec!["--limit", "2"], "two"),
        (vec!["--signature", signature], "item-003"),
        (vec!["--filter", "item == 'x'"], ""),
    ] {
        let world = failing(WORKFLOW, &["a", "b"]);
        does(&world, "c", "echo 'error: no such crate' >&2; exit 9");
        assert_code(&go(&world), 1);
        let found = letter(&world, "item-003")["error_signature"].as_str().unwrap().to_owned();
        let args: Vec<_> = args
            .into_iter()
            .map(|word| if word == signature { &found[..6] } else { word })
            .collect();
        // Nothing is resolved, if anything is replayed at all.
        let code = if expected.is_empty() { 0 } else { 3 };
        assert_code(&retry(&world, &args), code);
        let replayed = replayed(&world);
        if expected == "two" {
            assert_eq!(replayed.split(' ').count(), 2, "{replayed}");
        } else {
            assert_eq!(replayed, expected, "{args:?}");
        }
        assert_eq!(statuses(&world), all.map(|item| format!("{item} open")).join(", "));
        assert_whole(&world);
    }
}

#[test]
fn what_cannot_be_meant_is_a_mistake() {
    let world = failing(WORKFLOW, &["b"]);
    assert_code(&go(&world), 0);
    let before = records(&world).len();
    assert_snapshot!(retry(&world, &["item-001"]), @"
        ----- stderr -----
        error: job `job` has no dead letter of item `item-001`

        hint: `prodigy dlq list job --all` lists those it has
        [exit 2]
        ");
    assert_snapshot!(retry(&world, &["--filter", "item ="]), @"
        ----- stderr -----
        error: `--filter` at character 7: expected a value, found the end
        [exit 2]
        ");
    assert_snapshot!(retry(&world, &["--filter", "priority > 5"]), @"
        ----- stderr -----
        error: an entry has no field `priority`

        hint: write `item.priority` for the item's data; the entry's fields are item_id, status, reason_code, class, error_signature, error_pattern, attempts, replays, last_attempt, reprocess_eligible, manual_review_required, item_data, job_id, topic, replay_status, cause_code, reason, first_attempt, failure_count, failure_history, worktree_artifacts, commit_state, effects, not_before, owner, closed, correlation_id, idempotency_key, input_hash, workflow_hash, policy_snapshot, schema_version, revision, journal_seq, record_hash
        [exit 2]
        ");
    assert_snapshot!(retry(&world, &["--signature", "xyz"]), @"
        ----- stderr -----
        error: `xyz` is not a signature

        hint: a signature has up to 16 hexadecimal digits; `prodigy dlq analyze` lists them
        [exit 2]
        ");
    assert_snapshot!(retry(&world, &["--force", "item-002"]), @"
        ----- stderr -----
        error: the following required arguments were not provided:
          --reason <TEXT>

        Usage: prodigy dlq retry --reason <TEXT> --force <ITEM> --home <DIR> <JOB> [ITEMS]...

        For more information, try '--help'.
        [exit 2]
        ");
    assert_snapshot!(retry(&world, &["--json"]), @"
        ----- stderr -----
        error: the following required arguments were not provided:
          --dry-run

        Usage: prodigy dlq retry --dry-run --json --home <DIR> <JOB> [ITEMS]...

        For more information, try '--help'.
        [exit 2]
        ");
    assert_snapshot!(world.prodigy(&["dlq", "retry", "other"]), @"
        ----- stderr -----
        error: there is no job `other`

        hint: `prodigy jobs` lists the jobs there are
        [exit 2]
        ");
    assert_eq!(records(&world).len(), before);
}

#[test]
fn a_dry_run_says_what_would_happen_and_changes_nothing() {
    let one_by_one = WORKFLOW.replace("max_parallel: 2", "max_parallel: 1");
    let world = failing(&one_by_one, &["a", "b"]);
    fails_with(&world, "c", "agent_error");
    assert_code(&go(&world), 1);
    let everything = || {
        let files = ["events", "dlq", "state"].map(|name| world.home().join(name));
        let script = "find \"$@\" -type f | sort | xargs cat";
        let read = world.command("sh").args(["-c", script, "sh"]).args(files).output().unwrap();
        String::from_utf8_lossy(&read.stdout).into_owned()
    };
    let before = everything();
    assert_snapshot!(retry(&world, &["--dry-run"]), @"
        review     item-003  rule `built-in:agent_error` says manual_review
        replay     item-002  rule `built-in:command_failed` says auto_replay
        replay     item-001  rule `built-in:command_failed` says auto_replay
        ----- stderr -----

        replay     2 entries by rule `built-in:command_failed`
        review     1 entry by rule `built-in:agent_error`
                   then: prodigy dlq retry job --force item-003 --reason TEXT
        nothing was changed
        ");
    let document = retry(&world, &["--dry-run", "--json"]).stdout;
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert_snapshot!(format!("{:#}", document["entries"][0]), @r#"
        {
          "item_id": "item-003",
          "reason_code": "agent_error",
          "error_signature": "e4786c71af5ec449",
          "verdict": "review",
          "rule": "built-in:agent_error",
          "why": [
            "rule `built-in:agent_error` says manual_review"
          ],
          "forced": false,
          "not_before": null,
          "next": "prodigy dlq retry job --force item-003 --reason TEXT"
        }
        "#);
    assert_eq!(document["summary"].as_array().unwrap().len(), 2);
    assert_snapshot!(retry(&world, &["--dry-run", "item-003", "item-003"]), @"
        review     item-003  rule `built-in:agent_error` says manual_review
        ----- stderr -----

        review     1 entry by rule `built-in:agent_error`
                   then: prodigy dlq retry job --force item-003 --reason TEXT
        nothing was changed
        [exit 10]
        ");
    assert_snapshot!(
        retry(&world, &["--dry-run", "--force", "item-003", "--reason", "looked at it"]), @"
    replay     item-003  forced  rule `built-in:agent_error` says manual_review; somebody takes the decision on themselves
    ----- stderr -----

    replay     1 entry by rule `built-in:agent_error`
    nothing was changed
    ");
    assert_eq!(everything(), before);
    assert_eq!(replayed(&world), "");
}

#[test]
fn what_a_reason_speaks_against_is_listed_with_what_would_help() {
    let world = failing(WORKFLOW, &[]);
    for (item, code) in [("a", "agent_error"), ("b", "auth_failed"), ("c", "cancelled")] {
        fails_with(&world, item, code);
    }
    assert_code(&go(&world), 1);
    let before = records(&world).len();
    assert_snapshot!(retry(&world, &[]), @"
    ----- stderr -----
    not replayed: 1 entry: item-001: needs manual review
      rule `built-in:agent_error` says manual_review
      then: prodigy dlq retry job --force item-001 --reason TEXT
    not replayed: 1 entry: item-002: quarantined until changed or released
      rule `built-in:auth_failed` says quarantine; nothing changed since it failed
      then: prodigy dlq release job item-002 --reason TEXT
    not replayed: 1 entry: item-003: it is not replayed
      rule `built-in:cancelled` says never
      then: prodigy dlq drop job item-003 --reason TEXT
    nothing was replayed
    [exit 10]
    ");
    // What somebody decided against cannot be forced, and what would fail again neither.
    assert_snapshot!(retry(&world, &["--force", "item-003", "--reason", "please"]), @"
        ----- stderr -----
        not replayed: 1 entry: item-003: it is not replayed
          rule `built-in:cancelled` says never
          then: prodigy dlq drop job item-003 --reason TEXT
        nothing was replayed
        [exit 10]
        ");
    assert_snapshot!(retry(&world, &["--force", "item-002", "--reason", "please"]), @"
    ----- stderr -----
    not replayed: 1 entry: item-002: quarantined until changed or released
      rule `built-in:auth_failed` says quarantine; nothing changed since it failed
      then: prodigy dlq release job item-002 --reason TEXT
    nothing was replayed
    [exit 10]
    ");
    assert_eq!(records(&world).len(), before);
    mend(&world, "a");
    assert_snapshot!(
        stable(&retry(&world, &["--force", "item-001", "--reason", "looked at it"])), @"
    ----- stderr -----
    · job job resumed · 0 of 3 items done
    ✓ item-001  [time] · 1 commit
    ~ map: 1/3 done · 2 failed · 2 in DLQ  [time]

    completed with failures · [time]
    replayed: 1 resolved, 0 back in the DLQ
    job: 1 successful, 2 in the DLQ, 1 tried more than once
    merged into main at [commit]
    dead letters: $ROOT/home/dlq/repo/job/mapreduce/dlq/job/items
    next: prodigy dlq show job
    ");
    assert_eq!(statuses(&world), "item-001 resolved, item-002 open, item-003 open");
    let claim = &of_type(&world, "replay_started")[0];
    assert_eq!((&claim["forced"], &claim["reason"]), (&true.into(), &"looked at it".into()));
    assert_whole(&world);
}

#[test]
fn what_may_be_replayed_is_although_something_else_may_not() {
    let world = failing(WORKFLOW, &["a"]);
    fails_with(&world, "b", "schema_invalid");
    assert_code(&go(&world), 0);
    mend(&world, "a");
    assert_snapshot!(stable(&retry(&world, &["--verbose"])), @"
    ----- stderr -----
    · item-001  command_failed after 1 attempt: CommandFailed::sh <path> ${item} failed with exit code <n>
    not replayed: 1 entry: item-002: quarantined until changed or released
      rule `built-in:schema_invalid` says quarantine; nothing changed since it failed
      then: prodigy dlq edit job item-002 --set FIELD=VALUE --reason TEXT
    · job job resumed · 1 of 3 items done
    ✓ item-001  [time] · 1 commit
    ~ map: 2/3 done · 1 failed · 1 in DLQ  [time]

    completed with failures · [time]
    replayed: 1 resolved, 0 back in the DLQ
    job: 2 successful, 1 in the DLQ, 1 tried more than once
    merged into main at [commit]
    dead letters: $ROOT/home/dlq/repo/job/mapreduce/dlq/job/items
    next: prodigy dlq show job
    ");
    assert_eq!(statuses(&world), "item-001 resolved, item-002 open");
    assert_whole(&world);
}

#[test]
fn the_reduce_phase_runs_again_if_somebody_wants_it() {
    let world = failing(WORKFLOW, &["b"]);
    assert_code(&go(&world), 0);
    mend(&world, "b");
    assert_snapshot!(stable(&retry(&world, &["--rerun-reduce"])), @r#"
    ----- stderr -----
    · job job resumed · 2 of 3 items done
    ✓ item-002  [time] · 1 commit
    ✓ map: 3/3 done  [time]
    ✓ reduce.1 shell: echo "${map.successful} of ${map.total}" >> counts  [time]

    completed · [time]
    replayed: 1 resolved, 0 back in the DLQ
    job: 3 successful, 1 tried more than once
    merged into main at [commit]
    next: prodigy events job
    "#);
    assert_eq!(world.read("counts"), "2 of 3\n3 of 3\n");
    assert_whole(&world);
}

#[test]
fn a_replay_reports_its_own_figures() {
    let agents =
        "agents: { claude: { type: simulated, rules: [{ answer: done, cost_usd: 0.5 }] } }\n";
    let workflow = format!(
        "{agents}{}",
        WORKFLOW.replace("    - shell: sh", "    - claude: go\n    - shell: sh")
    );
    let world = failing(&workflow, &["a", "b"]);
    does(&world, "c", "echo 'error: no such crate' >&2; exit 9");
    assert_code(&go(&world), 1);
    mend(&world, "b");
    let seen = retry(&world, &["item-001", "item-002"]);
    assert_snapshot!(stable(&seen), @"
    ----- stderr -----
    · job job resumed · 0 of 3 items done
    ✓ item-002  [time] · 1 commit
    ~ map: 1/3 done · 2 failed · 2 in DLQ  [time]

    completed with failures · [time] · cost $1.00
    replayed: 1 resolved, 1 back in the DLQ
    job: 1 successful, 2 in the DLQ, 2 tried more than once
    failures:
      command_failed: `sh $ROOT/work ${item}` failed with exit code 3  item-001
    cost: $1.00 per completed item · $0.50 spent on failed attempts
    merged into main at [commit]
    dead letters: $ROOT/home/dlq/repo/job/mapreduce/dlq/job/items
    next: prodigy dlq show job
    ");
}
