//! Dead letters of real jobs: from the failure to the end of the entry.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use std::fs;

use insta::assert_snapshot;
use prodigy_testkit::{CommandOutput, TestEnv};
use regex::Regex;
use serde_json::Value;

use crate::{
    fixture::map_job::{assert_code, go, has_told, map_world, of_type, started},
    security::hostile_values::on_a_terminal_typing,
};

/// Four items, of which two fail for one cause and one for another.
const FAILING: &str = r#"
name: fix
map:
  input:
    items:
      - { name: alpha, priority: 1, note: x }
      - { name: beta, priority: 7, note: y }
      - { name: gamma, priority: 9 }
      - { name: delta, priority: 5, note: z }
  max_parallel: 1
  agent_template:
    - shell: echo "note ${item.note}"
    - shell: |
        echo work > left.txt
        test ${item.name} = delta && exit 0
        echo "testing ${item.name}"; echo "1 of 12 failed" >&2; exit 3
error_policy:
  retry_config: { max_attempts: 2, backoff: { type: fixed, delay: 1ms } }
"#;

fn failing() -> TestEnv {
    let world = map_world(FAILING);
    assert_code(&go(&world), 0);
    world
}

/// Returns what a person sees, without what differs from run to run.
fn steady(seen: &CommandOutput) -> String {
    let text = seen.to_string();
    let text = Regex::new(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?Z)?")
        .unwrap()
        .replace_all(&text, "[time]")
        .into_owned();
    let text = Regex::new(r"\b\d+(\.\d+)?(ms|s)\b +").unwrap().replace_all(&text, "[took]  ");
    let text = Regex::new(r"TOOK +REASON").unwrap().replace_all(&text, "TOOK  REASON");
    // What happens at once may be seen to take a second.
    text.replace("[time] to [time]", "[time]")
}

fn statuses(world: &TestEnv) -> Vec<(String, String)> {
    let seen = world.prodigy(&["dlq", "list", "job", "--all", "--json"]);
    let document: Value = serde_json::from_str(&seen.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let entries = document["entries"].as_array().unwrap();
    let mut all: Vec<_> =
        entries.iter().map(|entry| (text(&entry["item_id"]), text(&entry["status"]))).collect();
    all.sort();
    all
}

#[test]
fn what_a_job_gave_up_is_listed_shown_and_grouped() {
    let world = failing();
    assert_snapshot!(steady(&world.prodigy(&["dlq", "list", "job"])), @"
    ITEM      REASON          REPLAY      TRIES  LAST FAILURE      CAUSE
    item-003  template_error  quarantine  2      [time]  <q> has no value: <q> has no field <q>; did you mean <q>?
    item-002  command_failed  yes         2      [time]  echo work > <path> failed with exit code <n>: <n> of <n> failed
    item-001  command_failed  yes         2      [time]  echo work > <path> failed with exit code <n>: <n> of <n> failed
    ----- stderr -----

    next:
      see one   prodigy dlq show job item-003
      by cause  prodigy dlq analyze job
    ");
    assert_snapshot!(steady(&world.prodigy(&["dlq", "show", "job", "item-002"])), @r#"
    item        item-002 of job job
    status      open
    reason      command_failed (agent)
    message     `echo work > left.txt` failed with exit code 3: 1 of 12 failed
    cause       CommandFailed::echo work > <path> failed with exit code <n>: <n> of <n> failed [1e27466408ef5c70]
    where       step map.2 shell: echo work > left.txt, attempt 2, agent-1, exit code 3
    failed      2 times, from [time]
    replay      it can be replayed
    because     rule `built-in:command_failed` says auto_replay
    to do       read its output; fix the command or its input, then replay

    last lines of output
      1 of 12 failed

    attempts
      #  ENDED             TOOK  REASON          MESSAGE
      1  [time]  [took]  command_failed  `echo work > left.txt` failed with exit code 3: 1 of 12 failed
      2  [time]  [took]  command_failed  `echo work > left.txt` failed with exit code 3: 1 of 12 failed

    item
      {
        "name": "beta",
        "priority": 7,
        "note": "y"
      }

    artifacts
      log       $ROOT/home/logs/repo/job/item-002/attempt-2.out
      worktree  $ROOT/home/worktrees/repo/job/item-002
      branch    prodigy/job/item-002
      patch     $ROOT/home/dlq/repo/job/mapreduce/dlq/job/patches/item-002.patch
      not committed
        left.txt new
    ----- stderr -----

    next:
      try it again      prodigy dlq retry job item-002
      all its output    prodigy logs job item-002
      its worktree      cd $ROOT/home/worktrees/repo/job/item-002
      take its changes  git apply $ROOT/home/dlq/repo/job/mapreduce/dlq/job/patches/item-002.patch
      discard           prodigy dlq drop job item-002 --reason TEXT
    "#);
    assert_snapshot!(steady(&world.prodigy(&["dlq", "analyze", "job"])), @"
    2 causes: 3 open, 2 of them can be replayed

    2 × command_failed (agent)
      cause      CommandFailed::echo work > <path> failed with exit code <n>: <n> of <n> failed
      seen       [time], 2 in the last hour
      example    prodigy dlq show job item-002
      to do      read its output; fix the command or its input, then replay
      replay     they can be replayed as they are
      next       prodigy dlq retry job --signature 1e27466408ef5c70

    1 × template_error (poison)
      cause      ValidationFailed::<q> has no value: <q> has no field <q>; did you mean <q>?
      seen       [time], 1 in the last hour
      example    prodigy dlq show job item-003
      to do      the item lacks what a template uses: correct the items or the workflow
      replay     it cannot be replayed as it is
      next       prodigy dlq list job --signature 58291ca561dbf4ba
    ");
    let seen = world.prodigy(&["dlq", "inspect", "job", "item-003"]);
    assert_snapshot!(seen.stderr, @"
    file: $ROOT/home/dlq/repo/job/mapreduce/dlq/job/items/item-003.json
    hash: right
    ");
    let filter = "item.priority > 5 && reason_code == 'command_failed'";
    let seen = world.prodigy(&["dlq", "export", "job", "--filter", filter]);
    let entry: Value = serde_json::from_str(&seen.stdout).unwrap();
    assert_eq!(entry["item_data"]["name"], "beta");
}

#[test]
fn a_filter_opens_files_only_for_what_the_list_does_not_say() {
    let world = failing();
    let items = world.home().join("dlq/repo/job/mapreduce/dlq/job/items");
    fs::write(items.join("item-001.json"), "damaged\n").unwrap();
    let list = |filter| steady(&world.prodigy(&["dlq", "list", "job", "--filter", filter]));
    assert_snapshot!(list("reason_code == 'command_failed'"), @"
    ITEM      REASON          REPLAY  TRIES  LAST FAILURE      CAUSE
    item-002  command_failed  yes     2      [time]  echo work > <path> failed with exit code <n>: <n> of <n> failed
    item-001  command_failed  yes     2      [time]  echo work > <path> failed with exit code <n>: <n> of <n> failed
    ----- stderr -----

    next:
      see one   prodigy dlq show job item-002
      by cause  prodigy dlq analyze job
    ");
    assert_snapshot!(list("item.name != 'x' && reason_code == 'command_failed'"), @"
    ITEM      REASON          REPLAY  TRIES  LAST FAILURE      CAUSE
    item-002  command_failed  yes     2      [time]  echo work > <path> failed with exit code <n>: <n> of <n> failed
    ----- stderr -----
    warning: job `job`: `$ROOT/home/dlq/repo/job/mapreduce/dlq/job/items/item-001.json` cannot be used: it is not a dead letter: expected value at line 1 column 1

    next:
      see one   prodigy dlq show job item-002
      by cause  prodigy dlq analyze job
    ");
}

#[test]
fn dropped_items_are_left_out_and_stay_readable() {
    let world = failing();
    let drop = |more: &[&str]| world.prodigy(&[&["dlq", "drop", "job"], more].concat());
    assert_code(&drop(&["item-001"]), 2);
    assert_snapshot!(drop(&["item-001", "--reason", " "]), @"
    ----- stderr -----
    error: the reason is empty

    hint: say in a few words why; it is recorded
    [exit 2]
    ");
    assert_snapshot!(drop(&["item-001", "item-004", "--reason", "x"]), @"
    ----- stderr -----
    error: job `job` has no dead letter of item `item-004`

    hint: `prodigy dlq list job --all` lists those it has
    [exit 2]
    ");
    assert_eq!(of_type(&world, "dlq_item_removed").len(), 0);
    assert_snapshot!(drop(&["item-001", "item-003", "--reason", "nobody needs them"]), @"
    dropped  item-001
    dropped  item-003
    ");
    assert_eq!(of_type(&world, "dlq_item_removed").len(), 2);
    assert_snapshot!(drop(&["item-001", "--reason", "again"]), @"
    ----- stderr -----
    error: `item-001` is dropped already

    hint: `prodigy dlq show job item-001` says since when and why
    [exit 2]
    ");
    let status = |item: &str, status: &str| (item.to_owned(), status.to_owned());
    assert_eq!(
        statuses(&world),
        [status("item-001", "dropped"), status("item-002", "open"), status("item-003", "dropped")]
    );
    let seen = steady(&world.prodigy(&["dlq", "show", "job", "item-001"]));
    assert_eq!(
        seen.lines().nth(1).unwrap().split(" by ").next(),
        Some("status      dropped [time]")
    );
    assert_code(&world.prodigy(&["verify", "job"]), 0);
}

#[test]
fn closed_entries_are_deleted_and_open_ones_only_on_demand() {
    let world = failing();
    let clear = |more: &[&str]| world.prodigy(&[&["dlq", "clear", "job"], more].concat());
    assert_snapshot!(clear(&["--yes"]), @"
    ----- stderr -----
    job `job` has no entries to delete
    3 open entries stay; `--all` deletes those as well
    ");
    assert_code(&world.prodigy(&["dlq", "drop", "job", "item-001", "--reason", "x"]), 0);
    assert_snapshot!(clear(&["--dry-run"]), @"would delete  item-001  dropped");
    assert_snapshot!(clear(&[]), @"
    ----- stderr -----
    error: this would delete 1 entry

    hint: pass `--yes` to delete without asking, or `--dry-run` to look first
    [exit 2]
    ");
    assert_snapshot!(clear(&["--all"]), @"
    ----- stderr -----
    error: this would delete 3 entries, 2 of them open: what those hold is left out for good

    hint: pass `--yes` to delete without asking, or `--dry-run` to look first
    [exit 2]
    ");
    assert_eq!(statuses(&world).len(), 3);
    assert_snapshot!(clear(&["--yes"]), @"
    deleted 1 entry
    ----- stderr -----
    2 open entries stay
    ");
    assert_eq!(statuses(&world).len(), 2);
    assert_snapshot!(clear(&["--all", "--yes", "--reason", "start over"]), @"deleted 2 entries");
    assert_eq!(statuses(&world), []);
    let removed = of_type(&world, "dlq_item_removed");
    let how: Vec<_> = removed.iter().map(|record| record["how"].as_str().unwrap()).collect();
    assert_eq!(how, ["dropped", "cleared", "cleared", "cleared"]);
    let items = world.home().join("dlq/repo/job/mapreduce/dlq/job/items");
    assert_eq!(fs::read_dir(items).unwrap().count(), 0);
    assert_code(&world.prodigy(&["verify", "job"]), 0);
}

#[test]
fn on_a_terminal_clearing_asks_first() {
    let world = failing();
    let clear = |typed| {
        let args = ["dlq", "clear", "job", "--all"];
        let (seen, code) = on_a_terminal_typing(&world, &args, (80, 24), typed, |_| {});
        (seen.replace("\r\n", "\n"), code)
    };
    let (seen, code) = clear("n\n");
    assert_snapshot!(seen, @"
    n
    This deletes 3 open entries: what they hold is left out for good. Go on? [y/N]
    error: nothing was deleted
    ");
    assert_eq!((code, statuses(&world).len()), (1, 3));
    let (seen, code) = clear("y\n");
    assert_snapshot!(seen, @"
    y
    This deletes 3 open entries: what they hold is left out for good. Go on? [y/N]
    deleted 3 entries
    ");
    assert_eq!((code, statuses(&world).len()), (0, 0));
}

#[test]
fn dead_letters_can_be_read_and_not_closed_while_the_job_runs() {
    let waits = "        test ${item.name} = delta && \
                 while ! test -e ROOT/go; do sleep 0.05; done\n";
    let workflow = FAILING.replace("        test ${item.name} = delta && exit 0\n", waits);
    let world = map_world(&workflow.replace("max_attempts: 2", "max_attempts: 1"));
    let mut run = started(&world);
    run.until(&world, "three items are given up", || {
        has_told(&world, "item_dead_lettered") && of_type(&world, "item_dead_lettered").len() == 3
    });
    run.until(&world, "they are listed", || {
        let seen = world.prodigy(&["dlq", "list", "job", "--json"]);
        seen.stdout.matches("\"item_id\"").count() == 3
    });
    let seen = world.prodigy(&["dlq", "drop", "job", "item-001", "--reason", "x"]);
    assert_code(&seen, 75);
    let seen = world.prodigy(&["dlq", "show", "job", "item-001", "--json"]);
    assert_code(&seen, 0);
    fs::write(world.root().join("go"), "").unwrap();
    assert_code(&run.seen(&world), 1);
    assert_eq!(statuses(&world).len(), 4);
}

#[test]
fn files_that_are_gone_or_changed_are_made_again_from_the_journal() {
    let world = failing();
    let fsck = |more: &[&str]| world.prodigy(&[&["dlq", "fsck"], more].concat());
    assert_snapshot!(fsck(&["job"]), @"job job: 3 entries, all as the journal says");
    assert_snapshot!(fsck(&[]), @"3 entries, all as the journals say");
    let before = world.prodigy(&["dlq", "export", "job"]).stdout;
    let items = world.home().join("dlq/repo/job/mapreduce/dlq/job/items");
    fs::remove_file(items.join("item-001.json")).unwrap();
    let changed = items.join("item-002.json");
    let text = fs::read_to_string(&changed).unwrap();
    fs::write(&changed, text.replace("beta", "betta")).unwrap();
    fs::write(items.join("item-009.json"), "{}\n").unwrap();
    assert_snapshot!(fsck(&["job", "--dry-run"]), @"
    job job: 3 entries, not as the journal says
      missing  item-001  its file is not there
      damaged  `$ROOT/home/dlq/repo/job/mapreduce/dlq/job/items/item-002.json` cannot be used: it was changed since it was written
      foreign  $ROOT/home/dlq/repo/job/mapreduce/dlq/job/items/item-009.json  it belongs to no entry and is left alone
    ----- stderr -----

    next: `prodigy dlq fsck` without `--dry-run` puts it right
    [exit 1]
    ");
    assert_snapshot!(fsck(&["--dry-run", "--json"]), @r#"
    {
      "schema_version": 1,
      "whole": false,
      "jobs": [
        {
          "job_id": "job",
          "entries": 3,
          "missing": [
            "item-001"
          ],
          "damaged": [
            {
              "file": "$ROOT/home/dlq/repo/job/mapreduce/dlq/job/items/item-002.json",
              "reason": "`$ROOT/home/dlq/repo/job/mapreduce/dlq/job/items/item-002.json` cannot be used: it was changed since it was written"
            }
          ],
          "stale": [],
          "unlisted": [],
          "foreign": [
            "$ROOT/home/dlq/repo/job/mapreduce/dlq/job/items/item-009.json"
          ],
          "repaired": false
        }
      ]
    }
    ----- stderr -----

    next: `prodigy dlq fsck` without `--dry-run` puts it right
    [exit 1]
    "#);
    assert_snapshot!(fsck(&["job"]), @"
    job job: 3 entries, put right
      missing  item-001  its file is not there
      damaged  `$ROOT/home/dlq/repo/job/mapreduce/dlq/job/items/item-002.json` cannot be used: it was changed since it was written
      foreign  $ROOT/home/dlq/repo/job/mapreduce/dlq/job/items/item-009.json  it belongs to no entry and is left alone
    ");
    assert_snapshot!(fsck(&["job"]), @"
    job job: 3 entries, all as the journal says
      foreign  $ROOT/home/dlq/repo/job/mapreduce/dlq/job/items/item-002.json.damaged  it belongs to no entry and is left alone
      foreign  $ROOT/home/dlq/repo/job/mapreduce/dlq/job/items/item-009.json  it belongs to no entry and is left alone
    ");
    assert_eq!(world.prodigy(&["dlq", "export", "job"]).stdout, before);
    assert_snapshot!(fsck(&["other"]), @"
    ----- stderr -----
    error: there is no job `other`

    hint: `prodigy jobs` lists the jobs there are
    [exit 2]
    ");
}
