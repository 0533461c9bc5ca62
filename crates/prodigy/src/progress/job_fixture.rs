//! Jobs with items, for the tests of what people see of them.

use prodigy_core::{
    Timestamp,
    event::{Event, EventRecord, FORMAT},
    job::Job,
};
use serde_json::{Value, json};

/// A job as far as it got.
pub(crate) struct JobFixture {
    pub(crate) job: Job,
    pub(crate) records: Vec<EventRecord>,
    millis: i64,
}

/// Returns a moment, in milliseconds after the first.
pub(crate) fn timestamp_at(milliseconds: i64) -> Timestamp {
    let first: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
    Timestamp::from_millisecond(first.as_millisecond() + milliseconds).unwrap()
}

impl JobFixture {
    /// Returns a job whose map phase begins with so many items, all of them queued.
    pub(crate) fn new(items: u32) -> Self {
        let mut told = Self { job: Job::default(), records: Vec::new(), millis: 0 };
        told.emit(json!({
            "event_type": "job_started", "version": "0.1.0", "workflow_file": "fix.yml",
            "workflow_hash": "ab", "workflow_name": "fix", "repository": "/repo",
            "target_branch": "main", "base_commit": "c0", "mode": "mapreduce", "steps": 1,
            "rounds": 1, "yes": true,
        }));
        told.emit(json!({"event_type": "phase_started", "phase": "map"}));
        told.emit(json!({"event_type": "items_selected", "total": items, "sha256": ""}));
        for item in 1..=items {
            told.emit_for_item(item, None, json!({"event_type": "item_queued"}));
        }
        told
    }

    /// Lets time pass.
    pub(crate) fn wait(&mut self, milliseconds: i64) {
        self.millis += milliseconds;
    }

    /// Records something about the job.
    pub(crate) fn emit(&mut self, event: Value) {
        self.record(None, None, event);
    }

    /// Records something about an item.
    pub(crate) fn emit_for_item(&mut self, item: u32, agent: Option<u32>, event: Value) {
        self.record(Some(format!("item-{item:03}")), agent.map(|n| format!("agent-{n}")), event);
    }

    fn record(&mut self, item: Option<String>, agent: Option<String>, event: Value) {
        let event: Event = serde_json::from_value(event).unwrap();
        let record = EventRecord {
            format: FORMAT,
            seq: self.job.seq + 1,
            timestamp: timestamp_at(self.millis),
            job_id: "job".parse().unwrap(),
            agent_id: agent.map(|agent| agent.parse().unwrap()),
            item_id: item.map(|item| item.parse().unwrap()),
            event,
        };
        self.job.apply(&record).unwrap();
        self.records.push(record);
    }

    /// Starts an attempt, with its first step.
    pub(crate) fn start(&mut self, item: u32, agent: u32, attempt: u32) {
        let started = json!({
            "event_type": "agent_started", "attempt": attempt, "correlation_id": "c",
        });
        self.emit_for_item(item, Some(agent), started);
        let step = json!({
            "event_type": "step_started", "step": "1", "name": "shell: cargo test", "attempt": 1,
        });
        self.emit_for_item(item, Some(agent), step);
    }

    /// Ends an attempt well; `head` is `c0` if it made no commit.
    pub(crate) fn complete(&mut self, item: u32, agent: u32, head: &str, uncommitted: u32) {
        let event = json!({
            "event_type": "agent_completed", "attempt": 1, "duration_ms": 250, "base": "c0",
            "head": head, "commits": u32::from(head != "c0"), "uncommitted": uncommitted,
        });
        self.emit_for_item(item, Some(agent), event);
    }

    /// Merges an item's commits.
    pub(crate) fn merge(&mut self, item: u32) {
        let event = json!({
            "event_type": "worktree_merged", "source": "prodigy/job/item", "target": "prodigy/job",
            "commit": "c9", "commits": 1,
        });
        self.emit_for_item(item, None, event);
    }

    /// Ends an attempt with a failure.
    pub(crate) fn fail(&mut self, item: u32, agent: u32, then: &str, message: &str) {
        let failure = json!({
            "kind": "command_failed", "message": message, "exit_code": 1,
            "output_tail": "last words",
        });
        let event = json!({
            "event_type": "agent_failed", "attempt": 1, "step": "1", "failure": failure,
            "duration_ms": 100, "then": then,
        });
        self.emit_for_item(item, Some(agent), event);
        let next = match then {
            "dead_letter" => {
                json!({"event_type": "item_dead_lettered", "attempts": 1, "failure": failure})
            }
            "skip" => json!({
                "event_type": "item_skipped", "failure": failure,
                "reason": "`on_item_failure` is `skip`",
            }),
            _ => json!({
                "event_type": "agent_retrying", "attempt": 2, "delay_ms": 0,
                "retry_at": timestamp_at(self.millis), "reason": message,
            }),
        };
        let agent = (then != "retry").then_some(agent);
        self.emit_for_item(item, agent, next);
    }
}
