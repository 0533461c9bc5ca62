//! The index of a job's dead letters: one JSON document with counts and ids.
//!
//! It is made of the log of changes and says nothing that the log does not say: it is for
//! people and programs that want to read one document.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Duration, Instant},
};

use prodigy_core::{
    dlq::EntryStatus,
    ids::{ItemId, JobId},
};
use serde::Serialize;

use super::{
    Error,
    index::{IndexLine, IndexReader},
};
use crate::store::{self, Layout, write_projection};

/// The version of the document.
const SCHEMA_VERSION: u32 = 1;
/// The least time between two documents of one run.
const PAUSE: Duration = Duration::from_secs(2);
/// The least pause before the next document, as a multiple of the time that writing one took.
const SPARING: u32 = 50;

/// The content of `index.json`.
#[derive(Serialize)]
struct IndexDocument<'a> {
    schema_version: u32,
    job_id: &'a JobId,
    /// The last record of the journal that the document takes into account.
    journal_seq: u64,
    counts: EntryStatusCounts,
    open: Vec<&'a ItemId>,
    replaying: Vec<&'a ItemId>,
    resolved: Vec<&'a ItemId>,
    dropped: Vec<&'a ItemId>,
}

/// The number of entries, by status.
#[derive(Serialize)]
struct EntryStatusCounts {
    open: usize,
    replaying: usize,
    resolved: usize,
    dropped: usize,
}

/// Writes the index of a job; whoever has one holds the job's lock.
pub(crate) struct IndexDocumentWriter {
    layout: Layout,
    job: JobId,
    path: PathBuf,
    /// The status of every entry, once it was read from the log.
    entries: Option<BTreeMap<ItemId, EntryStatus>>,
    seq: u64,
    next: Option<Instant>,
    is_changed: bool,
}

impl IndexDocumentWriter {
    /// Names the index of a job. Nothing is read or made before it is written.
    pub(crate) fn new(layout: &Layout, job: &JobId) -> Self {
        Self {
            layout: layout.clone(),
            job: job.clone(),
            path: layout.dlq_index(job),
            entries: None,
            seq: 0,
            next: None,
            is_changed: false,
        }
    }

    /// Applies a line that was added to the log.
    pub(crate) fn apply(&mut self, line: &IndexLine) {
        self.is_changed = true;
        if let Some(entries) = &mut self.entries {
            apply_line(entries, &mut self.seq, line);
        }
    }

    /// Writes the index if it was changed and the last one is some time ago.
    pub(crate) fn write_if_due(&mut self) -> Result<(), Error> {
        if self.is_changed && self.next.is_none_or(|next| next <= Instant::now()) {
            self.write()?;
        }
        Ok(())
    }

    /// Writes the index.
    pub(crate) fn write(&mut self) -> Result<(), Error> {
        let began = Instant::now();
        if self.entries.is_none() {
            self.entries = Some(self.read()?);
        }
        let entries = self.entries.iter().flatten();
        let of = |wanted: EntryStatus| {
            entries.clone().filter(move |(_, status)| **status == wanted).map(|(item, _)| item)
        };
        let (open, replaying) = (
            of(EntryStatus::Open).collect::<Vec<_>>(),
            of(EntryStatus::Replaying).collect::<Vec<_>>(),
        );
        let (resolved, dropped) = (
            of(EntryStatus::Resolved).collect::<Vec<_>>(),
            of(EntryStatus::Dropped).collect::<Vec<_>>(),
        );
        let counts = EntryStatusCounts {
            open: open.len(),
            replaying: replaying.len(),
            resolved: resolved.len(),
            dropped: dropped.len(),
        };
        let document = IndexDocument {
            schema_version: SCHEMA_VERSION,
            job_id: &self.job,
            journal_seq: self.seq,
            counts,
            open,
            replaying,
            resolved,
            dropped,
        };
        let encoded = serde_json::to_vec_pretty(&document);
        let mut text = encoded.map_err(|error| store::Error::Encode {
            path: self.path.clone(),
            reason: error.to_string(),
        })?;
        text.push(b'\n');
        write_projection(&self.path, &text)?;
        self.is_changed = false;
        self.next = Some(Instant::now() + PAUSE.max(began.elapsed() * SPARING));
        Ok(())
    }

    /// Reads the status of every entry from the log.
    fn read(&mut self) -> Result<BTreeMap<ItemId, EntryStatus>, Error> {
        let mut newest = BTreeMap::new();
        for line in IndexReader::open(&self.layout, &self.job)?.into_iter().flatten() {
            match line? {
                IndexLine::Change(change) => {
                    self.seq = self.seq.max(change.seq);
                    let status = (!change.gone).then_some(change.status);
                    newest.entry(change.item_id).or_insert(status);
                }
                IndexLine::Mark(mark) => self.seq = self.seq.max(mark.seq),
            }
        }
        Ok(newest.into_iter().filter_map(|(item, status)| Some((item, status?))).collect())
    }
}

/// Applies a line that is newer than all before it.
fn apply_line(entries: &mut BTreeMap<ItemId, EntryStatus>, seq: &mut u64, line: &IndexLine) {
    match line {
        IndexLine::Change(change) => {
            *seq = (*seq).max(change.seq);
            if change.gone {
                entries.remove(&change.item_id);
            } else {
                entries.insert(change.item_id.clone(), change.status);
            }
        }
        IndexLine::Mark(mark) => *seq = (*seq).max(mark.seq),
    }
}
