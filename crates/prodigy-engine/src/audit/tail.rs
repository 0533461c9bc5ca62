//! The end of the file, found without reading the rest of it.

use std::{fs::File, io, os::unix::fs::FileExt as _};

use prodigy_core::audit::{ChainError, ChainHead};

use super::MAX_LINE;

/// The number of bytes read at once.
const BLOCK: u64 = 8 * 1024;

/// The end of an audit trail.
pub(super) struct AuditTail {
    /// Where the last whole line ends.
    pub(super) end: u64,
    /// The number of bytes behind it: an incomplete record.
    pub(super) torn: u64,
}

/// The mismatch of a tail and its anchor, in words that follow "it is not what was recorded".
pub(super) enum AnchorMismatch {
    /// The file could not be read.
    Io(io::Error),
    /// It says something else.
    Reason(String),
}

impl From<io::Error> for AnchorMismatch {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<ChainError> for AnchorMismatch {
    fn from(flaw: ChainError) -> Self {
        Self::Reason(format!("its last line does not fit: {flaw}"))
    }
}

impl AuditTail {
    /// Finds the end of the last whole line.
    pub(super) fn find(file: &File) -> Result<Self, AnchorMismatch> {
        let length = file.metadata()?.len();
        let end = after_newline(file, length)?;
        Ok(Self { end, torn: length - end })
    }

    /// Checks that the whole lines go on from the anchored record, and returns the last one.
    ///
    /// Only what stands behind the anchor is read, which is what an append left that was cut
    /// off, and is nearly always nothing.
    pub(super) fn verify_against(
        &self,
        file: &File,
        anchor: &ChainHead,
    ) -> Result<ChainHead, AnchorMismatch> {
        let mut behind = Vec::new();
        let mut end = self.end;
        let mut head = loop {
            if end == 0 {
                break ChainHead::start();
            }
            let start = after_newline(file, end - 1)?;
            let line = bytes(file, start, end - 1)?;
            let found = ChainHead::from_line(&line)?;
            if found.seq <= anchor.seq {
                break found;
            }
            behind.push(line);
            end = start;
        };
        if head.seq < anchor.seq {
            let (have, anchored) = (head.seq, anchor.seq);
            return Err(AnchorMismatch::Reason(format!("it ends at record {have} of {anchored}")));
        }
        if head != *anchor {
            return Err(ChainError::OtherThanAnchored.into());
        }
        for line in behind.iter().rev() {
            head.advance(line)?;
        }
        Ok(head)
    }
}

/// Returns the place behind the last newline before `end`.
fn after_newline(file: &File, end: u64) -> Result<u64, AnchorMismatch> {
    let limit = end.saturating_sub(u64::try_from(MAX_LINE).unwrap_or(u64::MAX));
    let mut to = end;
    while to > limit {
        let from = to.saturating_sub(BLOCK);
        let block = bytes(file, from, to)?;
        if let Some(at) = block.iter().rposition(|byte| *byte == b'\n') {
            return Ok(from + u64::try_from(at).unwrap_or_default() + 1);
        }
        to = from;
    }
    if to == 0 { Ok(0) } else { Err(AnchorMismatch::Reason("its last line has no end".to_owned())) }
}

/// Reads a part of a file.
fn bytes(file: &File, from: u64, to: u64) -> io::Result<Vec<u8>> {
    let length = usize::try_from(to.saturating_sub(from)).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, from)?;
    Ok(bytes)
}
