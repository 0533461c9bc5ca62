//! Reading from the journal what the dead letters are.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
};

use prodigy_core::{
    dlq::{DeadLetterContext, DeadLetterState, DeadLetteredItem, EntryStatus, RunFingerprint},
    event::{Event, EventRecord},
    ids::{ItemId, JobId},
    job::checkpoint::Checkpoint,
    mask::Mask,
};

use super::{
    DeadLetterSummary, Error,
    cache::DeadLetterCache,
    dead_letter_store::known_seq,
    index::{IndexReader, last_mark},
    old_layout::is_old_layout,
    writer::DeadLetterWriter,
};
use crate::store::{
    self, JobLock, JournalReader, Layout, LogFile, Spool, load_checkpoint, read_last_seq,
};

/// The number of entries written before their lines are.
const BATCH: usize = 500;

/// The failed items of a job, as read from its journal.
pub(crate) struct JournalScan {
    layout: Layout,
    job: JobId,
    /// The letters of all items that have an entry or are not at their end.
    pub(crate) letters: DeadLetterCache,
    /// The items that have or had an entry.
    pub(crate) dead: HashMap<ItemId, ScannedEntry>,
    /// The last record that was read.
    pub(crate) last_seq: u64,
    run: RunFingerprint,
    items_sha256: Option<String>,
}

/// An item that has or had an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScannedEntry {
    /// The last record that changed the entry.
    pub(crate) seq: u64,
    pub(crate) status: EntryStatus,
    pub(crate) is_cleared: bool,
}

impl JournalScan {
    /// Reads the journal of a job up to a record.
    pub(crate) fn read(layout: &Layout, job: &JobId, up_to: u64) -> Result<Self, Error> {
        let mut scan = Self {
            layout: layout.clone(),
            job: job.clone(),
            letters: DeadLetterCache::new(layout.state_dir(job)),
            dead: HashMap::new(),
            last_seq: 0,
            run: RunFingerprint::default(),
            items_sha256: None,
        };
        for record in JournalReader::open(layout, job)? {
            let record = record?;
            if record.seq > up_to {
                break;
            }
            scan.apply(&record);
        }
        Ok(scan)
    }

    /// Applies the next record.
    pub(crate) fn apply(&mut self, record: &EventRecord) {
        self.last_seq = record.seq;
        self.run.apply(&record.event);
        if let Event::ItemsSelected { sha256, .. } = &record.event {
            self.items_sha256 = Some(sha256.clone());
        }
        let Some(item) =
            record.item_id.as_ref().filter(|_| DeadLetterState::is_relevant(&record.event))
        else {
            return;
        };
        let known = self.letters.take(item);
        let Some(mut letter) = known.or_else(|| new_dead_letter(&self.job, item, &record.event))
        else {
            return;
        };
        let log = |item: &ItemId, attempt| attempt_log_path(&self.layout, &self.job, item, attempt);
        let worktree = |name: &str| worktree(&self.layout, &self.job, name);
        letter.apply(record, DeadLetterContext { run: &self.run, log: &log, worktree: &worktree });
        if let Some(status) = letter.status() {
            let dead = ScannedEntry { seq: letter.seq(), status, is_cleared: letter.is_cleared() };
            self.dead.insert(item.clone(), dead);
        }
        if !letter.is_finished() {
            self.letters.insert(letter);
        }
    }

    /// Returns how many entries wait for somebody.
    pub(crate) fn open_count(&self) -> u64 {
        let open = self.dead.values().filter(|dead| dead.is_open()).count();
        u64::try_from(open).unwrap_or(u64::MAX)
    }

    /// Returns what a list shows of the entries, the newest first.
    pub(crate) fn summaries(&mut self) -> Vec<DeadLetterSummary> {
        let mut headings = Vec::new();
        for item in self.changed_after(0).into_iter().rev() {
            let is_there = self.dead.get(&item).is_some_and(|dead| !dead.is_cleared);
            let Some(letter) = self.letters.take(&item).filter(|_| is_there) else { continue };
            headings
                .extend(letter.without_item_data().map(|entry| DeadLetterSummary::from(&entry)));
            self.letters.insert(letter);
        }
        headings
    }

    /// Returns the entry of an item, without the secrets of the run; `None` if it has none.
    pub(crate) fn entry(&mut self, item: &ItemId) -> Option<DeadLetteredItem> {
        let letter = self.letters.take(item)?;
        let spool = self.spool();
        let ids = spool.iter().flat_map(Spool::ids).enumerate();
        let place = ids.filter_map(|(place, id)| Some((place, id.ok()?)));
        let place = place.filter(|(_, id)| id == item).map(|(place, _)| place).next();
        let projection = DeadLetterWriter::open_read_only(&self.layout, &self.job, spool);
        projection.entry(&letter, place, None)
    }

    /// Returns how often the entry of an item was changed.
    pub(crate) fn revision(&mut self, item: &ItemId) -> u32 {
        let Some(letter) = self.letters.take(item) else { return 0 };
        let revision = letter.revision();
        self.letters.insert(letter);
        revision
    }

    /// Returns the items whose entries changed after a record, in the order of the changes.
    pub(crate) fn changed_after(&self, seq: u64) -> Vec<ItemId> {
        let changed = self.dead.iter().filter(|(_, dead)| dead.seq > seq);
        let mut changed: Vec<_> = changed.map(|(item, dead)| (dead.seq, item.clone())).collect();
        changed.sort();
        changed.into_iter().map(|(_, item)| item).collect()
    }

    /// Returns the items of the job as they were chosen, if they are still there.
    pub(crate) fn spool(&self) -> Option<Spool> {
        let sha256 = self.items_sha256.as_deref()?;
        Spool::open(&self.layout.items_file(&self.job), sha256).ok()
    }

    /// Writes the entries of some items, and their lines.
    ///
    /// The letters of entries that nothing is under way for are gone afterwards.
    pub(crate) fn write(
        &mut self,
        items: &[ItemId],
        projection: &mut DeadLetterWriter,
        spool: Option<&Spool>,
    ) -> Result<(), Error> {
        let wanted: HashSet<&ItemId> = items.iter().collect();
        let ids = spool.into_iter().flat_map(Spool::ids).enumerate();
        let places: HashMap<ItemId, usize> = ids
            .filter_map(|(place, id)| Some((id.ok()?, place)))
            .filter(|(id, _)| wanted.contains(id))
            .collect();
        let is_open = |item: &&ItemId| self.dead.get(*item).is_some_and(ScannedEntry::is_open);
        let rising = u64::try_from(items.iter().filter(is_open).count()).unwrap_or(u64::MAX);
        projection.listing.open = self.open_count().saturating_sub(rising);
        for batch in items.chunks(BATCH) {
            for item in batch {
                let Some(letter) = self.letters.take(item) else { continue };
                let heading = projection.write_entry(&letter, places.get(item).copied());
                if let Ok(Some(heading)) = &heading {
                    projection.add_to_index(&letter, heading.clone(), false);
                }
                if letter.status() == Some(EntryStatus::Replaying) || heading.is_err() {
                    self.letters.insert(letter);
                }
                heading?;
            }
            projection.listing.flush()?;
        }
        Ok(())
    }
}

impl ScannedEntry {
    /// Returns whether the entry waits for somebody.
    pub(crate) fn is_open(&self) -> bool {
        self.status == EntryStatus::Open && !self.is_cleared
    }
}

/// Returns a new letter, if an event can be the first that it has to know of.
pub(crate) fn new_dead_letter(
    job: &JobId,
    item: &ItemId,
    event: &Event,
) -> Option<DeadLetterState> {
    let begins = matches!(
        event,
        Event::AgentStarted { .. }
            | Event::AgentFailed(_)
            | Event::WorktreePreserved { .. }
            | Event::ItemDeadLettered { .. }
    );
    begins.then(|| DeadLetterState::new(job.clone(), item.clone()))
}

/// Returns a worktree of the job.
pub(crate) fn worktree(layout: &Layout, job: &JobId, name: &str) -> String {
    layout.worktrees_dir(job).join(name).to_string_lossy().into_owned()
}

/// Returns the file with what an attempt of an item printed.
pub(crate) fn attempt_log_path(
    layout: &Layout,
    job: &JobId,
    item: &ItemId,
    attempt: u32,
) -> String {
    let file = |which| layout.log_file(job, Some(item), attempt, 0, which);
    // A file is made with its first byte, and what fails often writes to standard error alone.
    let is_there = |path: &PathBuf| path.symlink_metadata().is_ok();
    let files = [LogFile::Transcript, LogFile::Output, LogFile::Errors].map(file);
    let log = files.into_iter().find(is_there).unwrap_or_else(|| file(LogFile::Output));
    log.to_string_lossy().into_owned()
}

/// Writes what the journal says and the files do not, if nobody else works on the job.
///
/// It is cheap if there is nothing to do: only the ends of the list and the journal are read.
pub(crate) fn rebuild_missing(
    layout: &Layout,
    job: &JobId,
    held: Option<&JobLock>,
) -> Result<(), Error> {
    if missing(layout, job)?.is_none() && !is_incomplete(layout, job)? {
        return Ok(());
    }
    let _lock = match held {
        Some(_) => None,
        None if JobLock::holder(layout, job)?.is_some() => return Ok(()),
        None => match JobLock::take(layout, job) {
            Ok(lock) => Some(lock),
            Err(store::Error::Locked { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        },
    };
    // Somebody may have been faster.
    if let Some(after) = missing(layout, job)? {
        complete(layout, job, after)?;
    }
    if is_incomplete(layout, job)? {
        let mut projection = DeadLetterWriter::new(layout, job, Mask::default(), None);
        projection.listing.summarize()?;
    }
    Ok(())
}

/// Returns whether the files are laid out as they were before, or have a log and no index.
fn is_incomplete(layout: &Layout, job: &JobId) -> Result<bool, Error> {
    let is_there = |path: std::path::PathBuf| path.symlink_metadata().is_ok();
    let has_no_index = is_there(layout.dlq_log(job)) && !is_there(layout.dlq_index(job));
    Ok(has_no_index || is_old_layout(layout, job)?)
}

/// Returns the record after which the files may not say what the journal says; `None` if
/// they do.
fn missing(layout: &Layout, job: &JobId) -> Result<Option<u64>, Error> {
    let mark = last_mark(layout, job)?;
    let last = match read_last_seq(layout, job) {
        // The files of older programs have no journal of ours.
        Err(store::Error::NoJob { .. }) => return Ok(None),
        last => last?,
    };
    match mark {
        Some(mark) if mark.seq >= last => Ok(None),
        Some(mark) => Ok(Some(mark.seq)),
        None if has_no_list(layout, job)? && nothing_died(layout, job) => Ok(None),
        // The entries know more than the journal: they are not made to say less.
        None if known_seq(layout, job)? > last => Ok(None),
        None => Ok(Some(0)),
    }
}

fn has_no_list(layout: &Layout, job: &JobId) -> Result<bool, Error> {
    Ok(IndexReader::open(layout, job)?.is_none_or(|mut lines| lines.next().is_none()))
}

/// Returns whether no item of a job ever died; `false` if that cannot be told.
///
/// Only what the journal says after the checkpoint is read.
pub(crate) fn nothing_died(layout: &Layout, job: &JobId) -> bool {
    let checkpoint = load_checkpoint::<Checkpoint>(layout, job).ok().flatten();
    let last = read_last_seq(layout, job).unwrap_or_default();
    let usable = checkpoint.filter(|c| c.is_readable() && c.covers() <= last);
    let mut covered = 0;
    if let Some(checkpoint) = usable {
        covered = checkpoint.covers();
        let map = checkpoint.into_job().map;
        if map.is_some_and(|map| map.items.iter().any(|item| item.died.is_some())) {
            return false;
        }
    }
    let Ok(mut reader) = JournalReader::open_after(layout, job, covered) else { return false };
    reader.all(|record| {
        record.is_ok_and(|record| !matches!(record.event, Event::ItemDeadLettered { .. }))
    })
}

/// Writes what the journal says after a record.
fn complete(layout: &Layout, job: &JobId, after: u64) -> Result<(), Error> {
    if after > 0 {
        let mut reader = JournalReader::open_after(layout, job, after)?;
        let mut matters = false;
        for record in &mut reader {
            let record = record?;
            matters |= record.item_id.is_some() && DeadLetterState::is_relevant(&record.event);
        }
        if !matters {
            let mut projection = DeadLetterWriter::new(layout, job, Mask::default(), None);
            projection.listing.add_mark(reader.last_seq());
            return projection.listing.flush();
        }
    }
    let mut scan = JournalScan::read(layout, job, u64::MAX)?;
    let spool = scan.spool();
    let mut projection = DeadLetterWriter::new(layout, job, Mask::default(), spool.clone());
    let changed = scan.changed_after(after);
    if changed.is_empty() && !projection.listing.exists() {
        return Ok(());
    }
    scan.write(&changed, &mut projection, spool.as_ref())?;
    projection.listing.add_mark(scan.last_seq);
    projection.listing.flush()?;
    projection.listing.summarize()
}
