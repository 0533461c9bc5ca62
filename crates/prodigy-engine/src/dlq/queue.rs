//! Reading the dead letters of a job.

use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
};

use prodigy_core::{
    dlq::{DeadLetteredItem, EntryStatus, Unreadable},
    ids::{ItemId, JobId},
};

use super::{
    Error, Heading,
    catch_up::catch_up,
    index::{Line, Lines},
};
use crate::store::{self, JobLock, Layout, Reader, read_bounded};

/// The largest file that is read.
const LIMIT: u64 = 256 * 1024 * 1024;

/// The dead letters of one job, for reading, also while the job runs.
#[derive(Debug)]
pub struct Queue {
    layout: Layout,
    job: JobId,
    source: Source,
    open: u64,
    behind: Option<Error>,
}

/// Where the entries are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// In the list.
    Index,
    /// Nowhere: every file has to be read. Older programs had no list of ours.
    Files,
}

impl Queue {
    /// Opens the dead letters of a job; a job without any has an empty queue.
    ///
    /// If nobody works on the job, what is missing in the files is written first.
    pub fn open(layout: &Layout, job: &JobId) -> Result<Self, Error> {
        Self::open_after(layout, job, catch_up(layout, job, None))
    }

    /// Opens the dead letters of a job whose lock is held by the caller.
    pub fn open_held(layout: &Layout, job: &JobId, lock: &JobLock) -> Result<Self, Error> {
        Self::open_after(layout, job, catch_up(layout, job, Some(lock)))
    }

    /// Returns why the files may say less than the journal, if they could not be completed.
    pub fn behind(&self) -> Option<&Error> {
        self.behind.as_ref()
    }

    fn open_after(
        layout: &Layout,
        job: &JobId,
        caught_up: Result<(), Error>,
    ) -> Result<Self, Error> {
        let mut queue = Self::unread(layout, job);
        queue.behind = caught_up.err();
        let newest = Lines::open(layout, job)?.and_then(|mut lines| lines.next()).transpose()?;
        if let Some(newest) = newest {
            queue.open = newest.open();
            return Ok(queue);
        }
        let journal = Reader::open(layout, job);
        let is_complete = journal.is_ok() && queue.behind.is_none();
        if is_complete && (queue.is_running()? || queue.files()?.is_empty()) {
            // Nothing died, or the first entry is just being written.
            return Ok(queue);
        }
        queue.source = Source::Files;
        if queue.files()?.is_empty() {
            // What was never recorded does not exist.
            journal?;
        }
        let open = |heading: &Heading| heading.status == EntryStatus::Open;
        let count = queue.headings().flatten().filter(open).count();
        queue.open = u64::try_from(count).unwrap_or(u64::MAX);
        Ok(queue)
    }

    fn unread(layout: &Layout, job: &JobId) -> Self {
        let (layout, job) = (layout.clone(), job.clone());
        Self { layout, job, source: Source::Index, open: 0, behind: None }
    }

    /// Returns the jobs of the repository that have dead letters, open or closed, by name.
    ///
    /// A run that was killed may not have written any of them: its job is looked at, and one
    /// that cannot be read is returned, so that whoever opens it is told.
    pub fn jobs(layout: &Layout) -> Result<Vec<JobId>, Error> {
        let mut jobs = Vec::new();
        for job in layout.jobs()? {
            if layout.dlq_index(&job).symlink_metadata().is_err()
                && catch_up(layout, &job, None).is_err()
            {
                jobs.push(job);
            }
        }
        for job in layout.dlq_jobs()? {
            let has_index = layout.dlq_index(&job).symlink_metadata().is_ok();
            let is_known = jobs.contains(&job);
            if !is_known && (has_index || !Self::unread(layout, &job).files()?.is_empty()) {
                jobs.push(job);
            }
        }
        jobs.sort_unstable();
        Ok(jobs)
    }

    /// Returns how many entries wait for somebody to do something about them.
    pub fn open_entries(&self) -> u64 {
        self.open
    }

    /// Returns all entries, whatever their status, the newest first.
    ///
    /// What cannot be read is an error that names the file, and the rest follows.
    pub fn headings(&self) -> impl Iterator<Item = Result<Heading, Error>> {
        let listed: Box<dyn Iterator<Item = Result<Heading, Error>>> = match self.source {
            Source::Index => match Lines::open(&self.layout, &self.job) {
                Ok(lines) => Box::new(newest(lines.into_iter().flatten(), false)),
                Err(error) => Box::new(std::iter::once(Err(error))),
            },
            Source::Files => match self.read_files() {
                Ok(read) => Box::new(read.into_iter()),
                Err(error) => Box::new(std::iter::once(Err(error))),
            },
        };
        listed
    }

    /// Returns all entries there ever were, also those that were deleted, the newest first.
    pub(super) fn all_headings(&self) -> impl Iterator<Item = Result<Heading, Error>> {
        let listed: Box<dyn Iterator<Item = Result<Heading, Error>>> = match self.source {
            Source::Index => match Lines::open(&self.layout, &self.job) {
                Ok(lines) => Box::new(newest(lines.into_iter().flatten(), true)),
                Err(error) => Box::new(std::iter::once(Err(error))),
            },
            Source::Files => Box::new(self.headings()),
        };
        listed
    }

    /// Returns an entry; `None` if the item has none.
    pub fn entry(&self, item: &ItemId) -> Result<Option<DeadLetteredItem>, Error> {
        let flat = self.layout.dlq_dir(&self.job).join(format!("{item}.json"));
        match read_entry(&self.file(item), &self.job) {
            Ok(None) => read_entry(&flat, &self.job),
            // The file of a new entry is written where it stays.
            Err(Error::Entry { .. }) if self.is_running()? && !self.is_listed(item)? => Ok(None),
            read => read,
        }
    }

    fn is_listed(&self, item: &ItemId) -> Result<bool, Error> {
        for heading in self.headings() {
            if heading?.item_id == *item {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the file of an entry, whether or not it is there.
    pub fn file(&self, item: &ItemId) -> PathBuf {
        self.layout.dlq_item(&self.job, item)
    }

    fn is_running(&self) -> Result<bool, Error> {
        Ok(JobLock::holder(&self.layout, &self.job)?.is_some())
    }

    /// Reads all files, the newest first.
    fn read_files(&self) -> Result<Vec<Result<Heading, Error>>, Error> {
        let mut seen = HashSet::new();
        let mut headings = Vec::new();
        for path in self.files()? {
            match read_entry(&path, &self.job) {
                Ok(Some(entry)) if seen.insert(entry.item_id.clone()) => {
                    headings.push(Ok(Heading::from(&entry)));
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
        for directory in [self.layout.dlq_items_dir(&self.job), self.layout.dlq_dir(&self.job)] {
            let entries = match fs::read_dir(&directory) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(store::Error::io("list", directory, error).into()),
            };
            let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
            let mut found: Vec<PathBuf> = paths.filter(|path| is_entry(path)).collect();
            found.sort();
            files.append(&mut found);
        }
        Ok(files)
    }
}

/// Reads the file of an entry; `None` if there is none.
pub(super) fn read_entry(path: &Path, job: &JobId) -> Result<Option<DeadLetteredItem>, Error> {
    let Some(bytes) = read_bounded(path, LIMIT)? else { return Ok(None) };
    let text = str::from_utf8(&bytes).map_err(|error| Unreadable::Shape(error.to_string()));
    text.and_then(|text| DeadLetteredItem::read(text, job))
        .map(Some)
        .map_err(|source| Error::Entry { path: path.to_owned(), source })
}

/// Returns whether a file has the name of an entry.
pub(super) fn is_entry(path: &Path) -> bool {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    path.extension().is_some_and(|extension| extension == "json")
        && stem.is_some_and(|stem| stem != "index" && stem.parse::<ItemId>().is_ok())
}

/// Returns the newest line of every item that has an entry, or that ever had one.
fn newest(
    lines: impl Iterator<Item = Result<Line, Error>>,
    is_ever: bool,
) -> impl Iterator<Item = Result<Heading, Error>> {
    let mut seen = HashSet::new();
    lines.filter_map(move |line| match line {
        Ok(Line::Change(change)) => {
            let is_new = seen.insert(change.item_id.clone());
            (is_new && (is_ever || !change.gone)).then(|| Ok(change.heading()))
        }
        Ok(Line::Mark(_)) => None,
        Err(error) => Some(Err(error)),
    })
}
