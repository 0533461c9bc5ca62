//! `prodigy verify`.

use std::fs;

use insta::assert_snapshot;
use prodigy_engine::store::Layout;
use prodigy_testkit::{CommandOutput, TestEnv};
use regex::Regex;
use serde_json::{Value, json};

use crate::{
    fixture::{
        journal::{self, at, failed, hold, layout, record, step_completed, step_started},
        workflow::{journal, run, world},
    },
    resume::interrupted::{gated, start},
};

const WORKFLOW: &str = "\
- shell: echo out; echo err >&2; echo 0.1 > x
- shell: git add x && git commit --quiet --message x
";

/// Returns what a person sees, without hashes.
fn shown(seen: &CommandOutput) -> String {
    let text = seen.to_string();
    let text = Regex::new(r"events-\w+\.jsonl").unwrap().replace_all(&text, "[journal]");
    let text = Regex::new(r"sha256:[0-9a-f]{64}").unwrap().replace_all(&text, "[hash]");
    Regex::new(r"\b[0-9a-f]{10}\b").unwrap().replace_all(&text, "[commit]").into_owned()
}

fn verify(world: &TestEnv) -> String {
    shown(&world.prodigy(&["verify", "job"]))
}

/// Returns the lines of the checks that fail, and the exit code.
fn failures(world: &TestEnv) -> String {
    let seen = world.prodigy(&["verify", "job"]);
    let text = shown(&seen);
    let lines: Vec<_> = text.lines().filter(|line| line.starts_with("FAIL")).collect();
    format!("{}\nexit {}", lines.join("\n"), seen.code.unwrap())
}

/// Makes a world with a finished job.
fn done() -> TestEnv {
    let world = world(WORKFLOW);
    run(&world);
    world
}

/// Changes the state of the job as text.
fn change(world: &TestEnv, file: &str, from: &str, to: &str) {
    let path = layout(world).state_dir(&"job".parse().unwrap()).join(file);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(path, text.replacen(from, to, 1)).unwrap();
}

#[test]
fn a_finished_job_is_whole_and_stays_as_it_is() {
    let world = done();
    let before = fs::read(&journal(&world)[0]).unwrap();
    assert_snapshot!(verify(&world), @"
    ok    journal — 16 records, each with its number and checksum
    ok    history — each of 16 records fits the ones before it
    ok    checkpoint — it says what the journal says up to record 16
    ok    workflow — the stored one is the one that was run, [hash]
    ok    logs — 1 output of finished steps, all in their files
    ok    merge — `main` contains [commit]
    job `job` is intact
    ");
    assert_snapshot!(shown(&world.prodigy(&["verify", "job", "--json"])), @r#"
    {
      "schema_version": 1,
      "job_id": "job",
      "whole": true,
      "checks": [
        {
          "check": "journal",
          "ok": true,
          "detail": "16 records, each with its number and checksum"
        },
        {
          "check": "history",
          "ok": true,
          "detail": "each of 16 records fits the ones before it"
        },
        {
          "check": "checkpoint",
          "ok": true,
          "detail": "it says what the journal says up to record 16"
        },
        {
          "check": "workflow",
          "ok": true,
          "detail": "the stored one is the one that was run, [hash]"
        },
        {
          "check": "logs",
          "ok": true,
          "detail": "1 output of finished steps, all in their files"
        },
        {
          "check": "merge",
          "ok": true,
          "detail": "`main` contains [commit]"
        }
      ]
    }
    "#);
    assert_eq!(fs::read(&journal(&world)[0]).unwrap(), before);
}

#[test]
fn a_running_a_killed_and_a_resumed_job_are_whole() {
    let world = gated("sleep 300");
    let started = start(&world);
    assert_snapshot!(verify(&world), @"
    ok    journal — 8 records, each with its number and checksum
    ok    history — each of 8 records fits the ones before it
    ok    checkpoint — there is none, and none is needed
    ok    workflow — the stored one is the one that was run, [hash]
    ok    logs — 1 output of finished steps, all in their files
    ok    merge — the journal tells of none
    job `job` is intact
    ");
    started.signal(rustix::process::Signal::KILL);
    started.seen(&world);
    assert_eq!(failures(&world), "\nexit 0");
    crate::resume::interrupted::open_gate(&world);
    assert_eq!(world.prodigy(&["resume", "job"]).code, Some(0));
    assert_snapshot!(verify(&world), @"
    ok    journal — 24 records, each with its number and checksum
    ok    history — each of 24 records fits the ones before it
    ok    checkpoint — it says what the journal says up to record 24
    ok    workflow — the stored one is the one that was run, [hash]
    ok    logs — 1 output of finished steps, all in their files
    ok    merge — `main` contains [commit]
    job `job` is intact
    ");
}

#[test]
fn a_torn_end_is_damage_unless_somebody_is_writing_it() {
    let world = done();
    let path = journal(&world).remove(0);
    let bytes = fs::read(&path).unwrap();
    fs::remove_file(layout(&world).checkpoint(&"job".parse().unwrap())).unwrap();
    fs::write(&path, bytes.get(..bytes.len() - 7).unwrap()).unwrap();
    let lock = hold(&layout(&world), "job");
    assert_snapshot!(verify(&world), @"
    ok    journal — 15 records, each with its number and checksum; another is being written
    ok    history — each of 15 records fits the ones before it
    ok    checkpoint — there is none, and none is needed
    ok    workflow — the stored one is the one that was run, [hash]
    ok    logs — 1 output of finished steps, all in their files
    ok    merge — `main` contains [commit]
    job `job` is intact
    ");
    drop(lock);
    assert_snapshot!(failures(&world), @"
    FAIL  journal — $ROOT/home/events/repo/job/[journal] line 16: it is not finished; `prodigy resume` cuts it off
    exit 1
    ");
}

#[test]
fn changed_bytes_and_missing_lines_of_the_journal_are_found() {
    let world = done();
    let path = journal(&world).remove(0);
    let bytes = fs::read(&path).unwrap();
    for at in (0..bytes.len()).step_by(bytes.len() / 40) {
        let mut changed = bytes.clone();
        *changed.get_mut(at).unwrap() ^= 1;
        fs::write(&path, changed).unwrap();
        let seen = world.prodigy(&["verify", "job"]);
        assert_eq!(seen.code, Some(1), "byte {at}: {seen}");
    }
    let lines: Vec<_> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    fs::write(&path, [&lines[..2], &lines[3..]].concat().concat()).unwrap();
    assert_snapshot!(verify(&world), @"
    FAIL  journal — $ROOT/home/events/repo/job/[journal] line 3: record 4 follows record 2
    ok    history — each of 2 records before the damage fits the ones before it
    FAIL  checkpoint — it covers record 16, and the journal can be read up to 2
    ok    workflow — the stored one is the one that was run, [hash]
    ok    logs — 0 outputs of finished steps, all in their files
    ok    merge — the journal tells of none
    job `job` is not intact: 2 of 6 checks failed
    ----- stderr -----

    next: `prodigy repair job --dry-run` says what can be kept
    [exit 1]
    ");
}

#[test]
fn records_that_cannot_follow_one_another_are_found() {
    let world = journal::world();
    let mut events = failed();
    events.push((4000, step_completed("3", 1, &Value::Null)));
    record(&layout(&world), "job", &events);
    assert_snapshot!(failures(&world), @"
    FAIL  history — record 9 (step_completed) cannot follow what was recorded before it
    FAIL  workflow — the stored workflow `$ROOT/home/state/repo/mapreduce/jobs/job/sources.json` is missing
    FAIL  logs — step 1 printed up to byte 10 of $ROOT/home/logs/repo/job/workflow/attempt-1.out, which has 0
    exit 1
    ");
}

#[test]
fn a_checkpoint_that_says_something_else_is_found() {
    let world = done();
    change(&world, "checkpoint.json", "\"done\": 2", "\"done\": 1");
    assert_snapshot!(failures(&world), @"
    FAIL  checkpoint — it does not say what the journal says up to record 16: its fold is another; the journal holds everything that it would say
    exit 1
    ");
    change(&world, "checkpoint.json", "{", "");
    assert_snapshot!(failures(&world), @r#"
    FAIL  checkpoint — `$ROOT/home/state/repo/mapreduce/jobs/job/checkpoint.json` is damaged at line 2: invalid type: string "version", expected struct Checkpoint at line 2 column 11; the journal holds everything that it would say
    exit 1
    "#);
    fs::remove_file(layout(&world).checkpoint(&"job".parse().unwrap())).unwrap();
    assert_eq!(failures(&world), "\nexit 0");
}

#[test]
fn costs_add_up_to_the_same_in_the_checkpoint_and_the_journal() {
    let world = journal::world();
    let layout = layout(&world);
    let costs: Vec<_> = (1..200)
        .map(|number| {
            let cost = f64::from(number) / 7.0;
            (
                number.into(),
                json!({
                    "event_type": "agent_usage", "step": "1", "agent": "claude", "cost_usd": cost,
                }),
            )
        })
        .collect();
    record(&layout, "job", &[(0, journal::started()), (0, step_started("1", "x"))]);
    record(&layout, "job", &costs);
    save_checkpoint(&layout);
    assert_snapshot!(verify(&world).lines().nth(2).unwrap(), @"ok    checkpoint — it says what the journal says up to record 201");
}

/// Writes the checkpoint that a run would have written.
fn save_checkpoint(layout: &Layout) {
    use prodigy_core::job::{Job, checkpoint::Checkpoint};
    use prodigy_engine::store::{JournalReader, save_checkpoint};
    let id = "job".parse().unwrap();
    let mut job = Job::default();
    for record in JournalReader::open(layout, &id).unwrap() {
        job.apply(&record.unwrap()).unwrap();
    }
    save_checkpoint(layout, &id, &Checkpoint::new(&id, &job, None, at(0))).unwrap();
}

#[test]
fn a_stored_workflow_that_was_changed_or_lost_is_found() {
    let world = done();
    change(&world, "sources.json", "echo out", "echo our");
    assert_snapshot!(failures(&world), @"
    FAIL  workflow — the stored one is [hash], and the journal names [hash]
    exit 1
    ");
    fs::remove_file(layout(&world).state_dir(&"job".parse().unwrap()).join("sources.json"))
        .unwrap();
    assert_snapshot!(failures(&world), @"
    FAIL  workflow — the stored workflow `$ROOT/home/state/repo/mapreduce/jobs/job/sources.json` is missing
    exit 1
    ");
}

#[test]
fn output_that_is_gone_is_found() {
    let world = done();
    let (out, err) = layout(&world).log_files(&"job".parse().unwrap(), None, 1, 0);
    let length = fs::metadata(&err).unwrap().len();
    fs::OpenOptions::new().write(true).open(&err).unwrap().set_len(length - 1).unwrap();
    assert_snapshot!(failures(&world), @"
    FAIL  logs — step 1 printed up to byte 4 of $ROOT/home/logs/repo/job/workflow/attempt-1.err, which has 3
    exit 1
    ");
    fs::remove_file(out).unwrap();
    assert_snapshot!(failures(&world), @"
    FAIL  logs — step 1 printed up to byte 4 of $ROOT/home/logs/repo/job/workflow/attempt-1.out, which has 0
    exit 1
    ");
}

#[test]
fn a_merge_that_the_branch_does_not_hold_is_found() {
    let world = done();
    world.git(&["commit", "--quiet", "--allow-empty", "--message", "later"]);
    assert_eq!(failures(&world), "\nexit 0");
    world.git(&["reset", "--quiet", "--hard", "HEAD~2"]);
    assert_snapshot!(failures(&world), @"
    FAIL  merge — `main` does not contain [commit]
    exit 1
    ");
    world.git(&["branch", "--quiet", "--move", "main", "other"]);
    assert_snapshot!(failures(&world), @"
    FAIL  merge — `refs/heads/main` is not a commit of this repository in $ROOT/repo
    exit 1
    ");
}

#[test]
fn a_job_that_is_not_there_cannot_be_verified() {
    let world = journal::world();
    assert_snapshot!(world.prodigy(&["verify", "nosuch"]), @"
    ----- stderr -----
    error: there is no job `nosuch`

    hint: `prodigy jobs` lists the jobs there are
    [exit 2]
    ");
}
