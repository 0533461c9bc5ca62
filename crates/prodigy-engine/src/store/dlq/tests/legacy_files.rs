//! The files of older programs.

use std::fs;

use serde_json::json;

use super::fixture::DlqHarness;
use crate::store::{create_dir, dlq::DeadLetterStore, write_atomic};

#[test]
fn files_of_older_programs_are_listed_and_bad_ones_are_named() {
    let world = DlqHarness::new(&["1"]);
    let (layout, job) = (&world.home.layout, "older".parse().unwrap());
    let flat = layout.dlq_dir(&job);
    let items = layout.dlq_items_dir(&job);
    create_dir(&items).unwrap();
    let write = |path: std::path::PathBuf, text: String| {
        write_atomic(&path, text.as_bytes()).unwrap();
    };
    write(items.join("item-123.json"), json!({
        "item_id": "item-123", "item_data": {"file": "a"}, "first_attempt": "2025-01-11T10:25:00Z",
        "last_attempt": "2025-01-11T10:30:00Z", "failure_count": 3,
        "failure_history": [{"attempt_number": 3, "timestamp": "2025-01-11T10:30:00Z",
            "error_type": "Timeout", "error_message": "it took too long", "agent_id": "agent-1",
            "step_failed": "shell: make", "duration_ms": 4}],
        "error_signature": "x", "reprocess_eligible": true, "manual_review_required": false,
    }).to_string());
    write(items.join("item-9.json"), "{\"item_id\":".to_owned());
    write(items.parent().unwrap().join("index.json"), "{\"item_count\": 1}".to_owned());
    write(
        flat.join("item-047.json"),
        json!({
            "item_id": "item-047", "item_data": {"path": "b"}, "failure_reason": "Command failed",
            "error_details": "expected X", "failed_at": "2024-01-01T12:15:00Z", "attempt_count": 3,
            "correlation_id": "agent-7-item-047",
        })
        .to_string(),
    );
    write(flat.join("notes.txt"), "not an entry".to_owned());
    let queue = DeadLetterStore::open(layout, &job).unwrap();
    let seen: Vec<String> = queue
        .summaries()
        .map(|heading| match heading {
            Ok(heading) => {
                format!("{} {} {}", heading.item_id, heading.reason_code, heading.attempts)
            }
            Err(error) => world.show(&error.to_string()),
        })
        .collect();
    insta::assert_snapshot!(seen.join("\n"), @"
        item-123 timeout 3
        item-047 unclassified 3
        `$HOME/dlq/repo/older/mapreduce/dlq/older/items/item-9.json` cannot be used: it is not a dead letter: EOF while parsing a value at line 1 column 11
        ");
    assert_eq!(queue.open_entries(), 2);
    let flat = queue.entry(&"item-047".parse().unwrap()).unwrap().unwrap();
    assert_eq!(flat.item_data.get(), "{\"path\":\"b\"}");
    assert_eq!(DeadLetterStore::jobs(layout).unwrap(), [job]);
}

#[test]
fn files_of_the_first_shape_of_our_own_are_replaced_from_the_journal() {
    use super::fixture::{died, fact, failed, started};
    let world = DlqHarness::new(&["1"]);
    let item = world.item(1);
    world.append(
        [started(1), failed(1), died(1)].map(|event| fact(Some(item.clone()), event)).into(),
    );
    create_dir(&world.home.layout.dlq_items_dir(&world.home.job)).unwrap();
    write_atomic(
        &world.file(1),
        json!({
            "schema_version": 1, "job_id": "job-1", "item_id": item.as_str(), "item_data": "***",
            "reason_code": "command_failed", "reason": "exit code 2", "attempts": 1,
            "last_attempt": "2026-01-02T03:04:06Z",
            "failure": {"kind": "command_failed", "message": "exit code 2"},
        })
        .to_string()
        .as_bytes(),
    )
    .unwrap();
    assert_eq!(world.queue().open_entries(), 1);
    let text = fs::read_to_string(world.file(1)).unwrap();
    assert!(text.contains("\"schema_version\": 2"), "{text}");
}
