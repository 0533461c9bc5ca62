//! Dead letters as a run would have left them behind.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use std::fs;

use prodigy_core::{
    dlq::DeadLetteredItem,
    ids::{ItemId, JobId},
};
use prodigy_testkit::TestEnv;
use serde_json::{Value, json};

use crate::fixture::{layout, record, started, world};

/// Returns a world whose job `job` has five dead letters: two of one cause, one that would
/// fail again, one that is resolved, one that is dropped.
pub(crate) fn five() -> TestEnv {
    let world = world();
    record(&layout(&world), "job", &[(0, started())]);
    put(&world, "job", failed_tests("item-001", 10, 3));
    put(&world, "job", failed_tests("item-002", 40, 9));
    let mut poison = failed_tests("item-003", 30, 5);
    poison["reason_code"] = json!("template_error");
    poison["class"] = json!("poison");
    poison["reason"] = json!("`item.path` has no value");
    poison["error_signature"] = json!("feedfeedfeedfeed");
    poison["error_pattern"] = json!("ValidationFailed::`<s>` has no value");
    poison["reprocess_eligible"] = json!(false);
    poison["replay_status"] = json!("quarantined");
    poison["worktree_artifacts"] = Value::Null;
    put(&world, "job", poison);
    let mut resolved = failed_tests("item-004", 20, 1);
    resolved["status"] = json!("resolved");
    resolved["replays"] = json!(1);
    resolved["closed"] = json!({"at": "2026-01-02T05:00:00Z"});
    put(&world, "job", resolved);
    let mut dropped = failed_tests("item-005", 50, 1);
    dropped["status"] = json!("dropped");
    dropped["closed"] =
        json!({"at": "2026-01-02T06:00:00Z", "reason": "nobody needs it", "by": "ada"});
    put(&world, "job", dropped);
    world
}

/// Returns an entry of an item whose tests failed twice, the second time so many minutes
/// past three.
pub(crate) fn failed_tests(item: &str, minute: u32, priority: u32) -> Value {
    let attempt = |number: u32, minute: u32| {
        json!({
            "attempt_number": number,
            "timestamp": format!("2026-01-02T03:{minute:02}:05Z"),
            "error_type": {"CommandFailed": {"command": "cargo test", "exit_code": 101}},
            "error_message": "`cargo test` ended with exit code 101",
            "error_context": ["map", "shell: cargo test"],
            "stack_trace": null,
            "agent_id": format!("agent-{number}"),
            "step_failed": "shell: cargo test",
            "duration_ms": 70_000 + number * 1000,
            "json_log_location": format!("/home/logs/{item}/attempt-{number}.out"),
            "reason_code": "command_failed",
            "exit_code": 101,
            "cost_usd": 0.25,
            "session_id": "s-1",
            "output_tail": "running 12 tests\ntest parse::nested ... FAILED\n\ntest result: FAILED. 11 passed; 1 failed\n",
        })
    };
    json!({
        "schema_version": 2,
        "revision": 1,
        "job_id": "job",
        "item_id": item,
        "correlation_id": format!("job/{item}"),
        "topic": "map.2",
        "status": "open",
        "replay_status": "pending",
        "reason_code": "command_failed",
        "class": "agent",
        "cause_code": null,
        "reason": "`cargo test` ended with exit code 101",
        "attempts": 2,
        "replays": 0,
        "item_data": {"file": format!("src/{item}.rs"), "priority": priority},
        "input_hash": "aa",
        "workflow_hash": "bb",
        "idempotency_key": "cc",
        "policy_snapshot": "dd",
        "first_attempt": "2026-01-02T03:00:05Z",
        "last_attempt": format!("2026-01-02T03:{minute:02}:05Z"),
        "failure_count": 2,
        "failure_history": [attempt(1, minute - 5), attempt(2, minute)],
        "error_signature": "c0ffeec0ffeec0ff",
        "error_pattern": "CommandFailed::`cargo test` ended with exit code <n>",
        "reprocess_eligible": true,
        "manual_review_required": false,
        "worktree_artifacts": {
            "worktree_path": format!("/home/worktrees/{item}"),
            "branch_name": format!("prodigy/job/{item}"),
            "uncommitted_changes": " M src/parse.rs\n?? src/new.rs",
            "patch_file": format!("/home/dlq/{item}.patch"),
            "error_logs": null,
            "preserved": true,
        },
        "commit_state": "local",
        "effects": [],
        "not_before": null,
        "owner": null,
        "journal_seq": 9,
        "record_hash": "",
    })
}

/// Writes an entry where its job has it, sealed.
pub(crate) fn put(world: &TestEnv, job: &str, mut entry: Value) {
    entry["job_id"] = json!(job);
    let mut entry: DeadLetteredItem = serde_json::from_value(entry).unwrap();
    entry.update_hash();
    write(world, job, entry.item_id.as_str(), &serde_json::to_string(&entry).unwrap());
}

/// Writes the file of an entry.
pub(crate) fn write(world: &TestEnv, job: &str, item: &str, text: &str) {
    let (job, item): (JobId, ItemId) = (job.parse().unwrap(), item.parse().unwrap());
    let path = layout(world).dlq_item(&job, &item);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}
