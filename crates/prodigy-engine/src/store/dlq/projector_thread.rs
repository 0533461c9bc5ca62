//! The thread that writes dead letters: what it knows, and when it writes.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use prodigy_core::{
    dlq::{DeadLetterContext, DeadLetterState, EntryStatus, RunFingerprint},
    event::{Event, EventRecord},
    ids::{ItemId, JobId},
};

use super::{
    DeadLetterSummary, Error,
    cache::DeadLetterCache,
    dead_letter_store::entry_paths,
    index::last_mark,
    projector::{ProjectorCommand, set_first_error},
    rebuild::{self, JournalScan},
    writer::{DeadLetterWriter, is_open},
};
use crate::store::{Layout, Spool};

/// The delay before an entry is written: the artifacts of the attempt are known a moment later.
const HOLD: Duration = Duration::from_millis(100);
/// The delay before a failed write is retried.
const AGAIN: Duration = Duration::from_secs(1);
/// The most unwritten entries that are remembered; the others are found in the
/// journal when writing works again.
const REMEMBERED: usize = 10_000;

/// The state of the writer thread.
pub(crate) struct ProjectorThread {
    pub(crate) layout: Layout,
    pub(crate) job: JobId,
    pub(crate) run: RunFingerprint,
    /// The last record of the runs before.
    pub(crate) before: u64,
    pub(crate) projection: DeadLetterWriter,
    pub(crate) spool: Spool,
    pub(crate) letters: DeadLetterCache,
    /// Records of items of which it is not known yet whether an earlier run knew them.
    pub(crate) begun: HashMap<ItemId, Vec<EventRecord>>,
    /// The facts about items whose entries changed and are not written yet.
    pub(crate) due: HashMap<ItemId, PendingEntry>,
    /// The same items, in the order in which they are written.
    pub(crate) order: VecDeque<(Instant, ItemId)>,
    /// The knowledge of earlier runs.
    pub(crate) past: PriorRuns,
    /// Set if entries that could not be written were forgotten.
    pub(crate) is_incomplete: bool,
    pub(crate) problem: Arc<Mutex<Option<String>>>,
}

/// An entry that is to be written.
pub(crate) struct PendingEntry {
    place: Option<usize>,
    was_open: bool,
}

/// The knowledge of earlier runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PriorRuns {
    /// There were none, or they were read.
    Known,
    /// The files hold their entries, but not their items that did not fail.
    Listed,
    /// The files may not even have that.
    Unknown,
}

/// Returns what is known of the runs before.
pub(crate) fn prior_runs(
    layout: &Layout,
    job: &JobId,
    before: u64,
    problem: &Mutex<Option<String>>,
) -> PriorRuns {
    let mark = last_mark(layout, job).unwrap_or_else(|error| {
        set_first_error(problem, &error);
        None
    });
    match mark {
        _ if before == 0 => PriorRuns::Known,
        Some(mark) if mark.seq >= before => PriorRuns::Listed,
        Some(_) | None => PriorRuns::Unknown,
    }
}

impl ProjectorThread {
    pub(crate) fn run(&mut self, orders: &Receiver<ProjectorCommand>) {
        loop {
            // However much there is to hear, what is due is written.
            self.write(false);
            let order = match self.order.front() {
                Some((at, _)) => orders.recv_timeout(at.saturating_duration_since(Instant::now())),
                None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match order {
                Ok(ProjectorCommand::Record(record, place)) => self.apply(*record, place),
                Ok(ProjectorCommand::Settle(done)) => {
                    self.write(true);
                    // Nobody waits any more, which is fine.
                    done.send(()).ok();
                }
                Ok(ProjectorCommand::Finish(last)) => {
                    self.write(true);
                    self.mark(last);
                    return;
                }
                Err(RecvTimeoutError::Timeout) => {}
                // The run broke off; what is missing is found in the journal.
                Err(RecvTimeoutError::Disconnected) => return self.write(true),
            }
        }
    }

    /// Applies a record.
    fn apply(&mut self, record: EventRecord, place: Option<usize>) {
        let Some(item) = record.item_id.clone() else { return };
        if self.is_unknown(&item) && needs_no_lookup(&record.event) {
            let ends = matches!(&record.event, Event::WorktreeMerged { .. })
                || matches!(&record.event, Event::AgentCompleted(done) if !done.has_commits());
            if ends {
                self.begun.remove(&item);
            } else {
                self.begun.entry(item).or_default().push(record);
            }
            return;
        }
        let Some(mut letter) = self.load(&item, &record.event) else { return };
        let was_open = is_open(&letter);
        let before = (letter.revision(), letter.seq());
        let earlier = self.begun.remove(&item).unwrap_or_default();
        let log = |item: &ItemId, attempt| {
            rebuild::attempt_log_path(&self.layout, &self.job, item, attempt)
        };
        let worktree = |name: &str| rebuild::worktree(&self.layout, &self.job, name);
        let origin = DeadLetterContext { run: &self.run, log: &log, worktree: &worktree };
        for record in earlier.iter().chain([&record]) {
            letter.apply(record, origin);
        }
        // Without an entry there is nothing to write, and a letter that is written is let go.
        let is_changed = (letter.revision(), letter.seq()) != before && letter.status().is_some();
        if is_changed && !self.due.contains_key(&item) {
            self.due.insert(item.clone(), PendingEntry { place, was_open });
            self.order.push_back((Instant::now() + HOLD, item));
        }
        if !letter.is_finished() {
            self.letters.insert(letter);
        }
    }

    /// Returns whether nothing is known of an item, and no run before gave it up: whether one
    /// of them knew it matters only once it fails.
    fn is_unknown(&self, item: &ItemId) -> bool {
        let has_file = || {
            let files = entry_paths(&self.layout, &self.job, item);
            files.iter().any(|file| file.symlink_metadata().is_ok())
        };
        self.past == PriorRuns::Listed && !self.letters.contains(item) && !has_file()
    }

    /// Returns what is known of an item; `None` if an event says nothing that matters.
    fn load(&mut self, item: &ItemId, event: &Event) -> Option<DeadLetterState> {
        if let Some(letter) = self.letters.take(item) {
            return Some(letter);
        }
        let mut stored = self.projection.read_entry(item);
        let is_enough = match (self.past, &stored) {
            (PriorRuns::Known, _) => true,
            // What was under way when a run ended is only in the journal.
            (PriorRuns::Listed, Some(stored)) => stored.status != EntryStatus::Replaying,
            (PriorRuns::Listed, None) | (PriorRuns::Unknown, _) => false,
        };
        if !is_enough {
            self.read_prior_runs();
            if let Some(letter) = self.letters.take(item) {
                return Some(letter);
            }
            stored = self.projection.read_entry(item);
        }
        if let Some(entry) = stored {
            return Some(DeadLetterState::from_entry(entry));
        }
        let is_begun = self.begun.contains_key(item);
        let new = || DeadLetterState::new(self.job.clone(), item.clone());
        rebuild::new_dead_letter(&self.job, item, event).or_else(|| is_begun.then(new))
    }

    /// Reads what the runs before left undone, and writes what they did not get to write.
    fn read_prior_runs(&mut self) {
        let was_listed = self.past == PriorRuns::Listed;
        // It is read once: if that fails, it fails again.
        self.past = PriorRuns::Known;
        let scanned =
            JournalScan::read(&self.layout, &self.job, self.before).and_then(|mut scan| {
                // What is listed is counted, and may have changed in this run.
                let written = if was_listed {
                    Ok(())
                } else {
                    let after = last_mark(&self.layout, &self.job)?.map_or(0, |mark| mark.seq);
                    let missing = scan.changed_after(after);
                    scan.write(&missing, &mut self.projection, Some(&self.spool))
                };
                Ok((scan, written))
            });
        match scanned {
            Ok((mut scan, written)) => {
                if let Err(error) = written {
                    set_first_error(&self.problem, &error);
                    self.is_incomplete = true;
                }
                let items: Vec<ItemId> = scan.letters.items().cloned().collect();
                for item in items {
                    let status = scan.dead.get(&item).map(|dead| dead.status);
                    if status.is_none_or(|status| status == EntryStatus::Replaying)
                        && let Some(letter) = scan.letters.take(&item)
                    {
                        self.letters.insert(letter);
                    }
                }
            }
            Err(error) => {
                set_first_error(&self.problem, &error);
                self.is_incomplete = true;
            }
        }
    }

    /// Writes the entries whose time has come, or all of them.
    fn write(&mut self, all: bool) {
        let now = Instant::now();
        let mut written = Vec::new();
        let mut failed = None;
        let is_due = |(at, _): &(Instant, ItemId)| all || *at <= now;
        while self.order.front().is_some_and(is_due)
            && let Some((_, item)) = self.order.pop_front()
        {
            match self.write_entry(&item) {
                Ok(Some((letter, heading, due))) => written.push((letter, heading, due)),
                Ok(None) => {}
                Err(error) => {
                    failed = Some(error);
                    self.order.push_front((now + AGAIN, item));
                    break;
                }
            }
        }
        let open = self.projection.listing.open;
        for (letter, heading, due) in &written {
            self.projection.add_to_index(letter, heading.clone(), due.was_open);
        }
        if let Err(error) = self.projection.listing.flush() {
            self.projection.listing.open = open;
            for (letter, _, due) in written.drain(..).rev() {
                let item = letter.item_id().clone();
                self.order.push_front((now + AGAIN, item.clone()));
                self.due.insert(item, due);
                self.letters.insert(letter);
            }
            failed = Some(error);
        } else if let Err(error) = self.projection.listing.summarize_if_due() {
            // The log has it all; the index is made again.
            set_first_error(&self.problem, &error);
        }
        for (letter, ..) in written {
            if letter.status() == Some(EntryStatus::Replaying) {
                self.letters.insert(letter);
            }
        }
        if let Some(error) = failed {
            set_first_error(&self.problem, &error);
            for (at, _) in &mut self.order {
                *at = (*at).max(now + AGAIN);
            }
            while self.order.len() > REMEMBERED {
                if let Some((_, item)) = self.order.pop_front() {
                    self.due.remove(&item);
                    self.letters.take(&item);
                    self.is_incomplete = true;
                }
            }
        }
    }

    fn write_entry(
        &mut self,
        item: &ItemId,
    ) -> Result<Option<(DeadLetterState, DeadLetterSummary, PendingEntry)>, Error> {
        let (Some(letter), Some(due)) = (self.letters.take(item), self.due.remove(item)) else {
            return Ok(None);
        };
        match self.projection.write_entry(&letter, due.place) {
            Ok(Some(heading)) => Ok(Some((letter, heading, due))),
            Ok(None) => Ok(None),
            Err(error) => {
                self.due.insert(item.clone(), due);
                self.letters.insert(letter);
                Err(error)
            }
        }
    }

    /// Notes that everything up to a record is in the files, if it is.
    fn mark(&mut self, last: u64) {
        let is_whole =
            self.order.is_empty() && !self.is_incomplete && self.past != PriorRuns::Unknown;
        if is_whole && self.projection.listing.exists() {
            self.projection.listing.add_mark(last);
            let listing = &mut self.projection.listing;
            if let Err(error) = listing.flush().and_then(|()| listing.summarize()) {
                set_first_error(&self.problem, &error);
            }
        }
    }
}

/// Returns whether an event alone gives no reason to look an item up.
fn needs_no_lookup(event: &Event) -> bool {
    matches!(
        event,
        Event::AgentStarted { .. }
            | Event::AgentUsage { .. }
            | prodigy_core::agent_news!()
            | Event::AgentReleased { .. }
            | prodigy_core::spending_news!()
            | Event::AgentCompleted(_)
            | Event::WorktreeMerged { .. }
            | Event::WorktreePreserved { .. }
            | Event::EffectPrepared(_)
            | Event::EffectCommitted { .. }
            | Event::EffectReconciled { .. }
    )
}
