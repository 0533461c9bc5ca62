//! Changing dead letters by hand: adopt, quarantine, release, edit, drop and clear.

use std::fs;

use insta::assert_snapshot;

use crate::{
    dlq::retry::{assert_whole, fails_with, mend, replayed, retry, statuses},
    fixture::{
        map_job::{assert_code, beside, letter, of_type},
        replay::{died_of, dlq, trail},
    },
};

#[test]
fn what_is_adopted_counts_as_done_and_does_not_run_again() {
    let world = died_of("", &[("a", "agent_error"), ("b", "agent_error")]);
    let before = beside(&world, "log");
    let adopt = ["adopt", "job", "item-001", "item-002", "--reason", "done by hand"];
    assert_snapshot!(dlq(&world, "ben", &adopt), @"
    adopted  item-001
    adopted  item-002
    ");
    assert_eq!(statuses(&world), "item-001 resolved, item-002 resolved");
    assert_eq!(beside(&world, "log"), before);
    assert_snapshot!(trail(&world), @"
    ben adopt intended item-001 [- -]
    ben adopt intended item-002 [- -]
    ben adopt done item-001 [- -]
    ben adopt done item-002 [- -]
    ");
    let removed = &of_type(&world, "dlq_item_removed")[0];
    assert_eq!((&removed["how"], &removed["by"]), (&"adopted".into(), &"ben@example.com".into()));
    assert_snapshot!(dlq(&world, "ben", &["adopt", "job", "item-001", "--reason", "twice"]), @"
    ----- stderr -----
    error: `item-001` is resolved already

    hint: `prodigy dlq show job item-001` says since when and why
    [exit 2]
    ");
    assert_snapshot!(dlq(&world, "ben", &["adopt", "job", "item-001", "--reason", " "]), @"
    ----- stderr -----
    error: the reason is empty

    hint: say in a few words why; it is recorded
    [exit 2]
    ");
    assert_snapshot!(dlq(&world, "ben", &["adopt", "job", "item-003", "--reason", "no"]), @"
    ----- stderr -----
    error: job `job` has no dead letter of item `item-003`

    hint: `prodigy dlq list job --all` lists those it has
    [exit 2]
    ");
    let jobs = world.prodigy(&["jobs", "show", "job"]).stdout;
    assert!(jobs.contains("3 of 3"), "{jobs}");
    assert_whole(&world);
}

#[test]
fn what_is_in_quarantine_waits_for_its_release() {
    let world = died_of("", &[("a", "network_error"), ("b", "network_error")]);
    mend(&world, "a");
    mend(&world, "b");
    let put = ["quarantine", "job", "item-001", "--reason", "odd", "--owner", "integration"];
    assert_snapshot!(dlq(&world, "ben", &put), @"quarantined  item-001");
    let entry = letter(&world, "item-001");
    assert_eq!(
        (&entry["owner"], &entry["quarantine"]["reason"]),
        (&"integration".into(), &"odd".into())
    );
    assert_snapshot!(retry(&world, &["item-001"]), @"
    ----- stderr -----
    not replayed: 1 entry: item-001: quarantined until changed or released
      rule `built-in:network_error` says auto_replay; somebody put it into quarantine
      then: prodigy dlq release job item-001 --reason TEXT
    nothing was replayed
    [exit 10]
    ");
    assert_snapshot!(retry(&world, &["--force", "item-001", "--reason", "please"]), @"
    ----- stderr -----
    not replayed: 1 entry: item-001: quarantined until changed or released
      rule `built-in:network_error` says auto_replay; somebody put it into quarantine
      then: prodigy dlq release job item-001 --reason TEXT
    nothing was replayed
    [exit 10]
    ");
    assert_snapshot!(dlq(&world, "ben", &["list", "job"]).stdout.lines().map(|line| {
        line.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
    }).collect::<Vec<_>>().join("\n"), @"
    ITEM REASON REPLAY
    item-001 network_error quarantine
    item-002 network_error yes
    ");
    let release = ["release", "job", "item-001", "--reason", "looked at it"];
    assert_snapshot!(dlq(&world, "cay", &release), @"released  item-001");
    assert_code(&retry(&world, &[]), 0);
    assert_eq!(replayed(&world), "item-001 item-002");
    assert_snapshot!(trail(&world), @"
    ben quarantine intended item-001 [- -]
    ben quarantine done item-001 [- -]
    ben replay denied item-001 [quarantine built-in:network_error]
    ben replay denied item-001 [quarantine built-in:network_error]
    cay release intended item-001 [- -]
    cay release done item-001 [- -]
    cay replay intended item-001 [replay built-in:network_error]
    cay replay done item-001 [replay built-in:network_error]
    cay replay intended item-002 [replay built-in:network_error]
    cay replay done item-002 [replay built-in:network_error]
    ");
    assert_whole(&world);
}

#[test]
fn what_would_fail_again_is_released_once_it_is_mended_elsewhere() {
    let world = died_of("", &[("a", "schema_invalid")]);
    assert_code(&retry(&world, &["item-001"]), 10);
    mend(&world, "a");
    assert_code(&retry(&world, &["item-001"]), 10);
    assert_code(&dlq(&world, "ben", &["release", "job", "item-001", "--reason", "mended"]), 0);
    fails_with(&world, "a", "schema_invalid");
    assert_code(&retry(&world, &["item-001"]), 3);
    // It has failed since, so the release is used up.
    assert_code(&retry(&world, &["item-001"]), 10);
    assert_eq!(replayed(&world), "item-001");
    assert_whole(&world);
}

#[test]
fn an_item_with_other_data_is_replayed_with_that() {
    let world = died_of("", &[("a", "input_missing")]);
    assert_code(&retry(&world, &["item-001"]), 10);
    let edit = ["edit", "job", "item-001", "--data", "\"other\"", "--reason", "renamed"];
    assert_snapshot!(dlq(&world, "ben", &edit), @"edited  item-001");
    let entry = letter(&world, "item-001");
    assert_eq!((&entry["item_data"], &entry["revision"]), (&"other".into(), &2.into()));
    assert_eq!(entry["lineage"][0]["by"], "ben@example.com");
    let shown = dlq(&world, "ben", &["show", "job", "item-001"]).stdout;
    assert!(shown.contains("changed since it failed: the item's data"), "{shown}");
    assert_snapshot!(dlq(&world, "ben", &edit), @"
    ----- stderr -----
    error: the item has exactly this data already
    [exit 2]
    ");
    assert_code(&retry(&world, &["item-001"]), 0);
    assert_eq!(beside(&world, "log"), "a 1\nb 1\nc 1\nother 2\n");
    assert_snapshot!(trail(&world), @"
    ann replay denied item-001 [quarantine built-in:input_missing]
    ben edit intended item-001 [- -]
    ben edit done item-001 [- -]
    ben replay intended item-001 [replay built-in:input_missing]
    ben replay done item-001 [replay built-in:input_missing]
    ");
    assert_whole(&world);
}

#[test]
fn single_fields_of_an_item_can_be_set_and_files_read() {
    let world = died_of("", &[("a", "input_missing")]);
    let edit = |more: &[&str]| {
        let base = ["edit", "job", "item-001", "--reason", "see"];
        dlq(&world, "ben", &[&base[..], more].concat())
    };
    assert_snapshot!(edit(&["--set", "name=b"]), @"
    ----- stderr -----
    error: `--set name`: what stands before `name` has no fields
    [exit 2]
    ");
    assert_snapshot!(edit(&["--data", "{"]), @"
    ----- stderr -----
    error: the new data is not JSON: EOF while parsing an object at line 1 column 1
    [exit 2]
    ");
    assert_snapshot!(edit(&["--file", "nowhere.json"]), @"
    ----- stderr -----
    error: there is no file `nowhere.json`
    [exit 2]
    ");
    assert_snapshot!(edit(&[]), @"
    ----- stderr -----
    error: the following required arguments were not provided:
      <--data <JSON>|--file <FILE>|--set <FIELD=VALUE>>

    Usage: prodigy dlq edit --reason <TEXT> --home <DIR> <--data <JSON>|--file <FILE>|--set <FIELD=VALUE>> <JOB> <ITEM>

    For more information, try '--help'.
    [exit 2]
    ");
    world.write("data.json", "{\"name\": 1.10,\n \"list\": [1, 2]}\n");
    assert_code(&edit(&["--file", "data.json"]), 0);
    // What somebody wrote is kept as they wrote it.
    let stored = fs::read_dir(world.home().join("state/repo/mapreduce/jobs/job/edited")).unwrap();
    let stored = fs::read_to_string(stored.into_iter().next().unwrap().unwrap().path()).unwrap();
    assert_eq!(stored, "{\"name\": 1.10,\n \"list\": [1, 2]}");
    assert_code(&edit(&["--set", "list.1=7", "--set", "more.deep=text"]), 0);
    let data = letter(&world, "item-001")["item_data"].clone();
    assert_eq!(data, serde_json::json!({"name": 1.1, "list": [1, 7], "more": {"deep": "text"}}));
    fs::remove_file(world.repo().join("data.json")).unwrap();
    assert_whole(&world);
}

#[test]
fn nothing_is_changed_if_it_cannot_be_recorded() {
    let world = died_of("", &[("a", "agent_error"), ("b", "command_failed")]);
    let audit = world.home().join("audit/repo/audit.jsonl");
    fs::create_dir_all(&audit).unwrap();
    let before = of_type(&world, "dlq_item_removed").len();
    for args in [
        &["adopt", "job", "item-001", "--reason", "x"][..],
        &["drop", "job", "item-001", "--reason", "x"],
        &["release", "job", "item-001", "--reason", "x"],
        &["edit", "job", "item-001", "--data", "1", "--reason", "x"],
        &["clear", "job", "--all", "--yes"],
    ] {
        let seen = dlq(&world, "ben", args);
        assert_code(&seen, 1);
        assert!(seen.stderr.contains("nothing was changed"), "{seen}");
    }
    assert_eq!(of_type(&world, "dlq_item_removed").len(), before);
    // What may be replayed is not either.
    let seen = retry(&world, &["item-002"]);
    assert_code(&seen, 1);
    assert!(seen.stderr.contains("the audit trail cannot be appended to"), "{seen}");
    assert_eq!(replayed(&world), "");
    assert_eq!(statuses(&world), "item-001 open, item-002 open");
    fs::remove_dir(&audit).unwrap();
    assert_code(&retry(&world, &["item-002"]), 3);
    assert_eq!(replayed(&world), "item-002");
}

#[test]
fn what_is_dropped_or_deleted_is_recorded() {
    let world = died_of("", &[("a", "agent_error"), ("b", "agent_error"), ("c", "agent_error")]);
    assert_code(&dlq(&world, "ben", &["drop", "job", "item-001", "--reason", "not needed"]), 0);
    assert_code(&dlq(&world, "ben", &["clear", "job", "--yes"]), 0);
    assert_code(&dlq(&world, "ben", &["clear", "job", "--all", "--yes"]), 0);
    assert_snapshot!(trail(&world), @"
    ben drop intended item-001 [- -]
    ben drop done item-001 [- -]
    ben clear intended 1 entries [- -]
    ben clear done 1 entries [- -]
    ben clear intended 2 entries [- -]
    ben clear done 2 entries [- -]
    ");
    assert_eq!(statuses(&world), "");
}
