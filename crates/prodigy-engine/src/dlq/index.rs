//! The log of changes of a job's dead letters: one small line for each.
//!
//! Adding to it costs the same however long it is. The newest line of an item is the one
//! that counts, so it is read backwards.

use std::{fs::File, os::unix::fs::FileExt as _, path::PathBuf};

use prodigy_core::{
    Timestamp,
    dlq::EntryStatus,
    failure::{ReasonClass, ReasonCode},
    ids::{ItemId, JobId},
};
use serde::{Deserialize, Serialize};

use super::{DeadLetterSummary, Error, heading::EvaluationFacts};
use crate::store::{self, Layout, open_to_read};

/// The number of bytes read at once.
const CHUNK: u64 = 64 * 1024;
/// The longest line there can be; what is longer is damage.
const MAX_LINE: usize = 1024 * 1024;

/// A line of the list.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum IndexLine {
    /// An entry was made or changed.
    Change(Box<SummaryLine>),
    /// Everything that the journal says up to a record is in the files.
    Mark(IndexMark),
}

/// An entry was made or changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SummaryLine {
    /// The last record of the journal that the entry takes into account.
    pub(super) seq: u64,
    pub(super) item_id: ItemId,
    pub(super) status: EntryStatus,
    pub(super) reason_code: ReasonCode,
    pub(super) class: ReasonClass,
    pub(super) signature: String,
    pub(super) pattern: String,
    pub(super) attempts: u32,
    pub(super) replays: u32,
    pub(super) last_attempt: Timestamp,
    pub(super) eligible: bool,
    pub(super) review: bool,
    #[serde(default)]
    standing: EvaluationFacts,
    /// Set if the entry was deleted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) gone: bool,
    /// The number of open entries after this change.
    pub(super) open: u64,
}

/// Everything that the journal says up to a record is in the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IndexMark {
    /// The record.
    pub(super) seq: u64,
    /// The number of open entries.
    pub(super) open: u64,
}

impl IndexLine {
    fn parse(line: &[u8]) -> Option<Self> {
        let change = serde_json::from_slice(line).map(|change| Self::Change(Box::new(change)));
        change.ok().or_else(|| serde_json::from_slice(line).map(Self::Mark).ok())
    }

    /// Returns the last record of the journal that it takes into account.
    pub(super) fn seq(&self) -> u64 {
        match self {
            Self::Change(change) => change.seq,
            Self::Mark(mark) => mark.seq,
        }
    }

    /// Returns how many entries are open after it.
    pub(super) fn open(&self) -> u64 {
        match self {
            Self::Change(change) => change.open,
            Self::Mark(mark) => mark.open,
        }
    }
}

impl SummaryLine {
    /// Says what the list says about an entry.
    pub(super) fn new(heading: DeadLetterSummary, seq: u64, gone: bool, open: u64) -> Self {
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
    pub(super) fn into_summary(self) -> DeadLetterSummary {
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
pub(super) struct IndexReader {
    path: PathBuf,
    file: File,
    /// Where the bytes before those in `tail` end.
    start: u64,
    tail: Vec<u8>,
}

impl IndexReader {
    /// Opens the list of a job, as it is now; `None` if there is none.
    pub(super) fn open(layout: &Layout, job: &JobId) -> Result<Option<Self>, Error> {
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
pub(super) fn last_mark(layout: &Layout, job: &JobId) -> Result<Option<IndexMark>, Error> {
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
