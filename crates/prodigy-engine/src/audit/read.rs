//! Reading the audit trail from its beginning.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Read as _, Take},
    path::{Path, PathBuf},
};

use prodigy_core::audit::AuditRecord;

use super::{Error, MAX_LINE};
use crate::store::{self, Layout, open_to_read};

/// The lines of an audit trail, one at a time.
pub(super) struct AuditLines {
    path: PathBuf,
    file: Option<BufReader<Take<File>>>,
    buffer: Vec<u8>,
}

/// One line of an audit trail.
pub(super) enum AuditLine<'a> {
    /// A whole one, without its newline.
    Whole(&'a [u8]),
    /// So many bytes without a newline, at the end.
    Torn(u64),
    /// It is longer than any that is written.
    TooLong,
}

impl AuditLines {
    /// Opens a file as it is now; one that is not there has no lines.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let file = match open_to_read(path) {
            Ok(file) => {
                let meta = file.metadata();
                let length = meta.map_err(|error| store::Error::io("look at", path, error))?.len();
                Some(BufReader::with_capacity(64 * 1024, file.take(length)))
            }
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error.into()),
        };
        Ok(Self { path: path.to_owned(), file, buffer: Vec::new() })
    }

    /// Returns the next line.
    pub(super) fn next_line(&mut self) -> Result<Option<AuditLine<'_>>, Error> {
        let Some(file) = &mut self.file else { return Ok(None) };
        self.buffer.clear();
        let limit = u64::try_from(MAX_LINE).unwrap_or(u64::MAX);
        let read = file.by_ref().take(limit).read_until(b'\n', &mut self.buffer);
        let read = read.map_err(|error| store::Error::io("read", &self.path, error))?;
        Ok(match self.buffer.strip_suffix(b"\n") {
            Some(line) => Some(AuditLine::Whole(line)),
            None if read == 0 => None,
            None if read >= MAX_LINE => Some(AuditLine::TooLong),
            None => Some(AuditLine::Torn(u64::try_from(read).unwrap_or(u64::MAX))),
        })
    }
}

/// The records of an audit trail, the oldest first.
///
/// They are not checked: a record that can be read may be one that was changed.
pub struct AuditReader {
    lines: AuditLines,
    number: u64,
}

/// Reads the records of a repository's audit trail as they are now.
pub fn read_trail(layout: &Layout) -> Result<AuditReader, Error> {
    Ok(AuditReader { lines: AuditLines::open(&layout.audit_file())?, number: 0 })
}

impl Iterator for AuditReader {
    type Item = Result<AuditRecord, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.number += 1;
        let (path, line) = (self.lines.path.clone(), self.number);
        let read = match self.lines.next_line() {
            Ok(Some(AuditLine::Whole(line))) => {
                serde_json::from_slice(line).map_err(|error| error.to_string())
            }
            Ok(Some(AuditLine::TooLong)) => Err(format!("it is longer than {MAX_LINE} bytes")),
            // Half a record says nothing; `verify` speaks of it.
            Ok(Some(AuditLine::Torn(_)) | None) => return None,
            Err(error) => return Some(Err(error)),
        };
        Some(read.map_err(|reason| Error::Unreadable { path, line, reason }))
    }
}
