//! The hash chain of the audit records, and its verification.

use std::{fmt, str::FromStr};

use serde::Deserialize;
use serde_json::Value;

use super::{AuditRecord, NewAuditRecord};
use crate::{Timestamp, json_value};

/// The field that is not part of what is hashed.
const HASH: &str = "hash";
/// The number of digits of a hash.
const DIGITS: usize = 64;

/// The last record of a chain, or of the beginning of one: its number and its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainHead {
    /// The number of the record; 0 if there is none yet.
    pub seq: u64,
    /// Its hash; only zeros if there is none yet.
    pub hash: String,
}

/// The flaw of a line of the audit trail.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// It is no record.
    #[error("it is not a record of the audit trail: {0}")]
    NoRecord(String),
    /// It says the same in another way than the one in which records are written.
    #[error("it is not written the way in which prodigy writes records")]
    Layout,
    /// Its content was changed.
    #[error("it was changed: its content does not have the hash that stands in it")]
    Changed,
    /// A record is missing, was added, or stands in another place.
    #[error("it is record {found} where record {wanted} should be")]
    Misplaced {
        /// Its number.
        found: u64,
        /// The number that its place has.
        wanted: u64,
    },
    /// The record before it is not the one that it was written behind.
    #[error("the record before it is not the one that it was written behind")]
    Unlinked,
    /// The chain up to here was made anew.
    #[error("it is not the record that is anchored in git: the records up to here were made anew")]
    OtherThanAnchored,
}

/// The fields that make a chain of records.
#[derive(Deserialize)]
struct ChainLink {
    seq: u64,
    prev_hash: String,
    hash: String,
}

impl ChainHead {
    /// Returns the place before the first record.
    pub fn start() -> Self {
        Self { seq: 0, hash: "0".repeat(DIGITS) }
    }

    /// Puts a record behind this one and moves on to it.
    pub fn append(&mut self, said: NewAuditRecord, ts: Timestamp) -> AuditRecord {
        let seq = self.seq.saturating_add(1);
        let prev_hash = std::mem::take(&mut self.hash);
        let mut record = AuditRecord { seq, ts, said, prev_hash, hash: String::new() };
        // Every field has a form in JSON; a record without a hash would be taken for damaged.
        let text = record.to_line();
        record.hash = hash(&text).unwrap_or_default();
        *self = Self { seq, hash: record.hash.clone() };
        record
    }

    /// Checks that a line, without its newline, follows this record, and moves on to it.
    pub fn advance(&mut self, line: &[u8]) -> Result<(), ChainError> {
        let next = ChainLink::read(line)?;
        let wanted = self.seq.saturating_add(1);
        if next.seq != wanted {
            return Err(ChainError::Misplaced { found: next.seq, wanted });
        }
        if next.prev_hash != self.hash {
            return Err(ChainError::Unlinked);
        }
        *self = Self { seq: next.seq, hash: next.hash };
        Ok(())
    }

    /// Checks a line, without its newline, by itself and returns what the next one follows.
    pub fn from_line(line: &[u8]) -> Result<Self, ChainError> {
        let next = ChainLink::read(line)?;
        Ok(Self { seq: next.seq, hash: next.hash })
    }
}

impl ChainLink {
    /// Reads a line and checks that it is what was once written.
    fn read(line: &[u8]) -> Result<Self, ChainError> {
        let no_record = |reason: &dyn fmt::Display| ChainError::NoRecord(reason.to_string());
        let text = str::from_utf8(line).map_err(|error| no_record(&error))?;
        let fields: Self = serde_json::from_str(text).map_err(|error| no_record(&error))?;
        // Some changes of a text do not change what it means: `\u001b` and `\u001B`.
        let value: Value = serde_json::from_str(text).map_err(|error| no_record(&error))?;
        let as_written = value.to_string();
        if as_written != text {
            return Err(ChainError::Layout);
        }
        if hash(text).as_deref() != Some(fields.hash.as_str()) {
            return Err(ChainError::Changed);
        }
        Ok(fields)
    }
}

impl AuditRecord {
    /// Returns the record as it stands in the file, without the newline.
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Returns the hash of the text of a record.
fn hash(text: &str) -> Option<String> {
    let canonical = json_value::canonical_json_without(HASH, text)?;
    Some(json_value::sha256(canonical.as_bytes()))
}

/// The head of a chain as it is anchored: `17 9f86d0…`.
impl fmt::Display for ChainHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.seq, self.hash)
    }
}

impl FromStr for ChainHead {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{}` is not the head of an audit trail", text.escape_debug());
        let (seq, hash) = text.split_once(' ').ok_or_else(wrong)?;
        let seq: u64 = seq.parse().map_err(|_| wrong())?;
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let head = Self { seq, hash: hash.to_owned() };
        let is_start = seq > 0 || head == Self::start();
        if hash.len() == DIGITS && hash.bytes().all(is_digit) && is_start {
            Ok(head)
        } else {
            Err(wrong())
        }
    }
}

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
