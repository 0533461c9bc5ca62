//! The state of the items, read from the journal.

use std::collections::BTreeMap;

use serde_json::Value;

use super::workflow::{ATTEMPTS, MapCase, MapFault};
use crate::crash::sequential::parse_journal;

/// The events of the journal, counted.
#[derive(Debug, Default)]
pub(crate) struct MapJournal {
    items: BTreeMap<String, MapItemHistory>,
    /// The number of times the circuit breaker opened.
    pub(crate) opened: u32,
    /// The number of merges of the job's branch into the user's.
    final_merges: u32,
    completed: u32,
    /// Set once the merge into the user's branch may have begun.
    pub(crate) is_merging: bool,
}

/// The events of one item, counted.
#[derive(Debug, Default)]
struct MapItemHistory {
    queued: u32,
    completed: u32,
    merged: u32,
    dead: u32,
    skipped: u32,
    /// The number of failed commands; a kill does not count.
    failed: u32,
    is_poison: bool,
}

impl MapJournal {
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let mut account = Self::default();
        for record in parse_journal(text)? {
            account.add(&record);
        }
        Ok(account)
    }

    fn add(&mut self, record: &Value) {
        let text = |key| record.get(key).and_then(Value::as_str).unwrap_or_default();
        let item = text("item_id");
        let kind = record.pointer("/failure/kind").and_then(Value::as_str);
        let mut fate = MapItemHistory::default();
        let fate = if item.is_empty() {
            &mut fate
        } else {
            self.items.entry(item.to_owned()).or_default()
        };
        match text("event_type") {
            "item_queued" => fate.queued += 1,
            "agent_completed" => fate.completed += 1,
            "worktree_merged" if item.is_empty() => self.final_merges += 1,
            "worktree_merged" => fate.merged += 1,
            "item_skipped" => fate.skipped += 1,
            "agent_failed" if kind == Some("command_failed") => fate.failed += 1,
            "item_dead_lettered" => {
                fate.dead += 1;
                fate.is_poison = kind == Some("poison_repeat");
            }
            "circuit_open" => self.opened += 1,
            "job_completed" => self.completed += 1,
            "phase_started" if text("phase") == "merge" => self.is_merging = true,
            _ => {}
        }
    }

    /// Returns whether an item is in the dead-letter queue.
    pub(crate) fn is_dead(&self, item: &str) -> bool {
        self.items.get(item).is_some_and(|fate| fate.dead > 0)
    }

    /// Returns how many items succeeded, were dead-lettered, and among these as poison.
    pub(crate) fn totals(&self) -> (u32, u32, u32) {
        let count = |of: fn(&MapItemHistory) -> bool| {
            let found = self.items.values().filter(|fate| of(fate)).count();
            u32::try_from(found).unwrap()
        };
        (count(|fate| fate.merged > 0), count(|fate| fate.dead > 0), count(|fate| fate.is_poison))
    }

    /// Checks that every item and the job itself ended exactly once, and as it must.
    pub(crate) fn check(&self, works: &[MapCase]) -> Result<(), String> {
        self.check_items(works)?;
        match (self.completed, self.final_merges) {
            (1, 1) => Ok(()),
            (completed, merges) => {
                Err(format!("the job was completed {completed} and merged {merges} times"))
            }
        }
    }

    /// Checks that every item ended exactly once, and as it must.
    pub(crate) fn check_items(&self, works: &[MapCase]) -> Result<(), String> {
        for work in works {
            let id = work.id();
            let fate = self.items.get(&id).ok_or_else(|| format!("{id} is not in the journal"))?;
            fate.check(*work).map_err(|what| format!("{id}: {what}: {fate:?}"))?;
        }
        if self.items.len() != works.len() {
            let known: Vec<_> = works.iter().map(|work| work.id()).collect();
            let strange: Vec<_> = self.items.keys().filter(|id| !known.contains(id)).collect();
            return Err(format!("items that nobody asked for: {strange:?}"));
        }
        Ok(())
    }
}

impl MapItemHistory {
    fn check(&self, work: MapCase) -> Result<(), &'static str> {
        // Its steps fail only if something happened to the worktree under their hands.
        let most = match work.kind {
            MapFault::Plain | MapFault::Loose | MapFault::Agent => 0,
            MapFault::Once => 1,
            MapFault::Never => ATTEMPTS,
        };
        if self.failed > most {
            return Err("failed although it works");
        }
        match (self.queued, self.completed, self.merged, self.dead, self.skipped) {
            (1, 1, 1, 0, 0) if work.kind == MapFault::Never => Err("succeeded although it fails"),
            (1, 1, 1, 0, 0) => Ok(()),
            (1, 0, 0, 1, 0) if self.is_poison || work.kind == MapFault::Never => Ok(()),
            (1, 0, 0, 1, 0) => Err("dead-lettered although it works"),
            _ => Err("not accounted for exactly once"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash::map::workflow::map_cases;

    /// Makes a journal of events; `event item` or only `event`.
    fn said(events: &[&str]) -> String {
        let mut text = String::new();
        for (index, event) in events.iter().enumerate() {
            let (kind, item) = event.split_once(' ').unwrap_or((event, ""));
            let (item, reason) = item.split_once(' ').unwrap_or((item, ""));
            let mut record = serde_json::json!({"seq": index + 1, "event_type": kind});
            if !item.is_empty() {
                record["item_id"] = item.into();
                record["failure"] = serde_json::json!({"kind": reason});
            }
            text = format!("{text}{record}\n");
        }
        let works: Vec<_> = map_cases(1).collect();
        let checked = MapJournal::read(&text).and_then(|account| account.check(&works));
        checked.err().unwrap_or_else(|| "fine".to_owned())
    }

    const END: [&str; 2] = ["worktree_merged", "job_completed"];

    #[test]
    fn an_item_must_end_exactly_once() {
        let with = |events: &[&str]| said(&[events, &END].concat());
        let success =
            ["item_queued item-001", "agent_completed item-001", "worktree_merged item-001"];
        assert_eq!(with(&success), "fine");
        assert_eq!(
            with(&["item_queued item-001", "item_dead_lettered item-001 poison_repeat"]),
            "fine"
        );
        assert_eq!(with(&[]), "item-001 is not in the journal");
        insta::assert_snapshot!(with(&success[..2]), @"item-001: not accounted for exactly once: MapItemHistory { queued: 1, completed: 1, merged: 0, dead: 0, skipped: 0, failed: 0, is_poison: false }");
        insta::assert_snapshot!(with(&[&success[..], &success[1..2]].concat()), @"item-001: not accounted for exactly once: MapItemHistory { queued: 1, completed: 2, merged: 1, dead: 0, skipped: 0, failed: 0, is_poison: false }");
        insta::assert_snapshot!(
            with(&["item_queued item-001", "item_dead_lettered item-001 command_failed"]), @"item-001: dead-lettered although it works: MapItemHistory { queued: 1, completed: 0, merged: 0, dead: 1, skipped: 0, failed: 0, is_poison: false }");
        insta::assert_snapshot!(with(&[&success[..], &["item_queued item-002"]].concat()), @r#"items that nobody asked for: ["item-002"]"#);
        insta::assert_snapshot!(with(&[&success[..], &["agent_failed item-001 command_failed"]].concat()), @"item-001: failed although it works: MapItemHistory { queued: 1, completed: 1, merged: 1, dead: 0, skipped: 0, failed: 1, is_poison: false }");
        assert_eq!(said(&success), "the job was completed 0 and merged 0 times");
    }
}
