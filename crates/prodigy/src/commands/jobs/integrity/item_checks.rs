//! The check that all items of a job are accounted for.

use std::{collections::HashMap, path::Path};

use prodigy_core::{
    event::{Event, EventRecord},
    ids::{ItemId, JobId},
    job::{ItemStage, Job, MapState},
};
use prodigy_engine::{
    git::{self, Repo},
    store::{Layout, Spool},
};

use super::journal_check::{IntegrityCheck, plural};
use crate::error::error_chain;

/// After how many records every single item is counted anew.
const RECOUNT: u64 = 4096;

/// The most names listed.
const NAMED: usize = 3;

/// Checks the items of a job while its records are read.
#[derive(Default)]
pub(crate) struct ItemChecks {
    /// The first record after which an item was lost or counted twice.
    broken: Option<String>,
    /// The commits that wait to be merged.
    heads: HashMap<ItemId, String>,
    /// The commits that were merged into the job's branch.
    merged: Vec<String>,
    /// The job's branch.
    branch: Option<String>,
    /// True if the job's branch was merged before its dead letters were replayed.
    was_merged: bool,
}

impl ItemChecks {
    /// Takes notice of a record that was just taken in.
    pub(crate) fn observe(&mut self, record: &EventRecord, job: &Job) {
        let Some(map) = &job.map else { return };
        let is_due = record.seq.is_multiple_of(RECOUNT);
        if self.broken.is_none() && !(is_balanced(map) && (!is_due || map.is_conserved())) {
            self.broken = Some(unbalanced(map, record.seq));
        }
        self.was_merged |= job.merged.is_some();
        let Some(item) = &record.item_id else { return };
        if let Event::AgentCompleted(done) = &record.event
            && done.has_commits()
        {
            self.heads.insert(item.clone(), done.head.clone());
        }
        if let Event::WorktreeMerged { target, .. } = &record.event {
            self.merged.extend(self.heads.remove(item));
            self.branch = Some(target.clone());
        }
    }

    /// Returns what was found, for a job that has items.
    pub(crate) fn findings(
        self,
        layout: &Layout,
        id: &JobId,
        job: &Job,
        target: Option<&str>,
    ) -> Vec<IntegrityCheck> {
        let Some(map) = &job.map else { return Vec::new() };
        vec![
            IntegrityCheck::new("items", self.conservation(map, job.seq)),
            IntegrityCheck::new("selection", selection(layout, id, map)),
            IntegrityCheck::new("dead letters", Ok(dead_letters(layout, id, map))),
            IntegrityCheck::new("item merges", self.merges(job, target)),
        ]
    }

    /// Checks that every item is accounted for exactly once.
    fn conservation(&self, map: &MapState, seq: u64) -> Result<String, String> {
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        if map.is_conserved() { Ok(totals(map)) } else { Err(unbalanced(map, seq)) }
    }

    /// Checks that the job's branch, or the one it was merged into, has the commits of items.
    fn merges(&self, job: &Job, target: Option<&str>) -> Result<String, String> {
        let Some(branch) = &self.branch else {
            return Ok("the journal tells of none".to_owned());
        };
        let repository = job.started.as_ref().map(|started| started.repository.as_str());
        let path = Path::new(repository.unwrap_or_default());
        let target = target.filter(|_| self.was_merged);
        let found = missing_commits(path, &[Some(branch), target], &self.merged);
        let number = plural(u64::try_from(self.merged.len()).unwrap_or(u64::MAX), "item");
        match found {
            Ok(None) => Err(format!("the branch `{branch}` is gone")),
            Ok(Some((tip, 0))) => Ok(format!("`{tip}` contains the commits of {number}")),
            Ok(Some((tip, lost))) => Err(format!(
                "{} of {number} that were merged are not in `{tip}`",
                plural(u64::try_from(lost).unwrap_or(u64::MAX), "commit")
            )),
            Err(error) => Err(format!("{} in {}", error_chain(&error), path.display())),
        }
    }
}

/// Returns the first branch that is there, and how many of the commits it has not.
fn missing_commits(
    repository: &Path,
    branches: &[Option<&str>],
    commits: &[String],
) -> Result<Option<(String, usize)>, git::Error> {
    let repo = Repo::discover(repository)?;
    for branch in branches.iter().flatten() {
        if let Some(tip) = repo.branch_tip(branch)? {
            return Ok(Some(((*branch).to_owned(), repo.count_missing_from(commits, &tip)?)));
        }
    }
    Ok(None)
}

/// Returns whether the numbers add up, without counting the items.
fn is_balanced(map: &MapState) -> bool {
    let queued = u32::try_from(map.items.len()).unwrap_or(u32::MAX);
    let unqueued = map.total.saturating_sub(queued);
    let known = [map.counts.finished(), map.pending(), map.in_flight(), unqueued];
    known.iter().map(|number| u64::from(*number)).sum::<u64>() == u64::from(map.total)
}

fn unbalanced(map: &MapState, seq: u64) -> String {
    format!("after record {seq} they do not add up to {}: {}", map.total, totals(map))
}

fn totals(map: &MapState) -> String {
    let counts = map.counts;
    let parts = [
        (counts.successful, "successful"),
        (counts.dead_lettered, "in the dead letter queue"),
        (counts.skipped, "skipped"),
        (map.pending(), "waiting"),
        (map.in_flight(), "under way"),
    ];
    let parts: Vec<_> = parts.iter().map(|(number, what)| format!("{number} {what}")).collect();
    format!("{} = {}", map.total, parts.join(" + "))
}

/// Checks that the items are those that were chosen.
fn selection(layout: &Layout, id: &JobId, map: &MapState) -> Result<String, String> {
    let path = layout.items_file(id);
    let spool = Spool::open(&path, &map.sha256).map_err(|error| error_chain(&error))?;
    let mut at = 0;
    for (found, known) in spool.ids().zip(&map.items) {
        at += 1;
        let found = found.map_err(|error| error_chain(&error))?;
        if found != known.id {
            let known = &known.id;
            return Err(format!("item {at} is `{found}`, and the journal says `{known}`"));
        }
    }
    let total = usize::try_from(map.total).unwrap_or(usize::MAX);
    if spool.len() != total {
        return Err(format!("{} holds {} items of {total}", path.display(), spool.len()));
    }
    Ok(format!("{} as they were chosen", plural(u64::from(map.total), "item")))
}

/// Says which dead letters have no file: the journal has all that would be in it.
fn dead_letters(layout: &Layout, id: &JobId, map: &MapState) -> String {
    let dead = map.items.iter().filter(|item| matches!(item.stage, ItemStage::DeadLettered));
    let missing: Vec<&str> = dead
        .filter(|item| !layout.dlq_item(id, &item.id).is_file())
        .map(|item| item.id.as_str())
        .collect();
    let number = plural(u64::from(map.counts.dead_lettered), "dead letter");
    if missing.is_empty() {
        return format!("{number}, each with its file");
    }
    let named: Vec<_> = missing.iter().take(NAMED).map(|item| format!("`{item}`")).collect();
    let more = missing.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{number}; no file for {}{more}, the journal has what was in it", named.join(", "))
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use serde_json::json;

    use super::*;

    /// Returns a job with two items that wait, and its last record.
    fn two_items() -> (Job, EventRecord) {
        let mut job = Job::default();
        let mut last = None;
        let events = [
            json!({
                "event_type": "job_started", "version": "0.1.0", "workflow_file": "w.yml",
                "workflow_hash": "ab", "repository": "/repo", "base_commit": "c0",
                "mode": "mapreduce", "steps": 1, "rounds": 1, "yes": true,
            }),
            json!({ "event_type": "phase_started", "phase": "map" }),
            json!({ "event_type": "items_selected", "total": 2, "sha256": "ab" }),
            json!({ "event_type": "item_queued", "item_id": "item-001" }),
            json!({ "event_type": "item_queued", "item_id": "item-002" }),
        ];
        for (event, seq) in events.into_iter().zip(1..) {
            let mut line = event;
            for (name, value) in [
                ("format", json!(1)),
                ("seq", json!(seq)),
                ("timestamp", json!("2026-01-02T03:04:05Z")),
                ("job_id", json!("job")),
            ] {
                line.as_object_mut().unwrap().insert(name.to_owned(), value);
            }
            let record: EventRecord = serde_json::from_value(line).unwrap();
            job.apply(&record).unwrap();
            last = Some(record);
        }
        (job, last.unwrap())
    }

    #[test]
    fn items_that_add_up_are_all_accounted_for() {
        let (job, last) = two_items();
        let mut checks = ItemChecks::default();
        checks.observe(&last, &job);
        let law = checks.conservation(job.map.as_ref().unwrap(), job.seq);
        assert_snapshot!(law.unwrap(), @"2 = 0 successful + 0 in the dead letter queue + 0 skipped + 2 waiting + 0 under way");
    }

    #[test]
    fn an_item_that_was_lost_or_counted_twice_is_noticed_at_once() {
        for (counted, lost) in [(1, 0), (0, 1)] {
            let (mut job, last) = two_items();
            let map = job.map.as_mut().unwrap();
            map.counts.successful = counted;
            if lost == 1 {
                // It is known, and nobody waits for it.
                map.total += 1;
                map.items.push(map.items[0].clone());
            }
            let mut checks = ItemChecks::default();
            checks.observe(&last, &job);
            let law = checks.conservation(job.map.as_ref().unwrap(), 99).unwrap_err();
            assert!(law.starts_with("after record 5 they do not add up"), "{law}");
        }
    }

    #[test]
    fn counts_that_only_seem_to_add_up_are_noticed_in_the_end() {
        let (mut job, last) = two_items();
        let map = job.map.as_mut().unwrap();
        // One more is wanted and one more is counted: the sum is right, the items are not.
        map.total += 1;
        map.counts.successful += 1;
        map.items.push(map.items[0].clone());
        let mut checks = ItemChecks::default();
        checks.observe(&last, &job);
        assert_eq!(checks.broken, None);
        let law = checks.conservation(job.map.as_ref().unwrap(), 99).unwrap_err();
        assert_snapshot!(law, @"after record 99 they do not add up to 3: 3 = 1 successful + 0 in the dead letter queue + 0 skipped + 2 waiting + 0 under way");
    }
}
