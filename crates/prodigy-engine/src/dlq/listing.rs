//! Adding to the list of a job's dead letters.

use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom, Write as _},
    path::PathBuf,
};

use prodigy_core::ids::JobId;
use serde::Serialize;

use super::{
    Error,
    index::{IndexLine, IndexMark, IndexReader, SummaryLine},
    summary::IndexDocumentWriter,
};
use crate::store::{self, Layout, open_projection};

/// The list of a job's dead letters, open to be added to.
///
/// Whoever has one holds the job's lock.
pub(super) struct IndexWriter {
    path: PathBuf,
    file: Option<File>,
    /// The bytes to write.
    buffer: Vec<u8>,
    /// The number of open entries.
    pub(super) open: u64,
    /// The lines that are to be written.
    added: Vec<IndexLine>,
    summary: IndexDocumentWriter,
}

impl IndexWriter {
    /// Looks at the list of a job. Nothing is made before something is written.
    pub(super) fn new(layout: &Layout, job: &JobId) -> Self {
        // A list that cannot be read is counted anew from the journal.
        let newest =
            IndexReader::open(layout, job).ok().flatten().and_then(|mut lines| lines.next());
        let open = newest.and_then(Result::ok).map_or(0, |line| line.open());
        let summary = IndexDocumentWriter::new(layout, job);
        let path = layout.dlq_log(job);
        Self { path, file: None, buffer: Vec::new(), open, added: Vec::new(), summary }
    }

    /// Returns whether there is a list.
    pub(super) fn exists(&self) -> bool {
        self.path.symlink_metadata().is_ok()
    }

    /// Adds a line about an entry.
    pub(super) fn add_summary(&mut self, change: SummaryLine) {
        self.line(&change);
        self.added.push(IndexLine::Change(Box::new(change)));
    }

    /// Adds that everything up to a record of the journal is in the files.
    pub(super) fn add_mark(&mut self, seq: u64) {
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
    pub(super) fn flush(&mut self) -> Result<(), Error> {
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
    pub(super) fn summarize_if_due(&mut self) -> Result<(), Error> {
        self.summary.write_if_due()
    }

    /// Writes the index.
    pub(super) fn summarize(&mut self) -> Result<(), Error> {
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
