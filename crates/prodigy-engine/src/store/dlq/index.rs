//! The log of changes of a job's dead letters: one small line for each.
//!
//! Adding to it costs the same however long it is. The newest line of an item is the one
//! that counts, so it is read backwards.

use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::FileExt as _,
    path::PathBuf,
};

use prodigy_core::{
    Timestamp,
    dlq::EntryStatus,
    failure::{ReasonClass, ReasonCode},
    ids::{ItemId, JobId},
};
use serde::{Deserialize, Serialize};

use super::{
    DeadLetterSummary, Error, index_document::IndexDocumentWriter, summary::EvaluationFacts,
};
use crate::store::{self, Layout, open_projection, open_to_read};

/// The number of bytes read at once.
const CHUNK: u64 = 64 * 1024;
/// The longest line there can be; what is longer is damage.
const MAX_LINE: usize = 1024 * 1024;

/// A line of the list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum IndexLine {
    /// An entry was made or changed.
    Change(Box<SummaryLine>),
    /// Everything that the journal says up to a record is in the files.
    Mark(IndexMark),
}

/// An entry was made or changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SummaryLine {
    /// The last record of the journal that the entry takes into account.
    pub(crate) seq: u64,
    pub(crate) item_id: ItemId,
    pub(crate) status: EntryStatus,
    pub(crate) reason_code: ReasonCode,
    pub(crate) class: ReasonClass,
    pub(crate) signature: String,
    pub(crate) pattern: String,
    pub(crate) attempts: u32,
    pub(crate) replays: u32,
    pub(crate) last_attempt: Timestamp,
    pub(crate) eligible: bool,
    pub(crate) review: bool,
    #[serde(default)]
    standing: EvaluationFacts,
    /// Set if the entry was deleted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) gone: bool,
    /// The number of open entries after this change.
    pub(crate) open: u64,
}

/// Everything that the journal says up to a record is in the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IndexMark {
    /// The record.
    pub(crate) seq: u64,
    /// The number of open entries.
    pub(crate) open: u64,
}

impl IndexLine {
    fn parse(line: &[u8]) -> Option<Self> {
        let change = serde_json::from_slice(line).map(|change| Self::Change(Box::new(change)));
        change.ok().or_else(|| serde_json::from_slice(line).map(Self::Mark).ok())
    }

    /// Returns the last record of the journal that it takes into account.
    pub(crate) fn seq(&self) -> u64 {
        match self {
            Self::Change(change) => change.seq,
            Self::Mark(mark) => mark.seq,
        }
    }

    /// Returns how many entries are open after it.
    pub(crate) fn open(&self) -> u64 {
        match self {
            Self::Change(change) => change.open,
            Self::Mark(mark) => mark.open,
        }
    }
}

impl SummaryLine {
    /// Says what the list says about an entry.
    pub(crate) fn new(heading: DeadLetterSummary, seq: u64, gone: bool, open: u64) -> Self {
        Self {
            seq,
            item_id: heading.item_id,
            status: heading.status,
            reason_code: heading.reason_code,
            class: heading.class,
            signature: heading.error_signature,
            pattern: heading.error_pattern,
            attempts: heading.attempts,
            replays: heading.replays,
            last_attempt: heading.last_attempt,
            eligible: heading.reprocess_eligible,
            review: heading.manual_review_required,
            standing: heading.standing,
            gone,
            open,
        }
    }

    /// Returns what a list shows of it.
    pub(crate) fn into_summary(self) -> DeadLetterSummary {
        DeadLetterSummary {
            item_id: self.item_id,
            status: self.status,
            reason_code: self.reason_code,
            class: self.class,
            error_signature: self.signature,
            error_pattern: self.pattern,
            attempts: self.attempts,
            replays: self.replays,
            last_attempt: self.last_attempt,
            reprocess_eligible: self.eligible,
            manual_review_required: self.review,
            standing: self.standing,
        }
    }
}

/// The lines of a list, the newest first.
///
/// Lines that are not whole are passed over: their writer is at work, or died at them, and
/// what they would say is in the journal.
pub(crate) struct IndexReader {
    path: PathBuf,
    file: File,
    /// Where the bytes before those in `tail` end.
    start: u64,
    tail: Vec<u8>,
}

impl IndexReader {
    /// Opens the list of a job, as it is now; `None` if there is none.
    pub(crate) fn open(layout: &Layout, job: &JobId) -> Result<Option<Self>, Error> {
        let mut path = layout.dlq_log(job);
        let opened = match open_to_read(&path) {
            // Before 0.2 it was called like this. A document of ours has no line of the log.
            Err(error) if error.is_not_found() => {
                path = layout.dlq_index(job);
                open_to_read(&path)
            }
            opened => opened,
        };
        let file = match opened {
            Ok(file) => file,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let length = file.metadata().map_err(|error| store::Error::io("read", &path, error))?.len();
        Ok(Some(Self { path, file, start: length, tail: Vec::new() }))
    }

    /// Returns the bytes of the line before those that were returned.
    fn previous(&mut self) -> Result<Option<Vec<u8>>, Error> {
        loop {
            if let Some(at) = self.tail.iter().rposition(|byte| *byte == b'\n') {
                let line = self.tail.split_off(at + 1);
                self.tail.pop();
                return Ok(Some(line));
            }
            if self.start == 0 {
                let first = std::mem::take(&mut self.tail);
                return Ok((!first.is_empty()).then_some(first));
            }
            if self.tail.len() > MAX_LINE {
                self.tail.clear();
            }
            let length = self.start.min(CHUNK);
            let mut before = vec![0; usize::try_from(length).unwrap_or_default()];
            let read = self.file.read_exact_at(&mut before, self.start - length);
            read.map_err(|error| store::Error::io("read", &self.path, error))?;
            self.start -= length;
            before.append(&mut self.tail);
            self.tail = before;
        }
    }
}

/// Returns the last mark of a job's list; `None` if there is none.
pub(crate) fn last_mark(layout: &Layout, job: &JobId) -> Result<Option<IndexMark>, Error> {
    for line in IndexReader::open(layout, job)?.into_iter().flatten() {
        if let IndexLine::Mark(mark) = line? {
            return Ok(Some(mark));
        }
    }
    Ok(None)
}

impl Iterator for IndexReader {
    type Item = Result<IndexLine, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.previous() {
                Ok(Some(line)) => {
                    if let Some(line) = IndexLine::parse(&line) {
                        return Some(Ok(line));
                    }
                }
                Ok(None) => return None,
                Err(error) => {
                    // Nothing before it can be found.
                    (self.start, self.tail) = (0, Vec::new());
                    return Some(Err(error));
                }
            }
        }
    }
}

/// The list of a job's dead letters, open to be added to.
///
/// Whoever has one holds the job's lock.
pub(crate) struct IndexWriter {
    path: PathBuf,
    file: Option<File>,
    /// The bytes to write.
    buffer: Vec<u8>,
    /// The number of open entries.
    pub(crate) open: u64,
    /// The lines that are to be written.
    added: Vec<IndexLine>,
    summary: IndexDocumentWriter,
}

impl IndexWriter {
    /// Looks at the list of a job. Nothing is made before something is written.
    pub(crate) fn new(layout: &Layout, job: &JobId) -> Self {
        // A list that cannot be read is counted anew from the journal.
        let newest =
            IndexReader::open(layout, job).ok().flatten().and_then(|mut lines| lines.next());
        let open = newest.and_then(Result::ok).map_or(0, |line| line.open());
        let summary = IndexDocumentWriter::new(layout, job);
        let path = layout.dlq_log(job);
        Self { path, file: None, buffer: Vec::new(), open, added: Vec::new(), summary }
    }

    /// Returns whether there is a list.
    pub(crate) fn exists(&self) -> bool {
        self.path.symlink_metadata().is_ok()
    }

    /// Adds a line about an entry.
    pub(crate) fn add_summary(&mut self, change: SummaryLine) {
        self.line(&change);
        self.added.push(IndexLine::Change(Box::new(change)));
    }

    /// Adds that everything up to a record of the journal is in the files.
    pub(crate) fn add_mark(&mut self, seq: u64) {
        let mark = IndexMark { seq, open: self.open };
        self.line(&mark);
        self.added.push(IndexLine::Mark(mark));
    }

    fn line(&mut self, line: &impl Serialize) {
        // A line is made of numbers and texts, which always have a form in JSON.
        if serde_json::to_writer(&mut self.buffer, line).is_ok() {
            self.buffer.push(b'\n');
        }
    }

    /// Writes what was added, with one write; if it fails, nothing of it is in the file, and
    /// it is forgotten.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        let lines = std::mem::take(&mut self.buffer);
        let added = std::mem::take(&mut self.added);
        if lines.is_empty() {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(open_list(&self.path)?),
        };
        let length = file.seek(SeekFrom::End(0));
        let written = length.and_then(|length| {
            file.write_all(&lines).inspect_err(|_| {
                // Half a line is passed over by readers, if this fails too.
                file.set_len(length).ok();
            })
        });
        match written {
            Ok(()) => {
                for line in &added {
                    self.summary.apply(line);
                }
                Ok(())
            }
            Err(error) => {
                self.file = None;
                Err(store::Error::io("write", &self.path, error).into())
            }
        }
    }

    /// Writes the index, if it is time for that.
    pub(crate) fn summarize_if_due(&mut self) -> Result<(), Error> {
        self.summary.write_if_due()
    }

    /// Writes the index.
    pub(crate) fn summarize(&mut self) -> Result<(), Error> {
        self.summary.write()
    }
}

/// Opens the list, and ends a line that was cut off.
fn open_list(path: &std::path::Path) -> Result<File, Error> {
    let mut file = open_projection(path)?;
    let mut reader = store::open_to_read(path)?;
    let mut last = [b'\n'];
    // An empty file has no last byte.
    if reader.seek(SeekFrom::End(-1)).is_ok() {
        let read = reader.read_exact(&mut last);
        read.map_err(|error| store::Error::io("read", path, error))?;
    }
    if last != *b"\n" {
        let ended = file.write_all(b"\n");
        ended.map_err(|error| store::Error::io("write", path, error))?;
    }
    Ok(file)
}
