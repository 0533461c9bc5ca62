//! `prodigy dlq status`.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use std::{fs, os::unix::fs::PermissionsExt as _, time::Duration};

use insta::assert_snapshot;
use prodigy_core::{
    Timestamp,
    audit::{AuditAction, AuditOutcome, IdentityKind, NewAuditRecord},
};
use prodigy_engine::clock;
use prodigy_testkit::TestEnv;
use regex::Regex;
use serde_json::{Value, json};

use crate::{
    fixture::{
        dead_letters::{failed_tests, put, write},
        journal::{layout, record, started, world},
    },
    replay::audit::append_at,
};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

/// Returns the moment so many seconds, and half a minute for slow machines, ago.
fn ago(seconds: u64) -> Timestamp {
    clock::now().checked_sub(Duration::from_secs(seconds + MINUTE / 2)).unwrap()
}

/// Returns a world with a job that has no dead letters.
fn empty() -> TestEnv {
    let world = world();
    record(&layout(&world), "job", &[(0, started())]);
    world
}

/// Adds dead letters that died so many seconds ago.
fn die(world: &TestEnv, job: &str, count: usize, seconds: u64, change: &[(&str, Value)]) {
    for number in 1..=count {
        let mut entry = failed_tests(&format!("item-{seconds}-{number}"), 10, 1);
        entry["last_attempt"] = json!(ago(seconds));
        for (name, value) in change {
            entry[*name] = value.clone();
        }
        put(world, job, entry);
    }
}

/// Adds what was decided over replays, just now.
fn decide(world: &TestEnv, outcome: AuditOutcome, entries: u64) {
    let job = "job".parse().unwrap();
    let said = NewAuditRecord::new("ada", IdentityKind::Asserted, AuditAction::Replay, job);
    let said = NewAuditRecord { entries: Some(entries), outcome, ..said };
    append_at(world, clock::now(), vec![said]);
}

fn check(world: &TestEnv) -> String {
    world.prodigy(&["dlq", "status", "--check"]).to_string()
}

/// Takes the moments out of a document.
fn timeless(text: &str) -> String {
    let moments = Regex::new(r"\d{4}-\d\d-\d\dT[\d:.]+Z").unwrap();
    let seconds = Regex::new(r#"((seconds|value)(\{[^}]*\})?"?:? )\d+"#).unwrap();
    let text = moments.replace_all(text, "[time]");
    seconds.replace_all(&text, "${1}[seconds]").into_owned()
}

#[test]
fn a_repository_without_dead_letters_is_well() {
    let world = empty();
    assert_snapshot!(world.prodigy(&["dlq", "status"]), @"
    open             0
    growth           0.0 per minute in the last 10 minutes, 0.00 in the day before
    denials          no replays in the last hour
    oldest           none
    unknown commits  0
    unclassified     0
    audit trail      ok, 0 records
    ");
    assert_snapshot!(check(&world), @"ok: 0 open");
}

#[test]
fn all_numbers_are_shown_and_a_long_queue_alone_is_no_alert() {
    let world = empty();
    die(&world, "job", 30, 3 * HOUR, &[]);
    die(&world, "job", 1, MINUTE, &[("reason_code", json!("unclassified"))]);
    die(&world, "job", 1, 2 * MINUTE, &[("commit_state", json!("unknown"))]);
    die(&world, "job", 2, 48 * HOUR, &[("status", json!("resolved"))]);
    decide(&world, AuditOutcome::Intended, 9);
    decide(&world, AuditOutcome::Denied, 1);
    assert_snapshot!(world.prodigy(&["dlq", "status"]), @"
    open             32
    growth           0.2 per minute in the last 10 minutes, 0.02 in the day before
    denials          1 of 10 replays in the last hour (10%)
    oldest           3h 00m ago: job item-10800-1
    unknown commits  1, the oldest 2m ago: job item-120-1
    unclassified     1 (3.1%)
    audit trail      ok, 2 records
    ");
    assert_snapshot!(check(&world), @"ok: 32 open");
}

#[test]
fn every_alert_is_one_line_with_what_to_do_next() {
    let world = empty();
    die(&world, "job", 52, 2 * MINUTE, &[("reason_code", json!("unclassified"))]);
    die(&world, "other", 1, 25 * HOUR, &[]);
    decide(&world, AuditOutcome::Denied, 5);
    assert_snapshot!(check(&world), @"
    alert growth: 5.2 items failed per minute in the last 10 minutes, more than 5 and more than 3 times the 0.00 of the day before; next: prodigy dlq analyze
    alert denials: 5 of 5 replays were denied in the last hour: 100%, more than 20%; next: prodigy audit show --action replay --since 1h
    alert unclassified: 52 of 53 entries have no known reason: 98.1%, more than 5%; next: prodigy dlq list --reason unclassified
    alert oldest: `item-90000-1` of job `other` has been open for 1d 01h, longer than 1d 00h; next: prodigy dlq show other item-90000-1
    [exit 1]
    ");
    assert_snapshot!(world.prodigy(&["dlq", "status", "job", "--check"]), @"
    alert growth: 5.2 items failed per minute in the last 10 minutes, more than 5 and more than 3 times the 0.00 of the day before; next: prodigy dlq analyze job
    alert denials: 5 of 5 replays were denied in the last hour: 100%, more than 20%; next: prodigy audit show --action replay --since 1h
    alert unclassified: 52 of 52 entries have no known reason: 100%, more than 5%; next: prodigy dlq list job --reason unclassified
    [exit 1]
    ");
    assert_snapshot!(world.prodigy(&["dlq", "status", "other", "--check"]), @"
    alert oldest: `item-90000-1` of job `other` has been open for 1d 01h, longer than 1d 00h; next: prodigy dlq show other item-90000-1
    [exit 1]
    ");
    let shown = world.prodigy(&["dlq", "status", "other"]);
    assert_eq!(shown.code, Some(0));
    assert!(shown.stdout.contains("\n\nalert oldest: "), "{shown}");
}

#[test]
fn what_nobody_knows_is_worse_than_what_waits() {
    let world = empty();
    die(&world, "job", 1, 31 * MINUTE, &[("commit_state", json!("unknown"))]);
    assert_snapshot!(check(&world), @"
    alert unknown_commits: what `item-1860-1` of job `job` changed outside has been unknown for 31m, longer than 30m; 1 in all; next: prodigy dlq show job item-1860-1
    [exit 2]
    ");
}

#[test]
fn an_audit_trail_that_is_broken_is_grave() {
    let world = empty();
    decide(&world, AuditOutcome::Intended, 1);
    decide(&world, AuditOutcome::Done, 1);
    let file = layout(&world).audit_file();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replacen("\"ada\"", "\"eve\"", 1)).unwrap();
    assert_snapshot!(check(&world), @"
    alert audit: the audit trail cannot be relied on: broken at line 1: it was changed: its content does not have the hash that stands in it; next: prodigy audit verify
    [exit 2]
    ");
    fs::write(&file, text.split_inclusive('\n').next().unwrap()).unwrap();
    assert_snapshot!(check(&world), @"
    alert audit: the audit trail cannot be relied on: truncated: 1 record missing; next: prodigy audit verify
    [exit 2]
    ");
    assert_snapshot!(world.prodigy(&["dlq", "status"]).stdout, @"
    open             0
    growth           0.0 per minute in the last 10 minutes, 0.00 in the day before
    denials          0 of 1 replay in the last hour (0%)
    oldest           none
    unknown commits  0
    unclassified     0
    audit trail      truncated: 1 record missing

    alert audit: the audit trail cannot be relied on: truncated: 1 record missing; next: prodigy audit verify
    ");
}

#[test]
fn an_audit_trail_that_cannot_be_read_is_grave() {
    let world = empty();
    decide(&world, AuditOutcome::Intended, 1);
    let file = layout(&world).audit_file();
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert_snapshot!(check(&world), @"
    alert audit: the audit trail cannot be relied on: `$ROOT/home/audit/repo/audit.jsonl` is not a regular file; next: prodigy audit verify
    [exit 2]
    ");
}

#[test]
fn the_policy_says_what_is_worth_an_alert() {
    let world = empty();
    die(&world, "job", 3, 25 * HOUR, &[]);
    world.write(".prodigy/replay-policy.yml", "version: v1\nalerts: { oldest: 2d }\n");
    assert_eq!(check(&world), "ok: 3 open\n");
    world.write(".prodigy/replay-policy.yml", "version: v1\nalerts: { oldest: 90m }\n");
    assert_snapshot!(check(&world), @"
    alert oldest: `item-90000-1` of job `job` has been open for 1d 01h, longer than 1h 30m; next: prodigy dlq show job item-90000-1
    [exit 1]
    ");
    // A policy that says nothing about alerts leaves them as they are.
    world.write(".prodigy/replay-policy.yml", "version: v1\n");
    assert!(check(&world).contains("longer than 1d 00h"));
    world.write(".prodigy/replay-policy.yml", "version: v1\nalerts: { oldes: 90m }\n");
    assert_snapshot!(check(&world), @"
    ----- stderr -----
    error: unknown key `oldes` in `alerts`
     --> .prodigy/replay-policy.yml:2:11
      |
    2 | alerts: { oldes: 90m }
      |           ^^^^^
      |
      = help: did you mean `oldest`?

    error: `.prodigy/replay-policy.yml` cannot be used

    hint: `prodigy policy lint` lists what is wrong; until that is fixed, nothing is decided over dead letters
    [exit 9]
    ");
}

#[test]
fn the_hook_hears_of_alerts_once_and_only_when_it_is_checked() {
    let world = empty();
    let hook = "alerts: { oldest: 24h, hook: 'cat >> heard; pwd >> where' }";
    world.write(".prodigy/replay-policy.yml", format!("version: v1\n{hook}\n"));
    world.trust();
    assert_eq!(check(&world), "ok: 0 open\n");
    die(&world, "job", 2, 25 * HOUR, &[]);
    assert_eq!(world.prodigy(&["dlq", "status"]).code, Some(0));
    assert!(!world.repo().join("heard").exists());
    assert_eq!(world.prodigy(&["dlq", "status", "--check", "--json"]).code, Some(1));
    let heard: Value = serde_json::from_str(&world.read("heard")).unwrap();
    assert_eq!(heard["alerts"][0]["alert"], "oldest");
    assert_eq!(heard["schema_version"], 1);
    let root = world.repo().canonicalize().unwrap();
    assert_eq!(world.read("where").trim_end(), root.to_str().unwrap());
}

#[test]
fn a_hook_that_fails_is_a_warning() {
    let world = empty();
    die(&world, "job", 1, 25 * HOUR, &[]);
    let hook = "alerts: { oldest: 24h, hook: 'echo no network >&2; exit 7' }";
    world.write(".prodigy/replay-policy.yml", format!("version: v1\n{hook}\n"));
    world.trust();
    assert_snapshot!(check(&world), @"
    alert oldest: `item-90000-1` of job `job` has been open for 1d 01h, longer than 1d 00h; next: prodigy dlq show job item-90000-1
    ----- stderr -----
    warning: nobody was told by the hook `echo no network >&2; exit 7`: it ended with exit code 7: no network
    [exit 1]
    ");
}

#[test]
fn programs_read_one_document() {
    let world = empty();
    die(&world, "job", 1, 31 * MINUTE, &[("commit_state", json!("unknown"))]);
    let seen = world.prodigy(&["dlq", "status", "--json"]);
    assert_snapshot!(timeless(&seen.to_string()), @r#"
    {
      "schema_version": 1,
      "job_id": null,
      "open": 1,
      "replaying": 0,
      "growth_per_min": 0.0,
      "baseline_per_min": 0.0006944444444444445,
      "replays_decided": 0,
      "replays_denied": 0,
      "oldest": {
        "job_id": "job",
        "item_id": "item-1860-1",
        "owner": null,
        "since": "[time]",
        "seconds": [seconds]
      },
      "unknown_commits": 1,
      "oldest_unknown_commit": {
        "job_id": "job",
        "item_id": "item-1860-1",
        "owner": null,
        "since": "[time]",
        "seconds": [seconds]
      },
      "unclassified": 0,
      "audit_ok": true,
      "partial": false,
      "alerts": [
        {
          "alert": "unknown_commits",
          "value": [seconds].0,
          "limit": 1800.0,
          "text": "what `item-1860-1` of job `job` changed outside has been unknown for 31m, longer than 30m; 1 in all",
          "grave": true,
          "next": "prodigy dlq show job item-1860-1"
        }
      ]
    }
    "#);
}

#[test]
fn prometheus_reads_a_file_that_is_always_whole() {
    let world = empty();
    die(&world, "job", 2, 31 * MINUTE, &[("commit_state", json!("unknown"))]);
    die(&world, "job", 1, HOUR, &[("reason_code", json!("unclassified"))]);
    die(&world, "other", 1, HOUR, &[]);
    let path = world.repo().join("prodigy.prom");
    let args = ["dlq", "status", "--check", "--prometheus", "prodigy.prom"];
    for _ in 0..2 {
        // The exporter is another user.
        let mut command = world.command("sh");
        command.args(["-c", "umask 022; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_prodigy")]);
        assert_eq!(command.args(args).output().unwrap().status.code(), Some(2));
    }
    assert_snapshot!(timeless(&fs::read_to_string(&path).unwrap()), @r#"
    # HELP prodigy_dlq_open_entries Open entries, by why the item failed.
    # TYPE prodigy_dlq_open_entries gauge
    prodigy_dlq_open_entries{job="job",reason_code="command_failed"} 2
    prodigy_dlq_open_entries{job="job",reason_code="unclassified"} 1
    prodigy_dlq_open_entries{job="other",reason_code="command_failed"} 1
    # HELP prodigy_dlq_oldest_open_seconds How long the oldest open entry has been open.
    # TYPE prodigy_dlq_oldest_open_seconds gauge
    prodigy_dlq_oldest_open_seconds{job="job"} [seconds]
    prodigy_dlq_oldest_open_seconds{job="other"} [seconds]
    # HELP prodigy_dlq_unknown_commits Open entries that may or may not have changed something outside.
    # TYPE prodigy_dlq_unknown_commits gauge
    prodigy_dlq_unknown_commits{job="job"} 2
    prodigy_dlq_unknown_commits{job="other"} 0
    # HELP prodigy_dlq_oldest_unknown_commit_seconds How long it has been unknown what an item changed outside.
    # TYPE prodigy_dlq_oldest_unknown_commit_seconds gauge
    prodigy_dlq_oldest_unknown_commit_seconds{job="job"} [seconds]
    # HELP prodigy_dlq_replaying_entries Entries that are being replayed.
    # TYPE prodigy_dlq_replaying_entries gauge
    prodigy_dlq_replaying_entries 0
    # HELP prodigy_dlq_growth_per_minute Items that failed per minute in the last 10 minutes.
    # TYPE prodigy_dlq_growth_per_minute gauge
    prodigy_dlq_growth_per_minute 0
    # HELP prodigy_dlq_growth_baseline_per_minute Items that failed per minute in the day before the last 10 minutes.
    # TYPE prodigy_dlq_growth_baseline_per_minute gauge
    prodigy_dlq_growth_baseline_per_minute 0.002777777777777778
    # HELP prodigy_dlq_replays_decided Replays that were decided over in the last hour.
    # TYPE prodigy_dlq_replays_decided gauge
    prodigy_dlq_replays_decided 0
    # HELP prodigy_dlq_replays_denied Replays that were denied in the last hour.
    # TYPE prodigy_dlq_replays_denied gauge
    prodigy_dlq_replays_denied 0
    # HELP prodigy_dlq_unclassified_entries Entries that are not closed and have no known reason.
    # TYPE prodigy_dlq_unclassified_entries gauge
    prodigy_dlq_unclassified_entries 1
    # HELP prodigy_dlq_audit_ok Whether the audit trail is what was recorded.
    # TYPE prodigy_dlq_audit_ok gauge
    prodigy_dlq_audit_ok 1
    # HELP prodigy_dlq_alert_firing Whether the alert is firing.
    # TYPE prodigy_dlq_alert_firing gauge
    prodigy_dlq_alert_firing{alert="growth"} 0
    prodigy_dlq_alert_firing{alert="denials"} 0
    prodigy_dlq_alert_firing{alert="unknown_commits"} 1
    prodigy_dlq_alert_firing{alert="unclassified"} 0
    prodigy_dlq_alert_firing{alert="oldest"} 0
    prodigy_dlq_alert_firing{alert="audit"} 0
    # HELP prodigy_dlq_status_timestamp_seconds When these numbers were taken.
    # TYPE prodigy_dlq_status_timestamp_seconds gauge
    prodigy_dlq_status_timestamp_seconds [seconds]
    "#);
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o044, 0o044, "{mode:o}");
    let left = fs::read_dir(world.repo()).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().contains("prom")).collect();
    assert_eq!(left, ["prodigy.prom"]);
    let args = ["dlq", "status", "--check", "--prometheus", "missing/prodigy.prom"];
    assert_snapshot!(world.prodigy(&args), @"
    alert unknown_commits: what `item-1860-1` of job `job` changed outside has been unknown for 31m, longer than 30m; 2 in all; next: prodigy dlq show job item-1860-1
    ----- stderr -----
    warning: cannot write `missing/prodigy.prom`: No such file or directory (os error 2)
    [exit 2]
    ");
    let args = ["dlq", "status", "other", "--check", "--prometheus", "missing/prodigy.prom"];
    assert_snapshot!(world.prodigy(&args), @"
    ok: 1 open
    ----- stderr -----
    error: cannot write `missing/prodigy.prom`
      caused by: No such file or directory (os error 2)
    [exit 1]
    ");
}

#[test]
fn an_entry_that_cannot_be_read_is_not_well() {
    let world = empty();
    die(&world, "job", 1, HOUR, &[]);
    write(&world, "job", "item-bad", "{");
    assert_snapshot!(check(&world), @"
    ----- stderr -----
    warning: job `job`: `$ROOT/home/dlq/repo/job/mapreduce/dlq/job/items/item-bad.json` cannot be used: it is not a dead letter: EOF while parsing an object at line 1 column 1
    [exit 1]
    ");
}

#[test]
fn outside_of_a_repository_all_jobs_are_looked_at() {
    let world = empty();
    die(&world, "job", 1, HOUR, &[]);
    let mut command = world.prodigy_command(&["dlq", "status"]);
    command.current_dir(world.root());
    assert_snapshot!(world.to_output(&command.output().unwrap()), @"
    open             1
    growth           0.0 per minute in the last 10 minutes, 0.00 in the day before
    denials          no replays in the last hour
    oldest           1h 00m ago: job item-3600-1
    unknown commits  0
    unclassified     0
    audit trail      not checked: this is no repository
    ");
}
