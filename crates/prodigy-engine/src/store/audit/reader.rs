//! Reading the audit trail from its beginning, and verifying it.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Read as _, Take},
    path::{Path, PathBuf},
};

use prodigy_core::audit::{AuditRecord, AuditVerification, ChainError, ChainVerifier};

use super::{
    Error, MAX_LINE,
    trail::{anchor_ref, lock_trail, parse_anchor},
};
use crate::{
    git::Repo,
    store::{self, Layout, open_to_read},
};

/// The lines of an audit trail, one at a time.
pub(crate) struct AuditLines {
    path: PathBuf,
    file: Option<BufReader<Take<File>>>,
    buffer: Vec<u8>,
}

/// One line of an audit trail.
pub(crate) enum AuditLine<'a> {
    /// A whole one, without its newline.
    Whole(&'a [u8]),
    /// So many bytes without a newline, at the end.
    Torn(u64),
    /// It is longer than any that is written.
    TooLong,
}

impl AuditLines {
    /// Opens a file as it is now; one that is not there has no lines.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
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
    pub(crate) fn next_line(&mut self) -> Result<Option<AuditLine<'_>>, Error> {
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

/// Checks every record of a repository's audit trail, and its anchor.
pub fn verify_trail(layout: &Layout, repo: &Repo) -> Result<AuditVerification, Error> {
    let reference = anchor_ref(layout);
    let (anchor, mut lines) = {
        // The file and its anchor are looked at together: an append changes both.
        let lock = layout.audit_lock();
        let _lock = if lock.exists() { Some(lock_trail(&lock)?) } else { None };
        let anchor = repo.read_anchor(&reference).map_err(Error::Anchor)?;
        (anchor, AuditLines::open(&layout.audit_file())?)
    };
    let anchor = anchor.map(|anchor| parse_anchor(&reference, &anchor)).transpose()?;
    let mut verifier = ChainVerifier::new(anchor);
    while let Some(line) = lines.next_line()? {
        let goes_on = match line {
            AuditLine::Whole(line) => verifier.check_line(line),
            AuditLine::Torn(bytes) => {
                verifier.set_torn_tail(bytes);
                false
            }
            AuditLine::TooLong => {
                let reason = format!("it is longer than {MAX_LINE} bytes");
                verifier.reject_line(ChainError::NoRecord(reason));
                false
            }
        };
        if !goes_on {
            break;
        }
    }
    Ok(verifier.finish())
}
