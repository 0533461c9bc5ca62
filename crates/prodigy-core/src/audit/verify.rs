//! Checking a whole audit trail.

use super::{ChainError, ChainHead};

/// The result of the verification of an audit trail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditVerification {
    /// Every record is there and is what was recorded.
    Whole {
        /// The last record.
        head: ChainHead,
        /// The number of records after the anchor. An interrupted append leaves them; the actions
        /// that they announce were not done.
        unanchored: u64,
        /// The number of bytes of an incomplete record at the end. An interrupted append leaves
        /// them; the next append truncates them.
        torn: u64,
    },
    /// A line is not what was recorded.
    Broken {
        /// The line, from 1, which is the number of the record that should stand there.
        line: u64,
        /// The flaw of the line.
        why: ChainError,
    },
    /// Records at the end are gone.
    Truncated {
        /// The number of records that are left.
        have: u64,
        /// The number of records that were anchored.
        anchored: u64,
    },
    /// There are records and no anchor, which is made before the first of them.
    Unanchored {
        /// The number of records.
        records: u64,
    },
}

/// A check of an audit trail that is under way.
#[derive(Debug)]
pub struct ChainVerifier {
    anchor: Option<ChainHead>,
    head: ChainHead,
    /// The number of valid lines.
    lines: u64,
    broken: Option<(u64, ChainError)>,
    torn: u64,
}

impl ChainVerifier {
    /// Begins a check against the anchored head.
    pub fn new(anchor: Option<ChainHead>) -> Self {
        Self { anchor, head: ChainHead::start(), lines: 0, broken: None, torn: 0 }
    }

    /// Takes the next line, without its newline; returns whether it is worth going on.
    pub fn check_line(&mut self, line: &[u8]) -> bool {
        if self.broken.is_some() {
            return false;
        }
        let followed = self.head.advance(line).and_then(|()| match &self.anchor {
            Some(anchor) if anchor.seq == self.head.seq && *anchor != self.head => {
                Err(ChainError::OtherThanAnchored)
            }
            Some(_) | None => Ok(()),
        });
        match followed {
            Ok(()) => self.lines = self.lines.saturating_add(1),
            Err(why) => self.reject_line(why),
        }
        self.broken.is_none()
    }

    /// Says that the next line is nothing that could be a record.
    pub fn reject_line(&mut self, why: ChainError) {
        self.broken.get_or_insert((self.lines.saturating_add(1), why));
    }

    /// Says that something stands at the end that has no newline.
    pub fn set_torn_tail(&mut self, bytes: u64) {
        self.torn = bytes;
    }

    /// Ends the check.
    pub fn finish(self) -> AuditVerification {
        if let Some((line, why)) = self.broken {
            return AuditVerification::Broken { line, why };
        }
        let have = self.head.seq;
        match self.anchor {
            Some(anchor) if have < anchor.seq => {
                AuditVerification::Truncated { have, anchored: anchor.seq }
            }
            None if have > 0 || self.torn > 0 => AuditVerification::Unanchored { records: have },
            anchor => AuditVerification::Whole {
                unanchored: have - anchor.map_or(0, |anchor| anchor.seq),
                head: self.head,
                torn: self.torn,
            },
        }
    }
}

/// Checks the text of an audit trail against the anchored head.
pub fn verify(text: &[u8], anchor: Option<ChainHead>) -> AuditVerification {
    let mut verifier = ChainVerifier::new(anchor);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_suffix(b"\n") {
            Some(line) => {
                if !verifier.check_line(line) {
                    break;
                }
            }
            None => verifier.set_torn_tail(u64::try_from(line.len()).unwrap_or(u64::MAX)),
        }
    }
    verifier.finish()
}
