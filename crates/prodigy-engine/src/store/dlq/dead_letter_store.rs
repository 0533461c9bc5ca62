//! Reading the dead letters of a job.

use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
};

use prodigy_core::{
    Timestamp,
    dlq::{DeadLetterError, DeadLetteredItem, EntryFile, EntryStatus},
    event::Event,
    ids::{ItemId, JobId},
};

use super::{
    DeadLetterSummary, Error,
    fsck::fsck,
    index::{IndexLine, IndexReader},
    rebuild::{JournalScan, nothing_died, rebuild_missing},
};
use crate::store::{self, JobLock, JournalReader, Layout, read_bounded};

/// The largest file that is read.
const LIMIT: u64 = 256 * 1024 * 1024;

/// The dead letters of one job, for reading, also while the job runs.
#[derive(Debug)]
pub struct DeadLetterStore {
    layout: Layout,
    job: JobId,
    source: EntrySource,
    open: u64,
    behind: Option<Error>,
    unreadable: Option<Error>,
}

/// Where the entries are listed.
#[derive(Clone, Debug)]
enum EntrySource {
    /// In the log of changes.
    Index,
    /// In the journal, because the files are lost or cannot be used; the newest first.
    Journal(Vec<DeadLetterSummary>),
    /// Nowhere: every file has to be read. Older programs had no list of ours.
    Files,
}

impl DeadLetterStore {
    /// Opens the dead letters of a job; a job without any has an empty queue.
    ///
    /// If nobody works on the job, what is missing in the files is written first.
    pub fn open(layout: &Layout, job: &JobId) -> Result<Self, Error> {
        Self::open_after(layout, job, rebuild_missing(layout, job, None))
    }

    /// Opens the dead letters of a job whose lock is held by the caller.
    pub fn open_locked(layout: &Layout, job: &JobId, lock: &JobLock) -> Result<Self, Error> {
        Self::open_after(layout, job, rebuild_missing(layout, job, Some(lock)))
    }

    /// Returns why the files say less than the journal, if they could not be completed.
    pub fn stale_reason(&self) -> Option<&Error> {
        self.behind.as_ref()
    }

    /// Returns why the files cannot be read, if they cannot: then the journal is read instead.
    pub fn read_error(&self) -> Option<&Error> {
        self.unreadable.as_ref()
    }

    fn open_after(
        layout: &Layout,
        job: &JobId,
        caught_up: Result<(), Error>,
    ) -> Result<Self, Error> {
        let mut queue = Self::unread(layout, job);
        queue.behind = caught_up.err();
        let first = IndexReader::open(layout, job).and_then(|lines| {
            let newest = lines.and_then(|mut lines| lines.next()).transpose()?;
            check_listable(&layout.dlq_items_dir(job))?;
            Ok(newest)
        });
        let newest = first.unwrap_or_else(|error| {
            queue.unreadable = Some(error);
            None
        });
        let is_usable = queue.behind.is_none() && queue.unreadable.is_none();
        if let Some(newest) = newest.filter(|_| is_usable) {
            // A run lists entries a moment after its journal tells of them.
            if queue.is_running()? && queue.has_unlisted(newest.seq())? {
                return queue.list_from_journal();
            }
            queue.open = newest.open();
            return Ok(queue);
        }
        let journal = JournalReader::open(layout, job);
        if journal.is_ok() {
            if is_usable && nothing_died(layout, job) {
                if queue.is_running()? || queue.files()?.is_empty() {
                    return Ok(queue);
                }
            } else {
                return queue.list_from_journal();
            }
        }
        if let Some(error) = queue.unreadable {
            return Err(error);
        }
        queue.source = EntrySource::Files;
        if queue.files()?.is_empty() {
            // What was never recorded does not exist.
            journal?;
        }
        let open = |heading: &DeadLetterSummary| heading.status == EntryStatus::Open;
        let count = queue.summaries().flatten().filter(open).count();
        queue.open = u64::try_from(count).unwrap_or(u64::MAX);
        Ok(queue)
    }

    /// Lists what the journal says.
    fn list_from_journal(mut self) -> Result<Self, Error> {
        let headings = JournalScan::read(&self.layout, &self.job, u64::MAX)?.summaries();
        let open = headings.iter().filter(|heading| heading.status == EntryStatus::Open);
        self.open = u64::try_from(open.count()).unwrap_or(u64::MAX);
        self.source = EntrySource::Journal(headings);
        Ok(self)
    }

    fn unread(layout: &Layout, job: &JobId) -> Self {
        let (layout, job) = (layout.clone(), job.clone());
        Self { layout, job, source: EntrySource::Index, open: 0, behind: None, unreadable: None }
    }

    /// Returns the jobs of the repository that have dead letters, open or closed, by name.
    ///
    /// The journals say which jobs those are: the files of a job may be lost, or not written
    /// yet. A job that cannot be read is one of them, so that whoever opens it is told.
    pub fn jobs(layout: &Layout) -> Result<Vec<JobId>, Error> {
        let has_letters = |job: &JobId| {
            let has_log = IndexReader::open(layout, job).is_ok_and(|lines| lines.is_some());
            has_log || !nothing_died(layout, job)
        };
        let mut jobs: Vec<JobId> = layout.jobs()?.into_iter().filter(has_letters).collect();
        // Those of older programs have no journal, or one that does not speak of them.
        for job in layout.dlq_jobs()? {
            let is_known = jobs.contains(&job);
            if !is_known && !Self::unread(layout, &job).files()?.is_empty() {
                jobs.push(job);
            }
        }
        jobs.sort_unstable();
        Ok(jobs)
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn job(&self) -> &JobId {
        &self.job
    }

    /// Returns how many entries wait for somebody to do something about them.
    pub fn open_entries(&self) -> u64 {
        self.open
    }

    /// Returns all entries, whatever their status, the newest first.
    ///
    /// An entry that cannot be read yields an error that names the file, and the rest follows.
    pub fn summaries(&self) -> impl Iterator<Item = Result<DeadLetterSummary, Error>> {
        let listed: Box<dyn Iterator<Item = Result<DeadLetterSummary, Error>>> = match &self.source
        {
            EntrySource::Index => match IndexReader::open(&self.layout, &self.job) {
                Ok(lines) => Box::new(newest(lines.into_iter().flatten(), false)),
                Err(error) => Box::new(std::iter::once(Err(error))),
            },
            EntrySource::Journal(headings) => Box::new(headings.iter().cloned().map(Ok)),
            EntrySource::Files => match self.read_files() {
                Ok(read) => Box::new(read.into_iter()),
                Err(error) => Box::new(std::iter::once(Err(error))),
            },
        };
        listed
    }

    /// Returns all entries there ever were, also those that were deleted, the newest first.
    pub(crate) fn summaries_with_deleted(
        &self,
    ) -> impl Iterator<Item = Result<DeadLetterSummary, Error>> {
        let listed: Box<dyn Iterator<Item = Result<DeadLetterSummary, Error>>> = match &self.source
        {
            EntrySource::Index => match IndexReader::open(&self.layout, &self.job) {
                Ok(lines) => Box::new(newest(lines.into_iter().flatten(), true)),
                Err(error) => Box::new(std::iter::once(Err(error))),
            },
            EntrySource::Journal(_) | EntrySource::Files => Box::new(self.summaries()),
        };
        listed
    }

    /// Returns an entry; `None` if the item has none.
    pub fn entry(&self, item: &ItemId) -> Result<Option<DeadLetteredItem>, Error> {
        if matches!(self.source, EntrySource::Journal(_)) {
            return Ok(JournalScan::read(&self.layout, &self.job, u64::MAX)?.entry(item));
        }
        match read_stored(&self.layout, &self.job, item) {
            // The file of a new entry is written where it stays.
            Err(Error::Entry { .. }) if self.is_running()? && !self.is_listed(item)? => Ok(None),
            Ok(None) if self.is_listed(item)? => self.restore_entry(item),
            read => read,
        }
    }

    /// Returns an entry whose file is lost, from the journal, and writes all that are, if
    /// nobody works on the job.
    fn restore_entry(&self, item: &ItemId) -> Result<Option<DeadLetteredItem>, Error> {
        // Without a journal, or while somebody writes, the entry is what can be had.
        let is_written = fsck(&self.layout, &self.job, true).is_ok_and(|report| report.repaired);
        if is_written {
            return read_stored(&self.layout, &self.job, item);
        }
        match JournalScan::read(&self.layout, &self.job, u64::MAX) {
            Ok(mut scan) => Ok(scan.entry(item)),
            Err(Error::Store(store::Error::NoJob { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn is_listed(&self, item: &ItemId) -> Result<bool, Error> {
        for heading in self.summaries() {
            if heading?.item_id == *item {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the file of an entry, or where it would be.
    pub fn entry_path(&self, item: &ItemId) -> PathBuf {
        let paths = entry_paths(&self.layout, &self.job, item);
        let found = paths.into_iter().find(|path| path.symlink_metadata().is_ok());
        found.unwrap_or_else(|| self.layout.dlq_item(&self.job, item))
    }

    fn is_running(&self) -> Result<bool, Error> {
        Ok(JobLock::holder(&self.layout, &self.job)?.is_some())
    }

    /// Returns whether the journal tells of dead letters after the last record that is listed.
    fn has_unlisted(&self, listed: u64) -> Result<bool, Error> {
        let mut records = JournalReader::open_after(&self.layout, &self.job, listed)?;
        let is_death = |event: &Event| matches!(event, Event::ItemDeadLettered { .. });
        Ok(records.any(|record| record.is_ok_and(|record| is_death(&record.event))))
    }

    /// Reads all files, the newest first.
    fn read_files(&self) -> Result<Vec<Result<DeadLetterSummary, Error>>, Error> {
        let mut seen = HashSet::new();
        let mut headings = Vec::new();
        for path in self.files()? {
            match read_entry(&path, &self.job) {
                Ok(Some(entry)) if seen.insert(entry.item_id.clone()) => {
                    headings.push(Ok(DeadLetterSummary::from(&entry)));
                }
                // It was there twice, or is gone by now.
                Ok(_) => {}
                Err(error) => headings.push(Err(error)),
            }
        }
        headings.sort_by_key(|heading| {
            std::cmp::Reverse(heading.as_ref().ok().map(|heading| heading.last_attempt))
        });
        Ok(headings)
    }

    /// Returns the files that can hold entries, those in the directory of items first.
    fn files(&self) -> Result<Vec<PathBuf>, Error> {
        let mut files = Vec::new();
        let (layout, job) = (&self.layout, &self.job);
        let directories =
            [layout.dlq_items_dir(job), layout.dlq_resolved_dir(job), layout.dlq_dir(job)];
        for directory in directories {
            let entries = match fs::read_dir(&directory) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(store::Error::io("list", directory, error).into()),
            };
            let mut found = Vec::new();
            for entry in entries {
                let entry = entry.map_err(|error| store::Error::io("list", &directory, error))?;
                found.push(entry.path());
            }
            found.retain(|path| is_entry_file(path));
            found.sort();
            files.append(&mut found);
        }
        Ok(files)
    }
}

/// Returns the last record that the files of a job's dead letters know of; 0 if there are none.
pub fn known_seq(layout: &Layout, job: &JobId) -> Result<u64, Error> {
    let mut known = None;
    for line in IndexReader::open(layout, job)?.into_iter().flatten() {
        match line? {
            IndexLine::Change(change) => known = known.max(Some(change.seq)),
            // Nothing before it knows of a later record.
            IndexLine::Mark(mark) => return Ok(known.unwrap_or_default().max(mark.seq)),
        }
    }
    if let Some(known) = known {
        return Ok(known);
    }
    // Without a log, the entries themselves are asked.
    let mut newest = 0;
    for path in DeadLetterStore::unread(layout, job).files()? {
        // One that cannot be read knows nothing.
        let entry = read_entry(&path, job).ok().flatten();
        newest = newest.max(entry.map_or(0, |entry| entry.journal_seq));
    }
    Ok(newest)
}

/// Checks that the names in a directory can be read, if it is there.
fn check_listable(directory: &Path) -> Result<(), Error> {
    match fs::read_dir(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(store::Error::io("list", directory, error).into())
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Returns where the entry of an item can be: open, closed, or as older programs left it.
pub(crate) fn entry_paths(layout: &Layout, job: &JobId, item: &ItemId) -> [PathBuf; 3] {
    [
        layout.dlq_item(job, item),
        layout.dlq_resolved_item(job, item),
        layout.dlq_dir(job).join(format!("{item}.json")),
    ]
}

/// Reads the entry of an item, wherever it is; `None` if there is none.
pub(crate) fn read_stored(
    layout: &Layout,
    job: &JobId,
    item: &ItemId,
) -> Result<Option<DeadLetteredItem>, Error> {
    let [open, closed, flat] = entry_paths(layout, job, item);
    // It may be moved while it is looked for, in either direction.
    for path in [&open, &closed, &open, &flat] {
        if let Some(entry) = read_entry(path, job)? {
            return Ok(Some(entry));
        }
    }
    Ok(None)
}

/// Reads the file of an entry; `None` if there is none.
pub(crate) fn read_entry(path: &Path, job: &JobId) -> Result<Option<DeadLetteredItem>, Error> {
    let Some(bytes) = read_bounded(path, LIMIT)? else { return Ok(None) };
    let text = str::from_utf8(&bytes).map_err(|error| DeadLetterError::Shape(error.to_string()));
    let file = entry_file(path, job);
    text.and_then(|text| DeadLetteredItem::read(text, &file))
        .map(Some)
        .map_err(|source| Error::Entry { path: path.to_owned(), source })
}

/// Returns what the file of an entry says besides its text.
pub fn entry_file(path: &Path, job: &JobId) -> EntryFile {
    let item = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
    let written = path.metadata().and_then(|data| data.modified()).ok();
    let written_at = written.and_then(|at| Timestamp::try_from(at).ok());
    EntryFile { job: job.clone(), item, written_at }
}

/// Returns whether a file has the name of an entry.
pub(crate) fn is_entry_file(path: &Path) -> bool {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    path.extension().is_some_and(|extension| extension == "json")
        && stem.is_some_and(|stem| stem != "index" && stem.parse::<ItemId>().is_ok())
}

/// Returns the newest line of every item that has an entry, or that ever had one.
fn newest(
    lines: impl Iterator<Item = Result<IndexLine, Error>>,
    is_ever: bool,
) -> impl Iterator<Item = Result<DeadLetterSummary, Error>> {
    let mut seen = HashSet::new();
    lines.filter_map(move |line| match line {
        Ok(IndexLine::Change(change)) => {
            let is_new = seen.insert(change.item_id.clone());
            (is_new && (is_ever || !change.gone)).then(|| Ok(change.into_summary()))
        }
        Ok(IndexLine::Mark(_)) => None,
        Err(error) => Some(Err(error)),
    })
}
