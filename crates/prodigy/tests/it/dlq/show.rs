//! `prodigy dlq show`, `inspect`, `analyze`, `stats` and `export`.

use std::fs;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::{
    fixture::{
        dead_letters::{failed_tests, five, put},
        journal::{layout, record, started},
    },
    security::hostile_values::on_a_terminal_of,
};

#[test]
fn an_entry_is_shown_as_a_person_wants_to_read_it() {
    let world = five();
    assert_snapshot!(world.prodigy(&["dlq", "show", "job", "item-002"]), @r#"
    item        item-002 of job job
    status      open
    reason      command_failed (agent)
    message     `cargo test` ended with exit code 101
    cause       CommandFailed::`cargo test` ended with exit code <n> [c0ffeec0ffeec0ff]
    where       step map.2 shell: cargo test, attempt 2, agent-2, exit code 101
    failed      2 times, from 2026-01-02T03:00:05Z to 2026-01-02T03:40:05Z
    replay      it can be replayed
    because     rule `built-in:command_failed` says auto_replay
    to do       read its output; fix the command or its input, then replay

    last lines of output
      running 12 tests
      test parse::nested ... FAILED

      test result: FAILED. 11 passed; 1 failed

    attempts
      #  ENDED             TOOK    COST   REASON          MESSAGE
      1  2026-01-02 03:35  1m 11s  $0.25  command_failed  `cargo test` ended with exit code 101
      2  2026-01-02 03:40  1m 12s  $0.25  command_failed  `cargo test` ended with exit code 101

    item
      {
        "file": "src/item-002.rs",
        "priority": 9
      }

    artifacts
      log       /home/logs/item-002/attempt-2.out
      worktree  /home/worktrees/item-002
      branch    prodigy/job/item-002
      patch     /home/dlq/item-002.patch
      not committed
         M src/parse.rs
        ?? src/new.rs
    ----- stderr -----

    next:
      try it again      prodigy dlq retry job item-002
      all its output    prodigy logs job item-002
      its worktree      cd /home/worktrees/item-002
      take its changes  git apply /home/dlq/item-002.patch
      discard           prodigy dlq drop job item-002 --reason TEXT
    "#);
    let seen = world.prodigy(&["dlq", "show", "job", "item-003"]).to_string();
    let without_middle: Vec<_> = seen.split("\n\n").collect();
    assert_snapshot!(without_middle.first().unwrap(), @"
    item        item-003 of job job
    status      open
    reason      template_error (poison)
    message     `item.path` has no value
    cause       ValidationFailed::`<s>` has no value [feedfeedfeedfeed]
    where       step map.2 shell: cargo test, attempt 2, agent-2, exit code 101
    failed      2 times, from 2026-01-02T03:00:05Z to 2026-01-02T03:30:05Z
    replay      quarantined until changed or released
    because     rule `built-in:template_error` says quarantine; nothing changed since it failed
    to do       the item lacks what a template uses: correct the items or the workflow
    ");
    assert_snapshot!(without_middle.last().unwrap(), @"
    next:
      all its output  prodigy logs job item-003
      get it on       prodigy dlq edit job item-003 --set FIELD=VALUE --reason TEXT
      discard         prodigy dlq drop job item-003 --reason TEXT
    ");
    let seen = world.prodigy(&["dlq", "show", "job", "item-005"]).to_string();
    assert_snapshot!(seen.lines().take(8).collect::<Vec<_>>().join("\n"), @"
    item        item-005 of job job
    status      dropped 2026-01-02T06:00:00Z by ada: nobody needs it
    reason      command_failed (agent)
    message     `cargo test` ended with exit code 101
    cause       CommandFailed::`cargo test` ended with exit code <n> [c0ffeec0ffeec0ff]
    where       step map.2 shell: cargo test, attempt 2, agent-2, exit code 101
    failed      2 times, from 2026-01-02T03:00:05Z to 2026-01-02T03:50:05Z
    replay      it is closed
    ");
    assert_snapshot!(seen.split("\n\n").last().unwrap(), @"
    next:
      all its output    prodigy logs job item-005
      its worktree      cd /home/worktrees/item-005
      take its changes  git apply /home/dlq/item-005.patch
    ");
}

#[test]
fn an_entry_is_shown_as_json_with_what_to_do() {
    let world = five();
    let seen = world.prodigy(&["dlq", "show", "job", "item-003", "--json"]);
    let mut document: Value = serde_json::from_str(&seen.stdout).unwrap();
    assert_eq!(document["entry"]["item_data"]["priority"], 5);
    assert_eq!(document["file"].as_str().unwrap().rsplit('/').next(), Some("item-003.json"));
    document["entry"] = json!("…");
    document["file"] = json!("…");
    assert_snapshot!(format!("{document:#}"), @r#"
    {
      "schema_version": 1,
      "file": "…",
      "can_replay": false,
      "verdict": "quarantine",
      "rule": "built-in:template_error",
      "why": [
        "rule `built-in:template_error` says quarantine",
        "nothing changed since it failed"
      ],
      "suggestion": "the item lacks what a template uses: correct the items or the workflow",
      "entry": "…"
    }
    "#);
}

#[test]
fn an_item_that_no_value_can_hold_is_kept_as_it_was_written() {
    let world = five();
    let mut entry = failed_tests("item-006", 50, 1);
    entry["item_data"] = json!("HERE");
    put(&world, "job", entry);
    let path = layout(&world).dlq_item(&"job".parse().unwrap(), &"item-006".parse().unwrap());
    let odd = r#"{"large": 1e400, "long": 123456789012345678901234567890, "half": "\ud800"}"#;
    let text = fs::read_to_string(&path).unwrap().replace("\"HERE\"", odd);
    let mut sealed: prodigy_core::dlq::DeadLetteredItem = serde_json::from_str(&text).unwrap();
    sealed.update_hash();
    fs::write(&path, serde_json::to_string(&sealed).unwrap()).unwrap();
    for args in
        [&["dlq", "show", "job", "item-006", "--json"][..], &["dlq", "inspect", "job", "item-006"]]
    {
        let seen = world.prodigy(args);
        let lines: Vec<_> = seen.stdout.lines().map(str::trim).collect();
        let start = lines.iter().position(|line| *line == "\"item_data\": {").unwrap();
        assert_eq!(
            &lines[start + 1..start + 4],
            [
                "\"large\": 1e400,",
                "\"long\": 123456789012345678901234567890,",
                "\"half\": \"\\ud800\""
            ]
        );
    }
    assert_eq!(world.prodigy(&["dlq", "show", "job", "item-006"]).code, Some(0));
    let args = [
        "dlq",
        "list",
        "job",
        "--filter",
        "item.large == null && topic == 'map.2'",
        "--limit",
        "1",
    ];
    let seen = world.prodigy(&args);
    assert_eq!(seen.stdout.lines().nth(1).unwrap().split("  ").next(), Some("item-006"));
    let seen = world.prodigy(&["dlq", "export", "job", "--limit", "1"]);
    assert_eq!(seen.stdout.matches("1e400").count(), 1, "{seen}");
}

#[test]
fn long_items_and_long_output_are_cut() {
    let world = five();
    let mut entry = failed_tests("item-006", 50, 1);
    entry["item_data"] = json!({"list": (0..100).collect::<Vec<_>>(), "text": "x".repeat(5000)});
    let lines: Vec<_> = (1..=60).map(|line| format!("line {line} \x1b[31mred")).collect();
    entry["failure_history"][1]["output_tail"] = json!(lines.join("\n"));
    let changes: Vec<_> = (0..50).map(|file| format!(" M file-{file}")).collect();
    entry["worktree_artifacts"]["uncommitted_changes"] = json!(changes.join("\n"));
    put(&world, "job", entry);
    let seen = world.prodigy(&["dlq", "show", "job", "item-006"]);
    assert_snapshot!(seen.stdout, @r#"
    item        item-006 of job job
    status      open
    reason      command_failed (agent)
    message     `cargo test` ended with exit code 101
    cause       CommandFailed::`cargo test` ended with exit code <n> [c0ffeec0ffeec0ff]
    where       step map.2 shell: cargo test, attempt 2, agent-2, exit code 101
    failed      2 times, from 2026-01-02T03:00:05Z to 2026-01-02T03:50:05Z
    replay      it can be replayed
    because     rule `built-in:command_failed` says auto_replay
    to do       read its output; fix the command or its input, then replay

    last lines of output
      …
      line 41 \u{1b}[31mred
      line 42 \u{1b}[31mred
      line 43 \u{1b}[31mred
      line 44 \u{1b}[31mred
      line 45 \u{1b}[31mred
      line 46 \u{1b}[31mred
      line 47 \u{1b}[31mred
      line 48 \u{1b}[31mred
      line 49 \u{1b}[31mred
      line 50 \u{1b}[31mred
      line 51 \u{1b}[31mred
      line 52 \u{1b}[31mred
      line 53 \u{1b}[31mred
      line 54 \u{1b}[31mred
      line 55 \u{1b}[31mred
      line 56 \u{1b}[31mred
      line 57 \u{1b}[31mred
      line 58 \u{1b}[31mred
      line 59 \u{1b}[31mred
      line 60 \u{1b}[31mred

    attempts
      #  ENDED             TOOK    COST   REASON          MESSAGE
      1  2026-01-02 03:45  1m 11s  $0.25  command_failed  `cargo test` ended with exit code 101
      2  2026-01-02 03:50  1m 12s  $0.25  command_failed  `cargo test` ended with exit code 101

    item
      {
        "list": [
          0,
          1,
          2,
          3,
          4,
          5,
          6,
          7,
          8,
          9,
          10,
          11,
          12,
          13,
          14,
          15,
          16,
          17,
          18,
          19,
          20,
      … and 82 more lines

    artifacts
      log       /home/logs/item-006/attempt-2.out
      worktree  /home/worktrees/item-006
      branch    prodigy/job/item-006
      patch     /home/dlq/item-006.patch
      not committed
         M file-0
         M file-1
         M file-2
         M file-3
         M file-4
         M file-5
         M file-6
         M file-7
         M file-8
         M file-9
         M file-10
        … and 39 more lines
    "#);
}

#[test]
fn a_job_is_shown_at_a_glance_by_cause() {
    let world = five();
    assert_snapshot!(world.prodigy(&["dlq", "show", "job"]), @"
    job         job
    entries     3 open, 2 of them can be replayed, 1 resolved, 1 dropped
    newest      2026-01-02T03:40:05Z

    COUNT  REASON          REPLAY  EXAMPLE   CAUSE
        2  command_failed  yes     item-002  `cargo test` ended with exit code <n>
        1  template_error  no      item-003  `<s>` has no value
    ----- stderr -----

    next:
      see one         prodigy dlq show job item-002
      see what to do  prodigy dlq analyze job
      try again       prodigy dlq retry job
    ");
    let seen = world.prodigy(&["dlq", "show", "job", "--json"]);
    let document: Value = serde_json::from_str(&seen.stdout).unwrap();
    let counts = ["open", "replaying", "resolved", "dropped", "can_replay"];
    assert_eq!(counts.map(|name| document[name].as_u64().unwrap()), [3, 0, 1, 1, 2]);
    assert_snapshot!(world.prodigy(&["dlq", "show", "job", "item-099"]), @"
    ----- stderr -----
    error: job `job` has no dead letter of item `item-099`

    hint: `prodigy dlq list job --all` lists those it has
    [exit 2]
    ");
}

#[test]
fn an_entry_is_printed_as_it_is_stored() {
    let world = five();
    let path = layout(&world).dlq_item(&"job".parse().unwrap(), &"item-001".parse().unwrap());
    let stored = fs::read_to_string(&path).unwrap();
    let seen = world.prodigy(&["dlq", "inspect", "job", "item-001"]);
    let value: Value = serde_json::from_str(&stored).unwrap();
    assert_eq!(seen.stdout, format!("{value:#}\n"));
    assert_snapshot!(seen.stderr, @"
    file: $ROOT/home/dlq/repo/job/mapreduce/dlq/job/items/item-001.json
    hash: right
    ");
    fs::write(&path, stored.replace("\"priority\":3", "\"priority\":4")).unwrap();
    let seen = world.prodigy(&["dlq", "inspect", "job", "item-001"]);
    assert_eq!(serde_json::from_str::<Value>(&seen.stdout).unwrap()["item_data"]["priority"], 4);
    assert_snapshot!(seen.stderr, @"
    file: $ROOT/home/dlq/repo/job/mapreduce/dlq/job/items/item-001.json
    hash: wrong: the entry was changed since it was written

    next: `prodigy dlq fsck job` makes it anew
    ");
    assert_eq!(seen.code, Some(1));
    fs::write(&path, "not JSON\n").unwrap();
    assert_snapshot!(world.prodigy(&["dlq", "inspect", "job", "item-001"]), @"
    not JSON
    ----- stderr -----
    file: $ROOT/home/dlq/repo/job/mapreduce/dlq/job/items/item-001.json
    hash: not checked: it is not a dead letter: expected ident at line 1 column 2

    next: `prodigy dlq fsck job` makes it anew
    [exit 1]
    ");
    assert_snapshot!(world.prodigy(&["dlq", "inspect", "job", "item-099"]), @"
    ----- stderr -----
    error: job `job` has no dead letter of item `item-099`

    hint: `prodigy dlq list job --all` lists those it has
    [exit 2]
    ");
}

#[test]
fn causes_are_grouped_with_what_to_do_about_them() {
    let world = five();
    assert_snapshot!(world.prodigy(&["dlq", "analyze", "job"]), @"
    2 causes: 3 open, 2 of them can be replayed, 1 resolved, 1 dropped

    2 × command_failed (agent)
      cause      CommandFailed::`cargo test` ended with exit code <n>
      seen       2026-01-02T03:10:05Z to 2026-01-02T03:40:05Z
      example    prodigy dlq show job item-002
      to do      read its output; fix the command or its input, then replay
      replay     they can be replayed as they are
      next       prodigy dlq retry job --signature c0ffeec0ffeec0ff

    1 × template_error (poison)
      cause      ValidationFailed::`<s>` has no value
      seen       2026-01-02T03:30:05Z
      example    prodigy dlq show job item-003
      to do      the item lacks what a template uses: correct the items or the workflow
      replay     it cannot be replayed as it is
      next       prodigy dlq list job --signature feedfeedfeedfeed
    ");
    assert_snapshot!(world.prodigy(&["dlq", "analyze", "job", "--limit", "1", "--json"]), @r#"
    {
      "schema_version": 1,
      "open": 3,
      "replaying": 0,
      "resolved": 1,
      "dropped": 1,
      "causes": 2,
      "groups": [
        {
          "error_signature": "c0ffeec0ffeec0ff",
          "error_pattern": "CommandFailed::`cargo test` ended with exit code <n>",
          "error_type": "CommandFailed",
          "reason_code": "command_failed",
          "class": "agent",
          "count": 2,
          "can_replay": 2,
          "last_hour": 0,
          "first_seen": "2026-01-02T03:10:05Z",
          "last_seen": "2026-01-02T03:40:05Z",
          "example": {
            "job_id": "job",
            "item_id": "item-002"
          },
          "suggestion": "read its output; fix the command or its input, then replay",
          "command": "prodigy dlq retry job --signature c0ffeec0ffeec0ff"
        }
      ]
    }
    "#);
    record(&layout(&world), "newer", &[(60_000, started())]);
    put(&world, "newer", failed_tests("item-001", 59, 1));
    let seen = world.prodigy(&["dlq", "analyze", "--limit", "1"]);
    assert_snapshot!(seen, @"
    2 causes: 4 open, 3 of them can be replayed, 1 resolved, 1 dropped

    3 × command_failed (agent)
      cause      CommandFailed::`cargo test` ended with exit code <n>
      seen       2026-01-02T03:10:05Z to 2026-01-02T03:59:05Z
      example    prodigy dlq show newer item-001
      to do      read its output; fix the command or its input, then replay
      replay     they can be replayed as they are
      next       prodigy dlq list --signature c0ffeec0ffeec0ff
    ----- stderr -----

    and 1 more; `--limit 2` shows them all
    ");
}

#[test]
fn entries_are_counted() {
    let world = five();
    assert_snapshot!(world.prodigy(&["dlq", "stats", "job"]), @"
    entries     3 open, 2 of them can be replayed, 1 resolved, 1 dropped
    causes      2
    oldest      2026-01-02T03:10:05Z
    newest      2026-01-02T03:40:05Z
    attempts    10, 1 replay
    cost        $2.50

    by reason
           2  command_failed
           1  template_error

    by class
           2  agent
           1  poison

    by error type
           2  CommandFailed
           1  ValidationFailed
    ");
    assert_snapshot!(world.prodigy(&["dlq", "stats", "--json"]), @r#"
    {
      "schema_version": 1,
      "jobs": 1,
      "open": 3,
      "replaying": 0,
      "resolved": 1,
      "dropped": 1,
      "can_replay": 2,
      "causes": 2,
      "by_reason": {
        "command_failed": 2,
        "template_error": 1
      },
      "by_class": {
        "agent": 2,
        "poison": 1
      },
      "by_error_type": {
        "CommandFailed": 2,
        "ValidationFailed": 1
      },
      "oldest": "2026-01-02T03:10:05Z",
      "newest": "2026-01-02T03:40:05Z",
      "attempts": 10,
      "replays": 1,
      "cost_usd": 2.5
    }
    "#);
}

#[test]
fn entries_are_exported_as_json_and_lines() {
    let world = five();
    let export = |more: &[&str]| {
        let seen = world.prodigy(&[&["dlq", "export", "job"], more].concat());
        assert_eq!((seen.code, seen.stderr.as_str()), (Some(0), ""), "{seen}");
        seen.stdout
    };
    let ids = |values: Vec<Value>| {
        let ids = values.iter().map(|value| value["item_id"].as_str().unwrap().to_owned());
        ids.collect::<Vec<_>>()
    };
    let lines = export(&[]);
    let values = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(ids(values), ["item-002", "item-003", "item-001"]);
    let values = serde_json::from_str(&export(&["--format", "json", "--all"])).unwrap();
    assert_eq!(ids(values).len(), 5);
    let values = serde_json::from_str(&export(&["--format", "json", "--class", "poison"])).unwrap();
    assert_eq!(ids(values), ["item-003"]);
    assert_eq!(export(&["--format", "json", "--reason", "timeout"]), "[\n]\n");
}

#[test]
fn entries_are_exported_as_csv_that_no_spreadsheet_takes_for_formulas() {
    let world = five();
    let mut evil = failed_tests("item-009", 55, 1);
    evil["reason"] = json!("=HYPERLINK(\"http://x\",\"a, b\")");
    evil["topic"] = json!("+1+1");
    evil["failure_history"][1]["step_failed"] = json!("@SUM(A1)\nnext");
    evil["failure_history"][1]["exit_code"] = json!(-1);
    put(&world, "job", evil);
    let file = world.root().join("letters.csv");
    let args = ["dlq", "export", "job", "--format", "csv", "--output", file.to_str().unwrap()];
    assert_snapshot!(world.prodigy(&args), @"");
    let text = fs::read_to_string(&file).unwrap();
    assert_snapshot!(text.lines().take(3).collect::<Vec<_>>().join("\n"), @r#"
    job_id,item_id,status,reason_code,class,error_type,error_signature,error_pattern,reason,topic,step_failed,exit_code,attempts,replays,first_attempt,last_attempt,reprocess_eligible,manual_review_required,cost_usd,worktree_path,branch_name,patch_file,json_log_location,item_data
    job,item-009,open,command_failed,agent,CommandFailed,c0ffeec0ffeec0ff,CommandFailed::`cargo test` ended with exit code <n>,"'=HYPERLINK(""http://x"",""a, b"")",'+1+1,"'@SUM(A1)
    next",-1,2,0,2026-01-02T03:00:05Z,2026-01-02T03:55:05Z,true,false,0.5,/home/worktrees/item-009,prodigy/job/item-009,/home/dlq/item-009.patch,/home/logs/item-009/attempt-2.out,"{""file"":""src/item-009.rs"",""priority"":1}"
    "#);
    let args = ["dlq", "export", "job", "--format", "csv", "--output", "/nowhere/x.csv"];
    assert_snapshot!(world.prodigy(&args), @"
    ----- stderr -----
    error: cannot write `/nowhere/x.csv`
      caused by: No such file or directory (os error 2)

    hint: nothing was done; name a file that can be written
    [exit 2]
    ");
}

#[test]
fn entries_are_exported_as_a_page_for_people() {
    let world = five();
    let mut odd = failed_tests("item-009", 55, 1);
    odd["reason"] = json!("`a` and ``b``\n# not a title");
    odd["failure_history"][1]["output_tail"] = json!("```\nfence\n```");
    put(&world, "job", odd);
    let seen = world.prodigy(&["dlq", "export", "job", "--format", "md", "--limit", "1"]);
    assert_snapshot!(seen, @r#"
    # Dead letters

    ## item-009 of job job

    - **status**: open
    - **reason**: `command_failed` (agent)
    - **message**: ``` `a` and ``b``\n# not a title ```
    - **cause**: ``CommandFailed::`cargo test` ended with exit code <n>``, signature c0ffeec0ffeec0ff
    - **attempts**: 2, the last ended 2026-01-02T03:55:05Z
    - **to do**: read its output; fix the command or its input, then replay
    - **step**: `map.2` `shell: cargo test`
    - **cost**: $0.50
    - **log**: `/home/logs/item-009/attempt-2.out`
    - **worktree**: `/home/worktrees/item-009`
    - **branch**: `prodigy/job/item-009`
    - **patch**: `/home/dlq/item-009.patch`

    ```json
    {
      "file": "src/item-009.rs",
      "priority": 1
    }
    ```

    ````text
    ```
    fence
    ```
    ````
    "#);
}

#[test]
fn on_a_terminal_the_next_commands_stand_below_the_entry() {
    let world = five();
    let args = ["dlq", "show", "job", "item-002"];
    let (seen, _) = on_a_terminal_of(&world, &args, (80, 24), |_| {});
    let seen = seen.replace("\r\n", "\n");
    assert!(seen.find("artifacts").unwrap() < seen.find("next:").unwrap(), "{seen}");
}
