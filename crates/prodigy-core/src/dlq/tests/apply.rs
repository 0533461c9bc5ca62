//! Tests of the fold of an item's records.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{approval::any_word, file, raw};
use crate::{dlq::*, event::EventRecord};

/// Returns records of an item, one a second, numbered from 1.
fn records(events: &[Value]) -> Vec<EventRecord> {
    let numbered = events.iter().enumerate().map(|(at, event)| {
        let mut record = json!({
            "format": 1, "seq": at + 1, "job_id": "job-1", "item_id": "item-3",
            "timestamp": format!("2026-01-02T03:{:02}:{:02}Z", at / 60, at % 60),
        });
        record.as_object_mut().unwrap().extend(event.as_object().unwrap().clone());
        serde_json::from_value(record).unwrap()
    });
    numbered.collect()
}

pub(crate) fn started(attempt: u32, agent: u32) -> Value {
    json!({
        "event_type": "agent_started", "agent_id": format!("agent-{agent}"),
        "attempt": attempt, "correlation_id": format!("agent-{agent}-item-3"),
    })
}

pub(crate) fn failed(attempt: u32, message: &str) -> Value {
    json!({
        "event_type": "agent_failed", "agent_id": "agent-1", "attempt": attempt, "step": "2",
        "name": "shell: make", "duration_ms": 900, "cost_usd": 0.5, "then": "retry",
        "failure": {"kind": "command_failed", "message": message, "exit_code": 2,
            "output_tail": "make: no rule"},
    })
}

fn completed(attempt: u32, head: &str) -> Value {
    json!({
        "event_type": "agent_completed", "agent_id": "agent-1", "attempt": attempt,
        "duration_ms": 10, "base": "a", "head": head, "commits": 1,
    })
}

pub(crate) fn died(attempts: u32, kind: &str, message: &str) -> Value {
    let failure = json!({"kind": kind, "message": message});
    json!({"event_type": "item_dead_lettered", "attempts": attempts, "failure": failure})
}

fn retrying(reason: &str) -> Value {
    json!({
        "event_type": "agent_retrying", "attempt": 2, "delay_ms": 0,
        "retry_at": "2026-01-02T03:04:05Z", "reason": reason,
    })
}

fn kept(path: &str) -> Value {
    json!({
        "event_type": "worktree_preserved", "path": path, "reason": "the item failed",
        "left": {"branch": "prodigy/job-1/item-3", "uncommitted": "a.c modified", "patch": "/p"},
    })
}

fn conflict() -> Value {
    json!({"event_type": "merge_conflict", "target": "t", "paths": ["a.c"]})
}

fn merged() -> Value {
    json!({"event_type": "worktree_merged", "source": "s", "target": "t", "commit": "c", "commits": 1})
}

pub(crate) fn replayed(replay: u32) -> Value {
    json!({"event_type": "replay_started", "replay": replay, "by": "ann"})
}

pub(crate) fn removed(how: &str) -> Value {
    json!({"event_type": "dlq_item_removed", "how": how, "reason": "done by hand", "by": "ann"})
}

fn usage() -> Value {
    json!({"event_type": "agent_usage", "step": "1", "agent": "claude", "cost_usd": 0.25})
}

fn skipped() -> Value {
    let failure = json!({"kind": "timeout", "message": "x"});
    json!({"event_type": "item_skipped", "reason": "`on_item_failure` is `skip`", "failure": failure})
}

fn fold(mut letter: DeadLetterState, records: &[EventRecord]) -> DeadLetterState {
    let log = |item: &crate::ids::ItemId, attempt| format!("/logs/{item}/attempt-{attempt}.out");
    let run = RunFingerprint { workflow_hash: "abab".to_owned(), ..RunFingerprint::default() };
    let worktree = |name: &str| format!("/worktrees/{name}");
    let origin = DeadLetterContext { run: &run, log: &log, worktree: &worktree };
    for record in records {
        letter.apply(record, origin);
    }
    letter
}

fn letter(events: &[Value]) -> DeadLetterState {
    let new = DeadLetterState::new("job-1".parse().unwrap(), "item-3".parse().unwrap());
    fold(new, &records(events))
}

pub(crate) fn entry(events: &[Value]) -> Option<DeadLetteredItem> {
    letter(events).entry(&raw("{\"n\":1.10}"))
}

/// Shows what matters of an entry, one line for each attempt.
fn brief(entry: &DeadLetteredItem) -> String {
    let word = |value: Value| value.as_str().unwrap().to_owned();
    let mut lines = vec![format!(
        "{} {} {}: {} | {} attempts, {} replays, revision {}, {} to {}, seq {}",
        word(serde_json::to_value(entry.status).unwrap()),
        entry.topic,
        entry.reason_code,
        entry.reason,
        entry.attempts,
        entry.replays,
        entry.revision,
        entry.first_attempt.strftime("%M:%S"),
        entry.last_attempt.strftime("%M:%S"),
        entry.journal_seq,
    )];
    lines.extend(entry.failure_history.iter().map(|detail| {
        format!(
            "  {} {} {}: {} ({}) {} {}ms ${} [{}]",
            detail.attempt_number,
            detail.timestamp.strftime("%M:%S"),
            detail.reason_code,
            detail.error_message,
            detail.step_failed,
            detail.agent_id,
            detail.duration_ms,
            detail.cost_usd,
            detail.error_context.join("; "),
        )
    }));
    if let Some(left) = &entry.worktree_artifacts {
        lines.push(format!("  left {left:?}"));
    }
    if let Some(closed) = &entry.closed {
        lines.push(format!("  closed {closed:?}"));
    }
    lines.join("\n")
}

#[test]
fn every_failed_attempt_is_in_the_history() {
    let seen = entry(&[
        started(1, 1),
        failed(1, "exit code 2"),
        retrying("exit code 2"),
        started(2, 4),
        failed(2, "exit code 3"),
        died(2, "command_failed", "exit code 3"),
        kept("/worktrees/item-3"),
    ]);
    insta::assert_snapshot!(brief(&seen.unwrap()), @r#"
        open map.2 command_failed: exit code 3 | 2 attempts, 0 replays, revision 2, 00:00 to 00:04, seq 7
          1 00:01 command_failed: exit code 2 (shell: make) agent-1 900ms $0.5 [processing item-3; attempt 1 by agent-1; step 2: shell: make]
          2 00:04 command_failed: exit code 3 (shell: make) agent-1 900ms $0.5 [processing item-3; attempt 2 by agent-1; step 2: shell: make]
          left WorktreeArtifacts { worktree_path: Some("/worktrees/item-3"), branch_name: Some("prodigy/job-1/item-3"), uncommitted_changes: Some("a.c modified"), patch_file: Some("/p"), commits: Some(0), error_logs: Some("make: no rule"), preserved: true }
        "#);
}

#[test]
fn attempts_that_prodigy_did_not_survive_are_in_the_history() {
    let seen = entry(&[
        started(1, 1),
        usage(),
        usage(),
        started(1, 2),
        started(1, 3),
        died(0, "poison_repeat", "prodigy died while it was under way, three times"),
    ]);
    insta::assert_snapshot!(brief(&seen.unwrap()), @r#"
        open map poison_repeat: prodigy died while it was under way, three times | 0 attempts, 0 replays, revision 1, 00:00 to 00:04, seq 6
          1 00:02 interrupted: it was cut off while it was under way (map) agent-1 2000ms $0.5 [processing item-3; attempt 1 by agent-1]
          1 00:03 interrupted: it was cut off while it was under way (map) agent-2 0ms $0 [processing item-3; attempt 1 by agent-2]
          1 00:04 interrupted: it was cut off while it was under way (map) agent-3 0ms $0 [processing item-3; attempt 1 by agent-3]
          left WorktreeArtifacts { worktree_path: Some("/worktrees/agent-3"), branch_name: Some("prodigy/job-1/item-3"), uncommitted_changes: Some("none"), patch_file: None, commits: Some(0), error_logs: None, preserved: false }
        "#);
}

#[test]
fn a_conflict_that_repeats_or_kills_an_item_is_in_the_history() {
    let seen = entry(&[
        started(1, 1),
        completed(1, "b"),
        conflict(),
        retrying("its commits conflict with what was merged meanwhile"),
        started(2, 1),
        completed(2, "c"),
        conflict(),
        died(2, "merge_conflict", "its commits conflict with those of other items in `a.c`"),
    ]);
    insta::assert_snapshot!(brief(&seen.unwrap()), @r#"
        open map merge_conflict: its commits conflict with those of other items in `a.c` | 2 attempts, 0 replays, revision 1, 00:00 to 00:07, seq 8
          1 00:03 merge_conflict: its commits conflict with what was merged meanwhile (merge) agent-1 10ms $0 [processing item-3; attempt 1 by agent-1; merge; conflict in `a.c`]
          2 00:07 merge_conflict: its commits conflict with those of other items in `a.c` (merge) agent-1 10ms $0 [processing item-3; attempt 2 by agent-1; merge; conflict in `a.c`]
          left WorktreeArtifacts { worktree_path: Some("/worktrees/agent-1"), branch_name: Some("prodigy/job-1/item-3"), uncommitted_changes: Some("none"), patch_file: None, commits: Some(0), error_logs: None, preserved: false }
        "#);
}

#[test]
fn a_replay_that_fails_opens_the_entry_again_and_one_that_succeeds_resolves_it() {
    let mut events = vec![
        started(1, 1),
        failed(1, "exit code 2"),
        died(1, "command_failed", "exit code 2"),
        kept("refs/prodigy/job-1/failed/item-3"),
        replayed(1),
        started(2, 1),
    ];
    insta::assert_snapshot!(brief(&entry(&events).unwrap()), @r#"
        replaying map.2 command_failed: exit code 2 | 1 attempts, 1 replays, revision 3, 00:00 to 00:01, seq 5
          1 00:01 command_failed: exit code 2 (shell: make) agent-1 900ms $0.5 [processing item-3; attempt 1 by agent-1; step 2: shell: make]
          left WorktreeArtifacts { worktree_path: Some("refs/prodigy/job-1/failed/item-3"), branch_name: Some("prodigy/job-1/item-3"), uncommitted_changes: Some("a.c modified"), patch_file: Some("/p"), commits: Some(0), error_logs: Some("make: no rule"), preserved: false }
        "#);
    events.extend([failed(2, "exit code 4"), died(2, "timeout", "it took longer than 10m")]);
    insta::assert_snapshot!(brief(&entry(&events).unwrap()), @r#"
        open map.2 timeout: it took longer than 10m | 2 attempts, 1 replays, revision 5, 00:00 to 00:06, seq 8
          1 00:01 command_failed: exit code 2 (shell: make) agent-1 900ms $0.5 [processing item-3; attempt 1 by agent-1; step 2: shell: make]
          2 00:06 command_failed: exit code 4 (shell: make) agent-1 900ms $0.5 [processing item-3; attempt 2 by agent-1; step 2: shell: make]
          left WorktreeArtifacts { worktree_path: Some("/worktrees/agent-1"), branch_name: Some("prodigy/job-1/item-3"), uncommitted_changes: Some("none"), patch_file: None, commits: Some(0), error_logs: Some("make: no rule"), preserved: false }
        "#);
    events.extend([replayed(2), started(3, 1), completed(3, "b")]);
    assert_eq!(entry(&events).unwrap().status, EntryStatus::Replaying);
    events.push(merged());
    let resolved = entry(&events).unwrap();
    insta::assert_snapshot!(brief(&resolved), @r#"
    resolved map.2 timeout: it took longer than 10m | 3 attempts, 2 replays, revision 7, 00:00 to 00:11, seq 12
      1 00:01 command_failed: exit code 2 (shell: make) agent-1 900ms $0.5 [processing item-3; attempt 1 by agent-1; step 2: shell: make]
      2 00:06 command_failed: exit code 4 (shell: make) agent-1 900ms $0.5 [processing item-3; attempt 2 by agent-1; step 2: shell: make]
      left WorktreeArtifacts { worktree_path: Some("/worktrees/agent-1"), branch_name: Some("prodigy/job-1/item-3"), uncommitted_changes: Some("none"), patch_file: None, commits: Some(0), error_logs: None, preserved: false }
      closed EntryClosure { at: 2026-01-02T03:00:11Z, reason: None, by: None }
    "#);
    assert!(!resolved.reprocess_eligible && resolved.replay_status == ReplayStatus::Closed);
}

#[test]
fn an_entry_that_was_dropped_stays_and_one_that_was_cleared_does_not() {
    let mut events =
        vec![started(1, 1), failed(1, "x"), died(1, "command_failed", "x"), removed("dropped")];
    insta::assert_snapshot!(brief(&entry(&events).unwrap()), @r#"
    dropped map.2 command_failed: x | 1 attempts, 0 replays, revision 2, 00:00 to 00:01, seq 4
      1 00:01 command_failed: x (shell: make) agent-1 900ms $0.5 [processing item-3; attempt 1 by agent-1; step 2: shell: make]
      left WorktreeArtifacts { worktree_path: Some("/worktrees/agent-1"), branch_name: Some("prodigy/job-1/item-3"), uncommitted_changes: Some("none"), patch_file: None, commits: Some(0), error_logs: Some("make: no rule"), preserved: false }
      closed EntryClosure { at: 2026-01-02T03:00:03Z, reason: Some("done by hand"), by: Some("ann") }
    "#);
    events.push(removed("cleared"));
    assert!(entry(&events).is_none());
    assert!(letter(&events).is_cleared());
}

#[test]
fn an_item_that_ends_in_another_way_has_no_entry() {
    for end in [vec![completed(2, "a")], vec![completed(2, "b"), merged()], vec![skipped()]] {
        let events = [vec![started(1, 1), failed(1, "x"), started(2, 1)], end].concat();
        assert!(letter(&events).is_finished() && entry(&events).is_none());
    }
}

#[test]
fn an_item_that_dies_without_an_attempt_says_why() {
    let seen = entry(&[died(0, "budget_exceeded", "the money is spent")]).unwrap();
    insta::assert_snapshot!(brief(&seen), @r#"
        open map budget_exceeded: the money is spent | 0 attempts, 0 replays, revision 1, 00:00 to 00:00, seq 1
          0 00:00 budget_exceeded: the money is spent (map)  0ms $0 [processing item-3]
          left WorktreeArtifacts { worktree_path: Some("/worktrees/item-3"), branch_name: Some("prodigy/job-1/item-3"), uncommitted_changes: Some("none"), patch_file: None, commits: Some(0), error_logs: None, preserved: false }
        "#);
    assert_eq!(seen.commit_state, CommitState::None);
    assert!(seen.manual_review_required && !seen.reprocess_eligible);
}

/// Returns the records of the item that can follow one another in a journal.
fn possible(events: &[Value]) -> Vec<EventRecord> {
    let mut job = crate::job::Job::default();
    let golden = include_str!("../../../../prodigy-engine/tests/golden/v1/items.jsonl");
    let mut first: Value = serde_json::from_str(golden.lines().next().unwrap()).unwrap();
    first["job_id"] = "job-1".into();
    job.apply(&serde_json::from_value(first).unwrap()).unwrap();
    let mut possible = Vec::new();
    let chosen = json!({"event_type": "items_selected", "total": 1, "sha256": "x"});
    let queued = json!({"event_type": "item_queued"});
    for event in [chosen, queued].iter().chain(events) {
        let mut record = records(std::slice::from_ref(event)).remove(0);
        record.seq = job.seq + 1;
        let type_of = record.event.event_type();
        if type_of.starts_with("job_") || type_of == "items_selected" {
            record.item_id = None;
        }
        record.timestamp += jiff::SignedDuration::from_secs(i64::try_from(record.seq).unwrap());
        if job.apply(&record).is_ok() && DeadLetterState::is_relevant(&record.event) {
            possible.push(record);
        }
    }
    possible
}

fn any_event() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => (1_u32..5, 1_u32..3).prop_map(|(attempt, agent)| started(attempt, agent)),
        3 => (1_u32..5, "[a-z]{1,4}").prop_map(|(attempt, message)| failed(attempt, &message)),
        1 => (1_u32..5).prop_map(|attempt| completed(attempt, "a")),
        2 => (1_u32..5).prop_map(|attempt| completed(attempt, "b")),
        1 => Just(usage()),
        1 => Just(conflict()),
        1 => Just(merged()),
        1 => Just(skipped()),
        1 => Just(retrying("again")),
        1 => Just(kept("/worktrees/item-3")),
        1 => Just(kept("")),
        3 => (0_u32..5, prop_oneof![Just("timeout"), Just("schema_invalid"), Just("merge_conflict")])
            .prop_map(|(attempts, kind)| died(attempts, kind, "it died")),
        2 => (1_u32..4).prop_map(replayed),
        1 => Just(removed("dropped")),
        2 => any_word(),
        // Prodigy died or was stopped, and the job went on.
        2 => Just(json!({"event_type": "job_resumed", "version": "0.1.0"})),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Whenever the entry was stored, going on from it comes to the same.
    #[test]
    fn a_letter_goes_on_from_its_stored_entry(events in prop::collection::vec(any_event(), 1..32)) {
        let all = possible(&events);
        let item = raw("[1.10]");
        let new = DeadLetterState::new("job-1".parse().unwrap(), "item-3".parse().unwrap());
        let text = |letter: &DeadLetterState| {
            letter.entry(&item).map(|entry| serde_json::to_string_pretty(&entry).unwrap())
        };
        let wanted = text(&fold(new.clone(), &all));
        for at in 0..all.len() {
            let Some(stored) = text(&fold(new.clone(), &all[..at])) else { continue };
            let stored = DeadLetteredItem::read(&stored, &file()).unwrap();
            let newer: Vec<EventRecord> =
                all.iter().filter(|record| record.seq > stored.journal_seq).cloned().collect();
            let again = text(&fold(DeadLetterState::from_entry(stored), &newer));
            prop_assert_eq!(again.as_deref(), wanted.as_deref(), "stored after {}", at);
        }
    }
}
