//! A job with items, and runs that do nothing but record what happens to them.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    path::PathBuf,
};

use prodigy_core::{
    dlq::{EntryStatus, RunFingerprint},
    event::{Event, EventRecord, NewEvent},
    ids::{AgentId, ItemId},
    items::Item,
    mask::Mask,
};
use serde_json::{Value, json, value::RawValue};

use crate::store::{
    Durability, JobLock, JournalWriter, Spool, create_dir,
    dlq::{DeadLetterProjector, DeadLetterStore},
    fixture::{TestHome, at},
};

/// A job whose items are chosen.
pub(crate) struct DlqHarness {
    pub(crate) home: TestHome,
    items: Vec<ItemId>,
    spool: Spool,
    journal: RefCell<JournalWriter>,
    places: HashMap<ItemId, usize>,
    /// The number of seconds that have passed.
    now: Cell<i64>,
}

/// A run of the job.
pub(crate) struct Doing<'a> {
    world: &'a DlqHarness,
    letters: DeadLetterProjector,
    last: u64,
    lock: Option<JobLock>,
}

impl DlqHarness {
    pub(crate) fn new(data: &[&str]) -> Self {
        let ids = (1..=data.len()).map(|at| ItemId::from_position(at, data.len()));
        Self::with(ids.zip(data.iter().map(|data| (*data).to_owned())).collect())
    }

    pub(crate) fn sized(items: usize) -> Self {
        let ids = (1..=items).map(|at| ItemId::from_position(at, items));
        Self::with(ids.map(|id| (id, "{\"path\":\"src/main.rs\"}".to_owned())).collect())
    }

    pub(crate) fn keyed(keys: &[&str]) -> Self {
        Self::with(keys.iter().map(|key| (ItemId::from_key(key), json!(key).to_string())).collect())
    }

    fn with(items: Vec<(ItemId, String)>) -> Self {
        let home = TestHome::new();
        create_dir(&home.layout.state_dir(&home.job)).unwrap();
        let chosen: Vec<Item> = items
            .into_iter()
            .enumerate()
            .map(|(index, (id, data))| Item {
                id,
                index: index + 1,
                data: RawValue::from_string(data).unwrap(),
            })
            .collect();
        let spool = Spool::write(&home.layout.items_file(&home.job), chosen.iter()).unwrap();
        let items: Vec<ItemId> = chosen.into_iter().map(|item| item.id).collect();
        let golden = include_str!("../../../../tests/golden/v1/items.jsonl");
        let first: Value = serde_json::from_str(golden.lines().next().unwrap()).unwrap();
        let mut facts = vec![
            fact(None, first),
            fact(
                None,
                json!({
                    "event_type": "items_selected", "total": items.len(), "sha256": spool.sha256(),
                }),
            ),
        ];
        let queued = json!({"event_type": "item_queued"});
        facts.extend(items.iter().map(|item| fact(Some(item.clone()), queued.clone())));
        let journal = JournalWriter::create(&home.layout, &home.job, Durability::Relaxed);
        let mut journal = journal.unwrap();
        journal.append(facts, at(0)).unwrap();
        let places = items.iter().enumerate().map(|(place, item)| (item.clone(), place));
        let places = places.collect();
        Self { home, items, spool, journal: RefCell::new(journal), places, now: Cell::new(0) }
    }

    /// Returns an item, counted from 1.
    pub(crate) fn item(&self, number: usize) -> ItemId {
        self.items[number - 1].clone()
    }

    pub(crate) fn file(&self, number: usize) -> PathBuf {
        self.home.layout.dlq_item(&self.home.job, &self.item(number))
    }

    pub(crate) fn queue(&self) -> DeadLetterStore {
        DeadLetterStore::open(&self.home.layout, &self.home.job).unwrap()
    }

    /// Returns the first run of the job.
    pub(crate) fn begin(&self) -> Doing<'_> {
        self.begin_with(Mask::default())
    }

    pub(crate) fn begin_with(&self, mask: Mask) -> Doing<'_> {
        self.run(0, mask)
    }

    /// Returns a run that takes the job up again.
    pub(crate) fn resume(&self) -> Doing<'_> {
        let event = json!({"event_type": "job_resumed", "version": "0.1.0"});
        let resumed = self.append(vec![fact(None, event)]).last().unwrap().seq;
        self.run(resumed - 1, Mask::default())
    }

    fn run(&self, before: u64, mask: Mask) -> Doing<'_> {
        let (layout, job) = (self.home.layout.clone(), self.home.job.clone());
        let facts = RunFingerprint { workflow_hash: "ab".repeat(32), ..RunFingerprint::default() };
        let letters =
            DeadLetterProjector::start(layout, job, facts, before, mask, self.spool.clone());
        let lock = JobLock::take(&self.home.layout, &self.home.job).unwrap();
        Doing { world: self, letters: letters.unwrap(), last: before, lock: Some(lock) }
    }

    /// Adds facts to the journal, a second later than the last.
    pub(crate) fn append(&self, facts: Vec<NewEvent>) -> Vec<EventRecord> {
        self.now.set(self.now.get() + 1);
        self.journal.borrow_mut().append(facts, at(self.now.get())).unwrap()
    }

    /// Takes up the journal after somebody else appended to it.
    pub(crate) fn reopen(&self) {
        let TestHome { layout, job, .. } = &self.home;
        let (journal, _) = JournalWriter::open(layout, job, Durability::Relaxed).unwrap();
        self.journal.replace(journal);
    }

    /// Shows a text without what is different every time.
    pub(crate) fn show(&self, text: &str) -> String {
        self.home.show(text)
    }

    pub(crate) fn index(&self) -> String {
        std::fs::read_to_string(self.home.layout.dlq_log(&self.home.job)).unwrap_or_default()
    }

    /// Shows the entries in the order in which they are listed.
    pub(crate) fn list(&self) -> String {
        let queue = self.queue();
        let lines = queue.summaries().map(|heading| match heading {
            Ok(heading) => format!(
                "{} {} {} after {}, {} replays{}",
                heading.item_id,
                word(heading.status),
                heading.reason_code,
                heading.attempts,
                heading.replays,
                if heading.reprocess_eligible { ", eligible" } else { "" },
            ),
            Err(error) => self.show(&error.to_string()),
        });
        let lines: Vec<String> = lines.chain([format!("{} open", queue.open_entries())]).collect();
        lines.join("\n")
    }

    /// Shows the attempts of every entry.
    pub(crate) fn histories(&self) -> String {
        let queue = self.queue();
        let mut entries: Vec<_> = queue
            .summaries()
            .map(|heading| queue.entry(&heading.unwrap().item_id).unwrap().unwrap())
            .collect();
        entries.sort_by(|a, b| a.item_id.cmp(&b.item_id));
        let lines = entries.iter().map(|entry| {
            let attempts = entry.failure_history.iter();
            let attempts: Vec<String> = attempts
                .map(|detail| format!("{} {}", detail.attempt_number, detail.reason_code))
                .collect();
            let is_kept = entry.worktree_artifacts.as_ref().is_some_and(|left| left.preserved);
            let left = if is_kept { ", left something" } else { "" };
            format!("{} {}: {}{left}", entry.item_id, word(entry.status), attempts.join(", "))
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Returns the files of the entries, by name.
    pub(crate) fn files(&self) -> Vec<(String, String)> {
        let (layout, job) = (&self.home.layout, &self.home.job);
        let directories = [layout.dlq_items_dir(job), layout.dlq_resolved_dir(job)];
        let there = directories.iter().filter(|directory| directory.exists());
        let files = there.flat_map(|directory| crate::store::fixture::files_in(directory));
        files.map(|(name, bytes)| (name, String::from_utf8(bytes).unwrap())).collect()
    }
}

impl Doing<'_> {
    /// Records what happens to an item, and passes it on.
    pub(crate) fn happen(&mut self, number: usize, events: &[Value]) {
        let records = self.record(number, events);
        self.hear(&records);
    }

    /// Records what happens to an item.
    pub(crate) fn record(&self, number: usize, events: &[Value]) -> Vec<EventRecord> {
        let item = self.world.item(number);
        let facts = events.iter().map(|event| fact(Some(item.clone()), event.clone()));
        self.world.append(facts.collect())
    }

    pub(crate) fn hear(&mut self, records: &[EventRecord]) {
        for record in records {
            let place = record.item_id.as_ref().and_then(|item| self.world.places.get(item));
            self.letters.apply(record, place.copied());
            self.last = record.seq;
        }
    }

    pub(crate) fn settle(&self) {
        self.letters.flush();
    }

    pub(crate) fn finish(&mut self) {
        self.letters.finish(self.last);
        self.lock = None;
    }

    /// Ends as if the process had been killed, whatever was written by then.
    pub(crate) fn die(mut self) {
        self.lock = None;
    }

    pub(crate) fn problem(&self) -> Option<String> {
        self.letters.take_first_error()
    }
}

pub(crate) fn fact(item_id: Option<ItemId>, event: Value) -> NewEvent {
    let event: Event = serde_json::from_value(event).unwrap();
    let agent_id = item_id.as_ref().map(|_| AgentId::new(1));
    NewEvent { agent_id, item_id, event }
}

fn word(status: EntryStatus) -> String {
    serde_json::to_value(status).unwrap().as_str().unwrap().to_owned()
}

pub(crate) fn started(attempt: u32) -> Value {
    json!({"event_type": "agent_started", "attempt": attempt, "correlation_id": "agent-1-item"})
}

pub(crate) fn failed(attempt: u32) -> Value {
    json!({
        "event_type": "agent_failed", "attempt": attempt, "step": "1", "name": "shell: make",
        "duration_ms": 900, "then": "dead_letter",
        "failure": {"kind": "command_failed", "message": "exit code 2", "exit_code": 2},
    })
}

pub(crate) fn died(attempts: u32) -> Value {
    let failure = json!({"kind": "command_failed", "message": "exit code 2", "exit_code": 2});
    json!({"event_type": "item_dead_lettered", "attempts": attempts, "failure": failure})
}

pub(crate) fn kept() -> Value {
    json!({"event_type": "worktree_preserved", "path": "/w/item", "reason": "the item failed"})
}

pub(crate) fn replayed(replay: u32) -> Value {
    json!({"event_type": "replay_started", "replay": replay, "by": "ann"})
}

pub(crate) fn requested(digest: &str) -> Value {
    json!({
        "event_type": "approval_requested", "digest": digest, "by": "ben", "rule": "denied",
        "policy_snapshot": "sha256:dd", "needed": 1, "expires_at": "2026-01-02T04:00:00Z",
    })
}

pub(crate) fn granted(digest: &str, by: &str) -> Value {
    json!({"event_type": "approval_granted", "digest": digest, "by": by, "identity": "asserted"})
}

pub(crate) fn completed(attempt: u32, commits: bool) -> Value {
    let head = if commits { "b" } else { "a" };
    json!({
        "event_type": "agent_completed", "attempt": attempt, "duration_ms": 1, "base": "a",
        "head": head, "commits": u64::from(commits),
    })
}

pub(crate) fn merged() -> Value {
    json!({
        "event_type": "worktree_merged", "source": "s", "target": "t", "commit": "b", "commits": 1,
    })
}
