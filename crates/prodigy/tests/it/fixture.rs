//! Jobs as a run would have left them behind.

use std::{
    fs::{self, File},
    path::PathBuf,
};

use prodigy_core::{Timestamp, event::Event, ids::JobId};
use prodigy_engine::store::{Durability, JobLock, JournalWriter, Layout};
use prodigy_testkit::TestEnv;
use serde_json::{Value, json};

/// Returns a world with a repository and no jobs.
pub(crate) fn world() -> TestEnv {
    TestEnv::with_repo(env!("CARGO_BIN_EXE_prodigy"))
}

/// Returns the paths of the world's repository.
pub(crate) fn layout(world: &TestEnv) -> Layout {
    Layout::new(world.home(), "repo".parse().unwrap())
}

/// Returns a moment, in milliseconds after the first.
pub(crate) fn at(milliseconds: i64) -> Timestamp {
    let first: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
    Timestamp::from_millisecond(first.as_millisecond() + milliseconds).unwrap()
}

/// Writes records to a job, each with its milliseconds; a new job begins with its first.
pub(crate) fn record(layout: &Layout, job: &str, events: &[(i64, Value)]) {
    let job: JobId = job.parse().unwrap();
    let mut journal = if layout.events_dir(&job).exists() {
        JournalWriter::open(layout, &job, Durability::Relaxed).unwrap().0
    } else {
        JournalWriter::create(layout, &job, Durability::Relaxed).unwrap()
    };
    for (milliseconds, event) in events {
        let event: Event = serde_json::from_value(event.clone()).unwrap();
        journal.append(vec![event], at(*milliseconds)).unwrap();
    }
}

/// Returns the first record of a job with three steps.
pub(crate) fn started() -> Value {
    json!({
        "event_type": "job_started", "version": "0.1.0", "workflow_file": "tidy.yml",
        "workflow_hash": "ab", "repository": "/repo", "target_branch": "main",
        "base_commit": "c0", "steps": 3, "rounds": 1, "yes": true,
    })
}

pub(crate) fn step_started(step: &str, name: &str) -> Value {
    json!({"event_type": "step_started", "step": step, "name": name, "attempt": 1})
}

pub(crate) fn step_completed(step: &str, milliseconds: u64, log: &Value) -> Value {
    json!({
        "event_type": "step_completed", "step": step, "attempt": 1, "status": "success",
        "exit_code": 0, "duration_ms": milliseconds, "output": "", "log": log,
    })
}

pub(crate) fn step_failed(step: &str, milliseconds: u64, log: &Value) -> Value {
    json!({
        "event_type": "step_failed", "step": step, "attempt": 1, "then": "stop",
        "duration_ms": milliseconds, "log": log,
        "failure": {"kind": "command_failed", "message": "exit code 101", "exit_code": 101},
    })
}

pub(crate) fn log(stdout: (u64, u64), stderr: (u64, u64)) -> Value {
    json!({
        "stdout_at": stdout.0, "stdout_len": stdout.1,
        "stderr_at": stderr.0, "stderr_len": stderr.1,
    })
}

/// Returns the beginning of a job: a worktree, a step that is done, one that is under way.
pub(crate) fn half() -> Vec<(i64, Value)> {
    vec![
        (0, started()),
        (
            5,
            json!({
                "event_type": "worktree_created", "path": "/trees/job", "branch": "prodigy/job",
                "commit": "c0",
            }),
        ),
        (6, json!({"event_type": "phase_started", "phase": "steps"})),
        (7, step_started("1", "shell: cargo fmt")),
        (1207, step_completed("1", 1200, &log((0, 10), (0, 0)))),
        (1208, step_started("2", "shell: cargo test")),
    ]
}

/// Returns a job whose second step failed.
pub(crate) fn failed() -> Vec<(i64, Value)> {
    let mut events = half();
    events.extend([
        (3208, step_failed("2", 2000, &log((10, 8), (0, 15)))),
        (
            3209,
            json!({
                "event_type": "job_failed", "step": "2",
                "failure": {"kind": "command_failed", "message": "exit code 101", "exit_code": 101},
            }),
        ),
    ]);
    events
}

/// Returns a job that did everything, after having been stopped once.
pub(crate) fn completed() -> Vec<(i64, Value)> {
    let mut events = half();
    events.extend([
        (2000, json!({
            "event_type": "job_paused", "reason": "interrupted", "message": "stopped by Ctrl-C",
        })),
        (90_000_000, json!({"event_type": "job_resumed", "version": "0.1.0"})),
        (90_000_001, step_started("2", "shell: cargo test")),
        (90_002_000, step_completed("2", 1999, &log((10, 8), (0, 0)))),
        (90_002_001, json!({
            "event_type": "step_skipped", "step": "3", "name": "claude: /polish",
            "when": "${polish}",
        })),
        (90_002_002, json!({
            "event_type": "agent_usage", "step": "2", "agent": "claude", "cost_usd": 0.5,
        })),
        (90_003_000, json!({
            "event_type": "worktree_merged", "source": "prodigy/job", "target": "main",
            "commit": "c1", "commits": 2,
        })),
        (90_003_001, json!({"event_type": "worktree_cleaned", "path": "/trees/job"})),
        (90_003_002, json!({
            "event_type": "job_completed", "status": "completed", "duration_ms": 5000, "commits": 2,
        })),
    ]);
    events
}

/// Takes the lock of a job, as a run does.
pub(crate) fn hold(layout: &Layout, job: &str) -> JobLock {
    JobLock::take(layout, &job.parse().unwrap()).unwrap()
}

/// Returns the first file of a job's journal.
pub(crate) fn segment(layout: &Layout, job: &str) -> PathBuf {
    layout.events_dir(&job.parse().unwrap()).join("events-20260102T030405Z.jsonl")
}

/// Changes one byte of a line, counted from 1, of a job's journal.
pub(crate) fn damage(layout: &Layout, job: &str, line: usize) {
    let path = segment(layout, job);
    let text = fs::read_to_string(&path).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let damaged = lines.get_mut(line - 1).unwrap();
    *damaged = damaged.replacen("timestamp", "timestamq", 1);
    replace(&path, &(lines.join("\n") + "\n"));
}

/// Cuts the last bytes off a job's journal.
pub(crate) fn tear(layout: &Layout, job: &str, bytes: u64) {
    let file = File::options().write(true).open(segment(layout, job)).unwrap();
    file.set_len(file.metadata().unwrap().len() - bytes).unwrap();
}

/// Writes the output of a job's steps.
pub(crate) fn output(layout: &Layout, job: &str, stdout: &str, stderr: &str) {
    let (out, err) = layout.log_files(&job.parse().unwrap(), None, 1, 0);
    fs::create_dir_all(out.parent().unwrap()).unwrap();
    replace(&out, stdout);
    replace(&err, stderr);
}

fn replace(path: &std::path::Path, text: &str) {
    fs::write(path, text).unwrap();
}
