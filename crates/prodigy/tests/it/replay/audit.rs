//! `prodigy audit`.

use std::fs;

use insta::assert_snapshot;
use prodigy_core::{
    Timestamp,
    audit::{AuditAction, AuditOutcome, IdentityKind, NewAuditRecord},
};
use prodigy_engine::{
    git::{Git, Repo},
    store::audit::{AuditTrail, anchor_ref},
};
use prodigy_testkit::TestEnv;
use regex::Regex;

use crate::fixture::journal::{at, layout, record, started, world};

/// Returns what a record says about an item.
fn said(entry: &str, action: AuditAction, outcome: AuditOutcome) -> NewAuditRecord {
    let job = "job".parse().unwrap();
    NewAuditRecord {
        entry: entry.to_owned(),
        revision: 1,
        outcome,
        ..NewAuditRecord::new("ada@example.com", IdentityKind::Asserted, action, job)
    }
}

/// Appends records, so many milliseconds after the first moment.
fn append(world: &TestEnv, milliseconds: i64, records: Vec<NewAuditRecord>) {
    append_at(world, at(milliseconds), records);
}

/// Appends records.
pub(crate) fn append_at(world: &TestEnv, now: Timestamp, records: Vec<NewAuditRecord>) {
    let command = world.command("git");
    let env = command.get_envs().filter(|(name, _)| *name != "PATH");
    let env = env.map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned))).collect();
    let repo = Repo::discover_with(Git::with_env(env), &world.repo()).unwrap();
    let audit = AuditTrail::open(&layout(world), &repo).unwrap();
    audit.append(records, now).unwrap();
}

/// Returns a world whose audit trail has five records.
fn five() -> TestEnv {
    let world = world();
    let mut replay = said("item-001", AuditAction::Replay, AuditOutcome::Intended);
    replay.decision = Some("auto_replay".to_owned());
    replay.rule = Some("defaults".to_owned());
    append(&world, 0, vec![replay.clone()]);
    append(&world, 90_000, vec![replay.with_outcome(AuditOutcome::Done)]);
    let mut drop = said("item-002", AuditAction::Drop, AuditOutcome::Done);
    drop.reason = Some("nobody \u{1b}[31mneeds\nit".to_owned());
    let mut approve = said("item-003", AuditAction::Approve, AuditOutcome::Done);
    approve.identity = IdentityKind::Signed;
    approve.actor = "grace@example.com".into();
    approve.job = "other".parse().unwrap();
    append(&world, 3_600_000, vec![drop, approve]);
    let mut clear = said("", AuditAction::Clear, AuditOutcome::Done);
    clear.entries = Some(12);
    append(&world, 7_200_000, vec![clear]);
    world
}

fn text(world: &TestEnv) -> String {
    fs::read_to_string(layout(world).audit_file()).unwrap()
}

fn put(world: &TestEnv, text: &str) {
    fs::write(layout(world).audit_file(), text).unwrap();
}

/// Returns what a person sees, without the reference, which is different every time.
fn seen(world: &TestEnv, args: &[&str]) -> String {
    let said = world.prodigy(args).to_string().replace(&anchor_ref(&layout(world)), "$REFERENCE");
    // The hashes cover where a record comes from, which is another machine every time.
    let origin = Regex::new(r#""(os_user|host)": "[^"]*""#).unwrap();
    let said = origin.replace_all(&said, r#""$1": "[$1]""#);
    let hash = Regex::new(r#"hash": "[0-9a-f]*[1-9a-f][0-9a-f]*""#).unwrap();
    let said = hash.replace_all(&said, r#"hash": "[hash]""#);
    // So is how long its line is.
    Regex::new(" column [0-9]+").unwrap().replace_all(&said, "").into_owned()
}

fn verify(world: &TestEnv) -> String {
    seen(world, &["audit", "verify"])
}

#[test]
fn what_was_done_is_shown_with_the_newest_last() {
    let world = five();
    assert_snapshot!(seen(&world, &["audit", "show"]), @r#"
    NO  TIME                 ACTOR              IDENTITY  ACTION   OUTCOME   JOB    ITEM      WHY
    1   2026-01-02 03:04:05  ada@example.com    asserted  replay   intended  job    item-001  auto_replay by defaults
    2   2026-01-02 03:05:35  ada@example.com    asserted  replay   done      job    item-001  auto_replay by defaults
    3   2026-01-02 04:04:05  ada@example.com    asserted  drop     done      job    item-002  nobody \u{1b}[31mneeds\nit
    4   2026-01-02 04:04:05  grace@example.com  signed    approve  done      other  item-003
    5   2026-01-02 05:04:05  ada@example.com    asserted  clear    done      job    12 items
    "#);
    assert_snapshot!(seen(&world, &["audit", "show", "--limit", "1"]), @"
    NO  TIME                 ACTOR            IDENTITY  ACTION  OUTCOME  JOB  ITEM      WHY
    5   2026-01-02 05:04:05  ada@example.com  asserted  clear   done     job  12 items
    ");
    assert_snapshot!(seen(&world, &["audit", "show", "--job", "other"]), @"
    NO  TIME                 ACTOR              IDENTITY  ACTION   OUTCOME  JOB    ITEM      WHY
    4   2026-01-02 04:04:05  grace@example.com  signed    approve  done     other  item-003
    ");
    assert_snapshot!(seen(&world, &["audit", "show", "--item", "item-001", "--json"]), @r#"
    {
      "schema_version": 1,
      "records": [
        {
          "seq": 1,
          "ts": "2026-01-02T03:04:05Z",
          "actor": "ada@example.com",
          "identity": "asserted",
          "action": "replay",
          "job": "job",
          "entry": "item-001",
          "entries": null,
          "revision": 1,
          "decision": "auto_replay",
          "rule": "defaults",
          "policy_snapshot": null,
          "digest": null,
          "reason": null,
          "outcome": "intended",
          "os_user": "[os_user]",
          "host": "[host]",
          "automation": false,
          "prev_hash": "0000000000000000000000000000000000000000000000000000000000000000",
          "hash": "[hash]"
        },
        {
          "seq": 2,
          "ts": "2026-01-02T03:05:35Z",
          "actor": "ada@example.com",
          "identity": "asserted",
          "action": "replay",
          "job": "job",
          "entry": "item-001",
          "entries": null,
          "revision": 1,
          "decision": "auto_replay",
          "rule": "defaults",
          "policy_snapshot": null,
          "digest": null,
          "reason": null,
          "outcome": "done",
          "os_user": "[os_user]",
          "host": "[host]",
          "automation": false,
          "prev_hash": "[hash]",
          "hash": "[hash]"
        }
      ]
    }
    "#);
}

#[test]
fn records_are_chosen_by_action_and_time() {
    let world = five();
    let show = |more: &[&str]| {
        let args: Vec<_> = ["audit", "show"].iter().chain(more).copied().collect();
        let seen = world.prodigy(&args);
        assert_eq!(seen.code, Some(0), "{seen}");
        let numbers = seen.stdout.lines().skip(1).map(|line| line.split(' ').next().unwrap());
        numbers.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(show(&["--action", "replay"]), "1 2");
    assert_eq!(show(&["--action", "clear,drop"]), "3 5");
    assert_eq!(show(&["--since", "2026-01-02T04:04:05Z"]), "3 4 5");
    assert_eq!(show(&["--since", "1h"]), "");
    assert_eq!(show(&["--item", "item-001", "--limit", "1"]), "2");
    assert_snapshot!(seen(&world, &["audit", "show", "--since", "1h"]), @"
    ----- stderr -----
    no record matches
    ");
    assert_snapshot!(seen(&world, &["audit", "show", "--action", "burn"]), @"
    ----- stderr -----
    error: there is no action `burn`

    hint: the actions are replay, adopt, drop, clear, quarantine, release, edit, check, compensate, request_approval, approve, reject, remove, accept_lost_end, restart_trail, purge, confirm_policy
    [exit 2]
    ");
}

#[test]
fn a_repository_where_nothing_was_done_has_an_empty_trail() {
    let world = world();
    assert_snapshot!(seen(&world, &["audit", "show"]), @"
    ----- stderr -----
    nothing is recorded yet
    ");
    assert_snapshot!(verify(&world), @"ok: nothing is recorded yet");
    assert!(!layout(&world).audit_file().exists());
}

#[test]
fn a_whole_trail_is_said_to_be_whole() {
    let world = five();
    let head = text(&world).lines().last().unwrap().rsplit('"').nth(1).unwrap().to_owned();
    assert_eq!(verify(&world), format!("ok: 5 records, the last one is {head}\n"));
    let json = seen(&world, &["audit", "verify", "--json"]).replace(&head, "$HEAD");
    assert_snapshot!(json, @r#"
    {
      "schema_version": 1,
      "status": "ok",
      "records": 5,
      "head": "$HEAD",
      "unanchored_records": 0,
      "torn_bytes": 0,
      "backwards": [],
      "unrecorded": [],
      "file": "$ROOT/home/audit/repo/audit.jsonl",
      "anchor": "$REFERENCE"
    }
    "#);
    // Other commands that look at the repository's references leave the anchor alone.
    record(&layout(&world), "job", &[(0, started())]);
    assert_snapshot!(seen(&world, &["worktree", "ls"]), @"");
    world.git(&["fsck", "--no-dangling"]);
    world.git(&["gc", "--quiet", "--prune=now"]);
    assert_eq!(verify(&world), format!("ok: 5 records, the last one is {head}\n"));
}

#[test]
fn a_changed_record_is_named() {
    let world = five();
    put(&world, &text(&world).replace("item-002", "item-020"));
    assert_snapshot!(verify(&world), @"
    broken at line 3: it was changed: its content does not have the hash that stands in it
    ----- stderr -----

    What the records say cannot be relied on. Put $ROOT/home/audit/repo/audit.jsonl back from a backup; if there is
    none, `prodigy audit restart --reason TEXT` keeps what is left and begins a new trail
    [exit 1]
    ");
    assert_snapshot!(seen(&world, &["audit", "verify", "--json"]), @r#"
    {
      "schema_version": 1,
      "status": "broken",
      "line": 3,
      "reason": "it was changed: its content does not have the hash that stands in it",
      "backwards": [],
      "unrecorded": [],
      "file": "$ROOT/home/audit/repo/audit.jsonl",
      "anchor": "$REFERENCE"
    }
    [exit 1]
    "#);
}

#[test]
fn records_that_were_cut_off_are_counted() {
    let world = five();
    let lines: Vec<_> = text(&world).lines().map(|line| format!("{line}\n")).collect();
    put(&world, &lines[..3].concat());
    assert_snapshot!(verify(&world), @"
    truncated: 2 records missing at the end, 3 of 5 left
    ----- stderr -----

    What the records say cannot be relied on. Put $ROOT/home/audit/repo/audit.jsonl back from a backup; if there is
    none, `prodigy audit restart --reason TEXT` keeps what is left and begins a new trail
    [exit 1]
    ");
    assert_snapshot!(seen(&world, &["audit", "verify", "--json"]), @r#"
    {
      "schema_version": 1,
      "status": "truncated",
      "records": 3,
      "anchored_records": 5,
      "missing": 2,
      "backwards": [],
      "unrecorded": [],
      "file": "$ROOT/home/audit/repo/audit.jsonl",
      "anchor": "$REFERENCE"
    }
    [exit 1]
    "#);
    fs::remove_file(layout(&world).audit_file()).unwrap();
    assert_snapshot!(verify(&world), @"
    truncated: 5 records missing at the end, 0 of 5 left
    ----- stderr -----

    What the records say cannot be relied on. Put $ROOT/home/audit/repo/audit.jsonl back from a backup; if there is
    none, `prodigy audit restart --reason TEXT` keeps what is left and begins a new trail
    [exit 1]
    ");
}

#[test]
fn an_anchor_that_is_gone_or_holds_something_else_is_named() {
    let world = five();
    let reference = anchor_ref(&layout(&world));
    world.git(&["update-ref", "-d", &reference]);
    assert_snapshot!(verify(&world), @"
    broken: the anchor in git is gone, and 5 records cannot be relied on
    ----- stderr -----

    What the records say cannot be relied on. Put $ROOT/home/audit/repo/audit.jsonl back from a backup; if there is
    none, `prodigy audit restart --reason TEXT` keeps what is left and begins a new trail
    [exit 1]
    ");
    let blob = world.git(&["rev-parse", "HEAD:README.md"]);
    world.git(&["update-ref", &reference, &blob]);
    assert_snapshot!(verify(&world), @r#"
    broken: the reference `$REFERENCE` does not hold the head of the audit trail: `# fixture\n` is not the head of an audit trail
    ----- stderr -----

    What the records say cannot be relied on. Put $ROOT/home/audit/repo/audit.jsonl back from a backup; if there is
    none, `prodigy audit restart --reason TEXT` keeps what is left and begins a new trail
    [exit 1]
    "#);
}

#[test]
fn what_an_append_left_that_was_cut_off_is_said_aloud() {
    let world = five();
    let anchored = world.git(&["rev-parse", &anchor_ref(&layout(&world))]);
    append(&world, 7_200_001, vec![said("item-009", AuditAction::Edit, AuditOutcome::Intended)]);
    world.git(&["update-ref", &anchor_ref(&layout(&world)), &anchored]);
    put(&world, &(text(&world) + "{\"seq\":7"));
    let head = text(&world).lines().nth(5).unwrap().rsplit('"').nth(1).unwrap().to_owned();
    assert_snapshot!(verify(&world).replace(&head, "$HEAD"), @"
    ok: 6 records, the last one is $HEAD
      1 record at the end is not anchored: an append was cut off, and nothing was done because of it; the next append anchors it
      8 bytes at the end are no record: an append was cut off; the next append puts that aside
    ");
}

#[test]
fn a_new_trail_can_be_begun_with_the_command_that_is_named() {
    let world = five();
    let emptied = || put(&world, "");
    let unanchored = || drop(world.git(&["update-ref", "-d", &anchor_ref(&layout(&world))]));
    let breaks: [&dyn Fn(); 2] = [&emptied, &unanchored];
    for break_it in breaks {
        break_it();
        let seen = world.prodigy(&["audit", "verify"]);
        assert_eq!(seen.code, Some(1), "{seen}");
        assert!(seen.stderr.contains("`prodigy audit restart --reason TEXT`"), "{seen}");
        let seen = world.prodigy(&["audit", "restart", "--reason", "x"]);
        assert_eq!(seen.code, Some(0), "{seen}");
        assert!(verify(&world).starts_with("ok: 1 record, "));
        append(&world, 0, vec![said("item-001", AuditAction::Replay, AuditOutcome::Intended)]);
        assert!(verify(&world).starts_with("ok: 2 records, "));
    }
}

#[test]
fn a_line_that_cannot_be_read_does_not_hide_the_others() {
    let world = five();
    put(&world, &text(&world).replacen("\"replay\"", "\"levitate\"", 1));
    assert_snapshot!(seen(&world, &["audit", "show", "--action", "replay"]), @"
    NO  TIME                 ACTOR            IDENTITY  ACTION  OUTCOME  JOB  ITEM      WHY
    2   2026-01-02 03:05:35  ada@example.com  asserted  replay  done     job  item-001  auto_replay by defaults
    ----- stderr -----
    warning: line 1 of the audit trail `$ROOT/home/audit/repo/audit.jsonl` cannot be read: unknown variant `levitate`, expected one of `replay`, `adopt`, `drop`, `clear`, `quarantine`, `release`, `edit`, `check`, `compensate`, `request_approval`, `approve`, `reject`, `remove`, `accept_lost_end`, `restart_trail`, `purge`, `confirm_policy` at line 1
    1 line left out; `prodigy audit verify` looks closer
    [exit 1]
    ");
}

#[test]
fn outside_of_a_repository_a_trail_cannot_be_checked() {
    let world = TestEnv::new(env!("CARGO_BIN_EXE_prodigy"));
    assert_snapshot!(world.prodigy(&["audit", "verify"]), @"
    ----- stderr -----
    error: `$ROOT` is not in a git repository

    hint: go to a repository, or make one with `git init`
    [exit 2]
    ");
}
