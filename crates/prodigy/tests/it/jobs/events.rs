//! `prodigy events`.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::Stdio,
};

use insta::assert_snapshot;

use crate::fixture::journal::{
    completed, damage, failed, half, hold, layout, record, started, world,
};

#[test]
fn every_event_is_one_line() {
    let world = world();
    record(&layout(&world), "job-1", &completed());
    assert_snapshot!(world.prodigy(&["events", "job-1"]), @"
    2026-01-02 UTC
    03:04:05.000  job_started         tidy.yml  3 steps
    03:04:05.005  worktree_created    prodigy/job  /trees/job
    03:04:05.006  phase_started       steps
    03:04:05.007  step_started        1  shell: cargo fmt
    03:04:06.207  step_completed      1  shell: cargo fmt  1.2s
    03:04:06.208  step_started        2  shell: cargo test
    03:04:07.000  job_paused          interrupted  stopped by Ctrl-C
    2026-01-03 UTC
    04:04:05.000  job_resumed         prodigy 0.1.0
    04:04:05.001  step_started        2  shell: cargo test
    04:04:07.000  step_completed      2  shell: cargo test  2s
    04:04:07.001  step_skipped        3  claude: /polish  because `${polish}` is false
    04:04:07.002  agent_usage         2  claude  $0.50
    04:04:08.000  worktree_merged     prodigy/job into main  2 commits
    04:04:08.001  worktree_cleaned    /trees/job
    04:04:08.002  job_completed       2 commits  5s
    ");
}

#[test]
fn every_kind_of_event_has_something_to_say() {
    let world = world();
    let golden = include_str!("../../../../prodigy-engine/tests/golden/v1/every-event.jsonl");
    let job = "workflow-20260824-101500-a1b2c3d4";
    let directory = layout(&world).events_dir(&job.parse().unwrap());
    std::fs::create_dir_all(&directory).unwrap();

    std::fs::write(directory.join("events-20260824T101500Z.jsonl"), golden).unwrap();
    assert_snapshot!(world.prodigy(&["events", job]), @"
    2026-08-24 UTC
    10:15:00.000  job_started         tidy  4 steps in each of 2 rounds
    10:15:00.005  worktree_created    prodigy/workflow-20260824-101500-a1b2c3d4  /home/ann/.prodigy/worktrees/repo/workflow-20260824-101500-a1b2c3d4/main
    10:15:00.006  phase_started       steps
    10:15:00.007  step_started        1  shell: cargo fmt
    10:15:01.200  step_completed      1  shell: cargo fmt  1.2s
    10:15:01.201  step_started        2  shell: cargo test
    10:15:02.500  step_failed         2  shell: cargo test  command_failed: exit code 101  1.3s  (is tried again)
    10:15:03.000  job_paused          interrupted  Ctrl-C
    10:15:04.000  job_resumed         prodigy 0.1.0  with a changed workflow
    10:15:04.001  step_started        2  shell: cargo test  attempt 2
    10:15:05.000  step_completed      2  shell: cargo test  3.8s  recovered
    10:15:05.001  step_skipped        3  claude: /polish  because `${count} > 5` is false
    10:15:05.002  step_started        4  claude: /review
    10:15:06.000  agent_usage         4  claude  $0.12
    10:15:06.001  step_completed      4  claude: /review  999ms  failed, the job goes on
    10:15:06.002  checkpoint_created  up to record 15
    10:15:06.003  phase_completed     steps
    10:15:06.004  phase_started       merge
    10:15:06.005  merge_conflict      with main  src/a.rs
    10:15:06.006  worktree_preserved  /home/ann/.prodigy/worktrees/repo/workflow-20260824-101500-a1b2c3d4/main  the merge met a conflict
    10:15:06.007  job_failed          merge  merge_conflict: `src/a.rs` was changed on both sides
    10:15:07.000  job_resumed         prodigy 0.1.0
    10:15:07.001  worktree_merged     prodigy/workflow-20260824-101500-a1b2c3d4 into main  2 commits
    10:15:07.002  worktree_cleaned    /home/ann/.prodigy/worktrees/repo/workflow-20260824-101500-a1b2c3d4/main
    10:15:07.002  git_tampering       core.hooksPath
    10:15:07.003  job_completed       2 commits  6s  with failures
    ");
}

#[test]
fn filters_can_be_combined() {
    let world = world();
    record(&layout(&world), "job-1", &completed());
    let events = |args: &[&str]| world.prodigy(&[&["events", "job-1"], args].concat());
    assert_snapshot!(events(&["--type", "step_started", "--type", "step_skipped"]), @"
    2026-01-02 UTC
    03:04:05.007  step_started        1  shell: cargo fmt
    03:04:06.208  step_started        2  shell: cargo test
    2026-01-03 UTC
    04:04:05.001  step_started        2  shell: cargo test
    04:04:07.001  step_skipped        3  claude: /polish  because `${polish}` is false
    ");
    assert_snapshot!(events(&["--type", "job_started,job_completed"]), @"
    2026-01-02 UTC
    03:04:05.000  job_started         tidy.yml  3 steps
    2026-01-03 UTC
    04:04:08.002  job_completed       2 commits  5s
    ");
    assert_snapshot!(events(&["--step", "2", "--limit", "2"]), @"
    2026-01-03 UTC
    04:04:07.000  step_completed      2  shell: cargo test  2s
    04:04:07.002  agent_usage         2  claude  $0.50
    ");
    assert_snapshot!(events(&["--agent", "claude"]), @"
    2026-01-03 UTC
    04:04:07.002  agent_usage         2  claude  $0.50
    ");
    assert_snapshot!(events(&["--since", "2026-01-03T04:04:07.001Z", "--limit", "1"]), @"
    2026-01-03 UTC
    04:04:08.002  job_completed       2 commits  5s
    ");
    assert_snapshot!(events(&["--since", "1s"]), @"
    ----- stderr -----
    no event matches
    ");
}

#[test]
fn a_filter_that_makes_no_sense_is_refused() {
    let world = world();
    record(&layout(&world), "job-1", &completed());
    let events = |args: &[&str]| world.prodigy(&[&["events", "job-1"], args].concat());
    assert_snapshot!(events(&["--type", "step_startet"]), @"
    ----- stderr -----
    error: there is no event type `step_startet`

    hint: the types are job_started, job_resumed, job_paused, job_completed, job_failed, phase_started, phase_completed, items_selected, item_queued, agent_started, agent_completed, agent_failed, agent_retrying, item_skipped, item_dead_lettered, replay_started, dlq_item_removed, dlq_item_updated, approval_requested, approval_granted, approval_denied, effect_prepared, effect_committed, effect_reconciled, effect_compensated, circuit_open, circuit_half_open, circuit_closed, step_started, step_completed, step_failed, step_skipped, agent_session_started, agent_tool_used, agent_usage, agent_warned, agent_released, work_suspended, quota_paused, quota_warned, quota_resumed, budget_exceeded, concurrency_changed, worktree_created, worktree_merged, worktree_preserved, worktree_cleaned, work_kept, merge_conflict, handler_restarted, resolution_started, resolution_completed, resolution_failed, git_tampering, checkout_update_started, checkout_changed, guarded_files_changed, journal_end_lost, checkpoint_created
    [exit 2]
    ");
    assert_snapshot!(events(&["--since", "yesterday"]), @"
    ----- stderr -----
    error: `yesterday` is neither a time nor a duration

    hint: write `--since 10m` or `--since 2026-01-31T08:00:00Z`
    [exit 2]
    ");
}

#[test]
fn the_records_can_be_had_as_they_are() {
    let world = world();
    record(&layout(&world), "job-1", &failed());
    assert_snapshot!(world.prodigy(&["events", "job-1", "--json", "--limit", "2"]), @r#"
    {"format":1,"seq":7,"timestamp":"2026-01-02T03:04:08.208Z","job_id":"job-1","event_type":"step_failed","step":"2","attempt":1,"failure":{"kind":"command_failed","message":"exit code 101","exit_code":101},"then":"stop","duration_ms":2000,"log":{"stdout_at":10,"stdout_len":8,"stderr_at":0,"stderr_len":15}}
    {"format":1,"seq":8,"timestamp":"2026-01-02T03:04:08.209Z","job_id":"job-1","event_type":"job_failed","step":"2","failure":{"kind":"command_failed","message":"exit code 101","exit_code":101}}
    "#);
}

#[test]
fn the_older_spellings_work() {
    let world = world();
    record(&layout(&world), "job-1", &failed());
    assert_snapshot!(world.prodigy(&["events", "ls", "--job-id", "job-1", "--limit", "1"]), @"
    2026-01-02 UTC
    03:04:08.209  job_failed          2  command_failed: exit code 101
    ");
    assert_snapshot!(world.prodigy(&["events", "follow", "--job-id", "job-1", "--limit", "1"]), @"
    2026-01-02 UTC
    03:04:08.209  job_failed          2  command_failed: exit code 101
    ");
}

#[test]
fn without_a_job_the_newest_is_shown() {
    let world = world();
    assert_snapshot!(world.prodigy(&["events"]), @"
    ----- stderr -----
    error: there are no jobs yet

    hint: `prodigy run WORKFLOW` starts one
    [exit 2]
    ");
    record(&layout(&world), "job-2", &[(0, started())]);
    record(&layout(&world), "job-1", &[(5000, started())]);
    assert_snapshot!(world.prodigy(&["events"]), @"
    2026-01-02 UTC
    03:04:10.000  job_started         tidy.yml  3 steps
    ----- stderr -----
    job job-1
    ");
}

#[test]
fn a_job_is_found_from_outside_of_its_repository() {
    let world = world();
    record(&layout(&world), "job-1", &[(0, started())]);
    let output =
        world.prodigy_command(&["events", "job-1"]).current_dir(world.root()).output().unwrap();
    assert_snapshot!(world.to_output(&output), @"
    2026-01-02 UTC
    03:04:05.000  job_started         tidy.yml  3 steps
    ");
}

#[test]
fn a_job_that_does_not_exist_is_named() {
    let world = world();
    assert_snapshot!(world.prodigy(&["events", "job-1"]), @"
    ----- stderr -----
    error: there is no job `job-1`

    hint: `prodigy jobs` lists the jobs there are
    [exit 2]
    ");
    assert_snapshot!(world.prodigy(&["events", "../etc"]), @"
    ----- stderr -----
    error: invalid value '../etc' for '[JOB]': `../etc` is not a usable name: use letters, digits, `.`, `_` and `-`, start with a letter or digit, at most 120 characters

    For more information, try '--help'.
    [exit 2]
    ");
}

#[test]
fn damage_is_named_after_what_is_before_it() {
    let world = world();
    record(&layout(&world), "job-1", &failed());
    damage(&layout(&world), "job-1", 3);
    assert_snapshot!(world.prodigy(&["events", "job-1"]), @"
    2026-01-02 UTC
    03:04:05.000  job_started         tidy.yml  3 steps
    03:04:05.005  worktree_created    prodigy/job  /trees/job
    ----- stderr -----
    error: `$ROOT/home/events/repo/job-1/events-20260102T030405Z.jsonl` is damaged at line 3: the checksum does not match

    hint: `prodigy repair job-1 --dry-run` says what can be kept
    [exit 1]
    ");
}

#[test]
fn events_are_counted() {
    let world = world();
    record(&layout(&world), "job-1", &completed());
    assert_snapshot!(world.prodigy(&["events", "stats", "job-1"]), @"
           1  agent_usage
           1  job_completed
           1  job_paused
           1  job_resumed
           1  job_started
           1  phase_started
           2  step_completed
           1  step_skipped
           3  step_started
           1  worktree_cleaned
           1  worktree_created
           1  worktree_merged
          15  in all

    no errors

    from 2026-01-02T03:04:05Z to 2026-01-03T04:04:08Z (1d 01h)
    ");
    assert_snapshot!(world.prodigy(&["events", "stats", "job-1", "--json"]), @r#"
    {
      "schema_version": 1,
      "job_id": "job-1",
      "events": 15,
      "first_at": "2026-01-02T03:04:05Z",
      "last_at": "2026-01-03T04:04:08.002Z",
      "duration_ms": 90003002,
      "types": {
        "agent_usage": 1,
        "job_completed": 1,
        "job_paused": 1,
        "job_resumed": 1,
        "job_started": 1,
        "phase_started": 1,
        "step_completed": 2,
        "step_skipped": 1,
        "step_started": 3,
        "worktree_cleaned": 1,
        "worktree_created": 1,
        "worktree_merged": 1
      },
      "errors": {
        "failures": 0,
        "failed_steps": 0,
        "failed_attempts": 0,
        "retries": 0,
        "dead_letters": 0,
        "skipped_items": 0,
        "by_reason": {}
      }
    }
    "#);
}

#[test]
fn events_are_found_by_their_text() {
    let world = world();
    record(&layout(&world), "job-1", &completed());
    assert_snapshot!(world.prodigy(&["events", "search", "job-1", "cargo fmt"]), @"
    2026-01-02 UTC
    03:04:05.007  step_started        1  shell: cargo fmt
    ");
    assert_snapshot!(world.prodigy(&["events", "search", "job-1", "nowhere"]), @"
    ----- stderr -----
    no event matches
    ");
}

#[test]
fn events_are_exported() {
    let world = world();
    record(&layout(&world), "job-1", &failed());
    let export = |args: &[&str]| world.prodigy(&[&["events", "export", "job-1"], args].concat());
    assert_snapshot!(export(&[]), @r#"
    {"format":1,"seq":1,"timestamp":"2026-01-02T03:04:05Z","job_id":"job-1","event_type":"job_started","version":"0.1.0","workflow_file":"tidy.yml","workflow_hash":"ab","repository":"/repo","target_branch":"main","base_commit":"c0","steps":3,"rounds":1,"yes":true}
    {"format":1,"seq":2,"timestamp":"2026-01-02T03:04:05.005Z","job_id":"job-1","event_type":"worktree_created","path":"/trees/job","branch":"prodigy/job","commit":"c0"}
    {"format":1,"seq":3,"timestamp":"2026-01-02T03:04:05.006Z","job_id":"job-1","event_type":"phase_started","phase":"steps"}
    {"format":1,"seq":4,"timestamp":"2026-01-02T03:04:05.007Z","job_id":"job-1","event_type":"step_started","step":"1","name":"shell: cargo fmt","attempt":1}
    {"format":1,"seq":5,"timestamp":"2026-01-02T03:04:06.207Z","job_id":"job-1","event_type":"step_completed","step":"1","attempt":1,"status":"success","exit_code":0,"duration_ms":1200,"output":"","agent":false,"log":{"stdout_at":0,"stdout_len":10,"stderr_at":0,"stderr_len":0}}
    {"format":1,"seq":6,"timestamp":"2026-01-02T03:04:06.208Z","job_id":"job-1","event_type":"step_started","step":"2","name":"shell: cargo test","attempt":1}
    {"format":1,"seq":7,"timestamp":"2026-01-02T03:04:08.208Z","job_id":"job-1","event_type":"step_failed","step":"2","attempt":1,"failure":{"kind":"command_failed","message":"exit code 101","exit_code":101},"then":"stop","duration_ms":2000,"log":{"stdout_at":10,"stdout_len":8,"stderr_at":0,"stderr_len":15}}
    {"format":1,"seq":8,"timestamp":"2026-01-02T03:04:08.209Z","job_id":"job-1","event_type":"job_failed","step":"2","failure":{"kind":"command_failed","message":"exit code 101","exit_code":101}}
    "#);
    assert_snapshot!(export(&["--format", "csv"]), @r#"
    seq,timestamp,job_id,event_type,item_id,agent_id,step,attempt,status,duration_ms,details
    1,2026-01-02T03:04:05Z,job-1,job_started,,,,,,,"{""version"":""0.1.0"",""workflow_file"":""tidy.yml"",""workflow_hash"":""ab"",""repository"":""/repo"",""target_branch"":""main"",""base_commit"":""c0"",""steps"":3,""rounds"":1,""yes"":true}"
    2,2026-01-02T03:04:05.005Z,job-1,worktree_created,,,,,,,"{""path"":""/trees/job"",""branch"":""prodigy/job"",""commit"":""c0""}"
    3,2026-01-02T03:04:05.006Z,job-1,phase_started,,,,,,,"{""phase"":""steps""}"
    4,2026-01-02T03:04:05.007Z,job-1,step_started,,,1,1,,,"{""name"":""shell: cargo fmt""}"
    5,2026-01-02T03:04:06.207Z,job-1,step_completed,,,1,1,success,1200,"{""exit_code"":0,""output"":"""",""agent"":false,""log"":{""stdout_at"":0,""stdout_len"":10,""stderr_at"":0,""stderr_len"":0}}"
    6,2026-01-02T03:04:06.208Z,job-1,step_started,,,2,1,,,"{""name"":""shell: cargo test""}"
    7,2026-01-02T03:04:08.208Z,job-1,step_failed,,,2,1,,2000,"{""failure"":{""kind"":""command_failed"",""message"":""exit code 101"",""exit_code"":101},""then"":""stop"",""log"":{""stdout_at"":10,""stdout_len"":8,""stderr_at"":0,""stderr_len"":15}}"
    8,2026-01-02T03:04:08.209Z,job-1,job_failed,,,2,,,,"{""failure"":{""kind"":""command_failed"",""message"":""exit code 101"",""exit_code"":101}}"
    "#);
    assert_snapshot!(export(&["--format", "json", "--output", "events.json"]), @"");
    let array: Vec<serde_json::Value> = serde_json::from_str(&world.read("events.json")).unwrap();
    assert_eq!(array.len(), 8);
    assert_snapshot!(export(&["--output", "no/where.jsonl"]), @"
    ----- stderr -----
    error: cannot write `no/where.jsonl`
      caused by: No such file or directory (os error 2)

    hint: nothing was done; name a file that can be written
    [exit 2]
    ");
}

#[test]
fn following_shows_what_comes_and_ends_with_the_job() {
    let world = world();
    let layout = layout(&world);
    record(&layout, "job-1", &half());
    let _lock = hold(&layout, "job-1");
    let mut child = world
        .prodigy_command(&["events", "job-1", "--follow", "--type", "step_started,job_failed"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut seen: Vec<String> = lines.by_ref().take(3).map(Result::unwrap).collect();
    record(&layout, "job-1", &failed()[6..]);
    seen.extend(lines.map(Result::unwrap));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut notes = String::new();
    child.stderr.take().unwrap().read_to_string(&mut notes).unwrap();
    assert_snapshot!(format!("{}\n{notes}", seen.join("\n")), @"
    2026-01-02 UTC
    03:04:05.007  step_started        1  shell: cargo fmt
    03:04:06.208  step_started        2  shell: cargo test
    03:04:08.209  job_failed          2  command_failed: exit code 101
    ");
}

#[test]
fn following_a_job_that_nobody_works_on_ends() {
    let world = world();
    record(&layout(&world), "job-1", &half());
    assert_snapshot!(world.prodigy(&["events", "job-1", "--follow", "--limit", "1"]), @"
    2026-01-02 UTC
    03:04:06.208  step_started        2  shell: cargo test
    ----- stderr -----
    nobody works on the job any more; `prodigy resume job-1` takes it up
    ");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let world = world();
    let many: Vec<_> = std::iter::once((0, started()))
        .chain((1..5000).map(|n| (n, crate::fixture::journal::step_started("1", "shell: true"))))
        .collect();
    record(&layout(&world), "job-1", &many);
    let mut child = world
        .prodigy_command(&["events", "job-1", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_snapshot!(world.to_output(&output), @"");
}
