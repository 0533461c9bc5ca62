//! Conversions, and reading what older programs wrote.

mod apply;
mod approval;

use serde_json::{Value, json, value::RawValue};

use super::*;
use crate::failure::{DefaultAction, Failure, ReasonCode};

fn result(status: AgentStatus) -> AgentResult {
    AgentResult {
        job_id: "job-1".parse().unwrap(),
        item_id: "item-1".parse().unwrap(),
        agent_id: "agent-1".to_owned(),
        correlation_id: "agent-1-item-1".to_owned(),
        workflow_hash: "ab".repeat(32),
        status,
        step: Some("2".to_owned()),
        step_name: Some("shell: cargo test".to_owned()),
        started_at: "2026-01-02T03:04:05Z".parse().unwrap(),
        ended_at: "2026-01-02T03:05:05Z".parse().unwrap(),
        duration_ms: 60_000,
        cost_usd: 0.25,
        session_id: Some("s-1".to_owned()),
        json_log_location: Some("/logs/attempt-1.out".to_owned()),
        worktree: Some(WorktreeArtifacts {
            worktree_path: Some("/worktrees/item-1".to_owned()),
            preserved: true,
            ..WorktreeArtifacts::default()
        }),
        journal_seq: 7,
    }
}

fn failed(message: &str) -> AgentStatus {
    let mut failure = Failure::new(ReasonCode::CommandFailed, message);
    failure.exit_code = Some(101);
    failure.output_tail = "thread 'main' panicked at src/main.rs:42:5".to_owned();
    AgentStatus::of(failure)
}

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

fn shown(entry: &DeadLetteredItem) -> String {
    serde_json::to_string_pretty(entry).unwrap()
}

#[test]
fn a_failed_agent_result_becomes_a_dead_letter() {
    let result = result(failed("cargo test failed with exit code 101"));
    let entry = agent_result_to_dlq_item(&result, &raw(r#"{"id":1.10}"#), 3).unwrap();
    assert_eq!(format!("{}\n", shown(&entry)), include_str!("entry.json"));
}

#[test]
fn an_agent_result_that_timed_out_becomes_a_dead_letter_that_can_be_replayed() {
    let status = AgentStatus::of(Failure::new(ReasonCode::Timeout, "it took longer than 10m"));
    assert!(matches!(status, AgentStatus::Timeout(_)));
    let entry = agent_result_to_dlq_item(&result(status), &raw("{}"), 1).unwrap();
    assert!(entry.reprocess_eligible && !entry.manual_review_required);
    assert_eq!(entry.failure_history[0].error_type, ErrorType::Timeout);
    assert_eq!(entry.error_signature.len(), 16);
}

#[test]
fn a_successful_agent_result_is_no_dead_letter() {
    let result = result(AgentStatus::Success);
    assert!(agent_result_to_dlq_item(&result, &raw("{}"), 1).is_none());
    assert_eq!(create_failure_detail(&result, 1), None);
}

#[test]
fn the_error_signature_is_the_same_for_failures_of_one_cause() {
    let of = |message: &str| {
        create_error_signature(
            &Failure::new(ReasonCode::Timeout, message),
            &crate::ids::ItemId::from_position(1, 1),
        )
    };
    assert_eq!(of("`/a/b.rs` took 3 s").hash, of("`/c/d.rs` took 40 s").hash);
    assert_ne!(of("it took too long").hash, of("it was silent for too long").hash);
    assert_eq!(of("it took too long").hash.len(), 16);
}

#[test]
fn an_error_is_classified_by_its_reason_code_and_not_by_its_message() {
    let classified = ReasonCode::ALL.iter().map(|kind| {
        let failure = Failure::new(*kind, "permission denied: timed out");
        let classified = classify_error(&failure, Some("shell: make"));
        let value = serde_json::to_value(classified).unwrap();
        let tagged = value.as_object().and_then(|tagged| tagged.keys().next().cloned());
        let name = tagged.unwrap_or_else(|| value.as_str().unwrap().to_owned());
        assert_eq!(name, crate::failure::signature::error_type(*kind));
        (name, *kind)
    });
    let mut by_name = std::collections::BTreeMap::<_, Vec<_>>::new();
    for (name, kind) in classified {
        by_name.entry(name).or_default().push(kind);
    }
    assert_eq!(by_name["Timeout"], [ReasonCode::Timeout, ReasonCode::Stalled]);
    assert_eq!(by_name.len(), 10);
}

#[test]
fn what_becomes_of_a_dead_letter_follows_from_its_reason_code() {
    let mut lines: Vec<String> = ReasonCode::ALL
        .iter()
        .map(|kind| {
            let failure = AgentStatus::of(Failure::new(*kind, "x"));
            let entry = agent_result_to_dlq_item(&result(failure), &raw("{}"), 1).unwrap();
            let action = serde_json::to_value(kind.action()).unwrap();
            format!(
                "{:<18} {:<14} eligible {:<5} review {}",
                action.as_str().unwrap(),
                serde_json::to_value(entry.replay_status).unwrap().as_str().unwrap(),
                entry.reprocess_eligible,
                entry.manual_review_required,
            )
        })
        .collect();
    lines.sort();
    lines.dedup();
    insta::assert_snapshot!(lines.join("\n"), @"
        auto_replay        pending        eligible true  review false
        auto_replay_once   pending        eligible true  review false
        check_then_replay  pending_review eligible false review true
        manual_review      pending_review eligible false review true
        never              pending_review eligible false review true
        quarantine         quarantined    eligible false review false
        require_approval   pending_review eligible false review true
        ");
    assert_eq!(ReasonCode::Cancelled.action(), DefaultAction::Never);
}

#[test]
fn an_attempt_that_left_nothing_behind_has_no_artifacts() {
    let mut result = result(failed("x"));
    let artifacts = extract_worktree_artifacts(&result).unwrap();
    assert_eq!(artifacts.error_logs.as_deref(), Some("thread 'main' panicked at src/main.rs:42:5"));
    result.worktree = None;
    assert_eq!(extract_worktree_artifacts(&result), None);
}

/// Returns the file of an item of `job-1`.
fn file() -> EntryFile {
    EntryFile {
        job: "job-1".parse().unwrap(),
        item: Some("step_3".parse().unwrap()),
        written_at: Some("2026-08-24T10:15:02Z".parse().unwrap()),
    }
}

fn read(value: &Value) -> Result<DeadLetteredItem, DeadLetterError> {
    DeadLetteredItem::read(&value.to_string(), &file())
}

#[test]
fn what_was_written_is_read_and_a_change_is_seen() {
    let entry = agent_result_to_dlq_item(&result(failed("x")), &raw("[1.10]"), 1).unwrap();
    let text = shown(&entry);
    let again = DeadLetteredItem::read(&text, &file()).unwrap();
    assert_eq!(shown(&again), text);
    for (from, to) in [("\"attempts\": 1", "\"attempts\": 2"), ("[1.10]", "[1.11]")] {
        assert!(text.contains(from));
        let changed = text.replace(from, to);
        let error = DeadLetteredItem::read(&changed, &file()).unwrap_err();
        assert_eq!(error, DeadLetterError::Altered);
    }
    let newer = text.replace("\"schema_version\": 2", "\"schema_version\": 3");
    let error = DeadLetteredItem::read(&newer, &file()).unwrap_err();
    insta::assert_snapshot!(error, @"it was written by a newer prodigy: its version is 3");
    let half = &text[..text.len() / 2];
    let error = DeadLetteredItem::read(half, &file()).unwrap_err();
    assert!(matches!(error, DeadLetterError::Shape(_)), "{error}");
}

#[test]
fn the_shape_with_a_history_is_read() {
    let entry = read(&json!({
        "item_id": "item-123",
        "item_data": { "file": "src/main.rs", "priority": 5 },
        "first_attempt": "2025-01-11T10:25:00Z",
        "last_attempt": "2025-01-11T10:30:00Z",
        "failure_count": 3,
        "failure_history": [{
            "attempt_number": 1,
            "timestamp": "2025-01-11T10:30:00Z",
            "error_type": { "CommandFailed": { "exit_code": 101 } },
            "error_message": "cargo test failed with exit code 101",
            "error_context": ["Processing work item item-123"],
            "stack_trace": "thread 'main' panicked at src/main.rs:42...",
            "agent_id": "agent-1",
            "step_failed": "shell: cargo test",
            "duration_ms": 45000,
            "json_log_location": "/logs/session-abc123.json",
        }],
        "error_signature": "CommandFailed::cargo test failed with exit",
        "reprocess_eligible": true,
        "manual_review_required": false,
        "worktree_artifacts": {
            "worktree_path": "/worktrees/agent-1",
            "branch_name": "agent-1",
            "uncommitted_changes": "src/main.rs modified",
            "error_logs": "error.log contents...",
        },
    }));
    insta::assert_snapshot!(shown(&entry.unwrap()), @r#"
        {
          "schema_version": 2,
          "revision": 1,
          "job_id": "job-1",
          "item_id": "item-123",
          "correlation_id": "",
          "topic": "map",
          "status": "open",
          "replay_status": "pending",
          "reason_code": "command_failed",
          "class": "agent",
          "cause_code": null,
          "reason": "cargo test failed with exit code 101",
          "attempts": 3,
          "replays": 0,
          "item_data": {"file":"src/main.rs","priority":5},
          "input_hash": "1fc551af7c02bfed6aefe070c33014491f3f5be5ed24e26aa0690b1319d3d7c4",
          "workflow_hash": "",
          "idempotency_key": "job-1:item-123",
          "policy_snapshot": "sha256:221d2e88122fd5c3710a57225be30a2fe1991d395ff16b07ad044a73a0fe6702",
          "first_attempt": "2025-01-11T10:25:00Z",
          "last_attempt": "2025-01-11T10:30:00Z",
          "failure_count": 3,
          "failure_history": [
            {
              "attempt_number": 1,
              "timestamp": "2025-01-11T10:30:00Z",
              "error_type": {
                "CommandFailed": {
                  "exit_code": 101
                }
              },
              "error_message": "cargo test failed with exit code 101",
              "error_context": [
                "Processing work item item-123"
              ],
              "stack_trace": "thread 'main' panicked at src/main.rs:42...",
              "agent_id": "agent-1",
              "step_failed": "shell: cargo test",
              "duration_ms": 45000,
              "json_log_location": "/logs/session-abc123.json",
              "reason_code": "command_failed",
              "exit_code": 101,
              "cost_usd": 0.0,
              "session_id": null
            }
          ],
          "error_signature": "a70f725a811ec1a5",
          "error_pattern": "CommandFailed::cargo test failed with exit code <n>",
          "reprocess_eligible": true,
          "manual_review_required": false,
          "worktree_artifacts": {
            "worktree_path": "/worktrees/agent-1",
            "branch_name": "agent-1",
            "uncommitted_changes": "src/main.rs modified",
            "patch_file": null,
            "error_logs": "error.log contents...",
            "preserved": false
          },
          "commit_state": "local",
          "effects": [],
          "not_before": null,
          "owner": null,
          "journal_seq": 0,
          "record_hash": "6be34c9159734bff77e4d2b26092249ad247e6432bb60df6ce196e6c18e215cf"
        }
        "#);
}

#[test]
fn the_flat_shape_is_read() {
    let entry = read(&json!({
        "item_id": "item-047",
        "item_data": { "path": "src/module.rs", "score": 8, "priority": "high" },
        "failure_reason": "Command failed: cargo test",
        "error_details": "test failed: expected X but got Y",
        "failed_at": "2024-01-01T12:15:00Z",
        "attempt_count": 3,
        "correlation_id": "agent-7-item-047",
    }));
    insta::assert_snapshot!(shown(&entry.unwrap()), @r#"
        {
          "schema_version": 2,
          "revision": 1,
          "job_id": "job-1",
          "item_id": "item-047",
          "correlation_id": "agent-7-item-047",
          "topic": "map",
          "status": "open",
          "replay_status": "pending_review",
          "reason_code": "unclassified",
          "class": "internal",
          "cause_code": null,
          "reason": "Command failed: cargo test",
          "attempts": 3,
          "replays": 0,
          "item_data": {"path":"src/module.rs","score":8,"priority":"high"},
          "input_hash": "2d93334fa753323d22f0a04a871def6fff0d049d61c769a2f775929fdf1c8457",
          "workflow_hash": "",
          "idempotency_key": "job-1:item-047",
          "policy_snapshot": "sha256:221d2e88122fd5c3710a57225be30a2fe1991d395ff16b07ad044a73a0fe6702",
          "first_attempt": "2024-01-01T12:15:00Z",
          "last_attempt": "2024-01-01T12:15:00Z",
          "failure_count": 3,
          "failure_history": [
            {
              "attempt_number": 3,
              "timestamp": "2024-01-01T12:15:00Z",
              "error_type": "Unknown",
              "error_message": "Command failed: cargo test",
              "error_context": [
                "processing item-047"
              ],
              "stack_trace": null,
              "agent_id": "",
              "step_failed": "map",
              "duration_ms": 0,
              "json_log_location": null,
              "reason_code": "unclassified",
              "exit_code": null,
              "cost_usd": 0.0,
              "session_id": null,
              "output_tail": "test failed: expected X but got Y"
            }
          ],
          "error_signature": "f838b98697cbb17a",
          "error_pattern": "Unknown::Command failed: cargo test",
          "reprocess_eligible": false,
          "manual_review_required": true,
          "worktree_artifacts": null,
          "commit_state": "none",
          "effects": [],
          "not_before": null,
          "owner": null,
          "journal_seq": 0,
          "record_hash": "c836b44a5336b7a95e4ec0a5906665093ee39b4b14cae5d23d29a0147ec64abe"
        }
        "#);
}

#[test]
fn the_shape_for_triage_is_read_and_named_after_its_file() {
    let entry = read(&json!({
        "job_id": "job_74c2",
        "topic": "tool.github.pr.create",
        "status": "FAILED",
        "reason_code": "max_scheduling_retries",
        "reason": "max scheduling retries exceeded (attempts=50)",
        "attempts": 50,
        "idempotency_key": "run_2f91:step_3",
        "policy_snapshot": "sha256:ab91",
        "replay_status": "pending_review",
    }));
    let entry = entry.unwrap();
    assert_eq!((entry.job_id.as_str(), entry.item_id.as_str()), ("job_74c2", "step_3"));
    assert_eq!((entry.topic.as_str(), entry.attempts), ("tool.github.pr.create", 50));
    assert_eq!(entry.reason_code, ReasonCode::MaxSchedulingRetries);
    assert_eq!(entry.idempotency_key, "run_2f91:step_3");
    assert_eq!(entry.policy_snapshot, "sha256:ab91");
    assert!(entry.manual_review_required);
    assert!(!entry.reprocess_eligible);
    assert_eq!(entry.item_data.get(), "null");
    assert_eq!(entry.last_attempt, "2026-08-24T10:15:02Z".parse().unwrap());
}

#[test]
fn the_first_shape_of_our_own_is_read() {
    let entry = read(&json!({
        "schema_version": 1,
        "job_id": "job-1",
        "item_id": "item-002",
        "item_data": 7,
        "reason_code": "command_failed",
        "reason": "exit code 1",
        "attempts": 2,
        "last_attempt": "2026-08-24T10:15:02.5Z",
        "failure": { "kind": "command_failed", "message": "exit code 1", "exit_code": 1 },
    }));
    let entry = entry.unwrap();
    assert_eq!((entry.attempts, entry.reason_code), (2, ReasonCode::CommandFailed));
    assert_eq!(entry.failure_history[0].exit_code, Some(1));
    assert_eq!(entry.last_attempt, "2026-08-24T10:15:02.5Z".parse().unwrap());
}

#[test]
fn what_is_no_dead_letter_is_named() {
    let bad = [
        json!([]),
        json!({}),
        json!({"item_id": "../x", "item_data": 1}),
        json!({"item_id": "a", "item_data": 1}),
        json!({"item_id": "a", "item_data": 1, "failure_reason": "x"}),
    ];
    let errors = bad.map(|value| read(&value).unwrap_err().to_string());
    insta::assert_snapshot!(errors.join("\n"), @"
    it is not a dead letter: invalid length 0, expected struct LegacyEntry with 23 elements at line 1 column 2
    it is not a dead letter: it names no item
    it is not a dead letter: `../x` is not a usable name: use letters, digits, `.`, `_` and `-`, start with a letter or digit, at most 120 characters at line 1 column 17
    it is not a dead letter: it does not say why the item failed
    it is not a dead letter: it does not say when the item failed
    ");
}
