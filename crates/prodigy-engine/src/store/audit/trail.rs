//! Appending to the audit trail, after a look at its end.

use std::{
    fs::{File, TryLockError},
    io::{self, Write as _},
    os::unix::{ffi::OsStrExt as _, fs::FileExt as _},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use prodigy_core::{
    Timestamp,
    audit::{AuditOutcome, AuditRecord, ChainError, ChainHead, NewAuditRecord},
    ids::{JobId, hex},
};
use sha2::{Digest as _, Sha256};

use super::{Error, MAX_LINE, review};
use crate::{
    git::{AuditAnchor, Repo},
    process::ProcessOrigin,
    store::{self, Layout, open_to_append, rename_projection, unused_name, write_atomic},
};

/// The longest wait for the lock: its holder only syncs a file and moves a reference.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time between two tries to take the lock.
const PAUSE: Duration = Duration::from_millis(5);

/// The audit trail of a repository.
#[derive(Debug)]
pub struct AuditTrail {
    layout: Layout,
    path: PathBuf,
    lock: PathBuf,
    repo: Repo,
    reference: String,
}

/// Where an audit trail and its anchor are kept after a new one was begun.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchivedTrail {
    /// The file, if there was one.
    pub file: Option<PathBuf>,
    /// The reference, if there was one.
    pub reference: Option<String>,
}

/// Returns the reference that holds the head of the audit trail.
///
/// A repository may be used with several homes, each of which has a trail of its own.
pub fn anchor_ref(layout: &Layout) -> String {
    let home = layout.home().canonicalize().unwrap_or_else(|_| layout.home().to_owned());
    let hash = Sha256::digest(home.as_os_str().as_bytes());
    format!("refs/prodigy/audit/{}-{}", layout.repo(), hex(hash.get(..4).unwrap_or_default()))
}

impl AuditTrail {
    /// Opens the audit trail of a repository to append to it.
    pub fn open(layout: &Layout, repo: &Repo) -> Result<Self, Error> {
        let (path, lock) = (layout.audit_file(), layout.audit_lock());
        // Who cannot write there should learn it before there is something to record.
        open_to_append(&lock)?;
        let (layout, reference) = (layout.clone(), anchor_ref(layout));
        Ok(Self { layout, path, lock, repo: repo.clone(), reference })
    }

    /// Appends records, all with one write and one sync, and anchors the last of them.
    ///
    /// If this fails, what the records announce must not be done. Some of them may be in the
    /// file nevertheless: an intention without an outcome.
    pub fn append(
        &self,
        said: Vec<NewAuditRecord>,
        now: Timestamp,
    ) -> Result<Vec<AuditRecord>, Error> {
        if said.is_empty() {
            return Ok(Vec::new());
        }
        let _lock = lock_trail(&self.lock)?;
        let mut file = open_to_append(&self.path)?;
        let tail = AuditTail::find(&file).map_err(|misfit| self.misfit(misfit))?;
        let anchor = self.anchor(&tail)?;
        let anchored = parse_anchor(&self.reference, &anchor)?;
        let mut head =
            tail.verify_against(&file, &anchored).map_err(|misfit| self.misfit(misfit))?;
        self.move_torn_tail_aside(&file, &tail, now)?;
        let mut lines = String::new();
        let mut records = Vec::with_capacity(said.len());
        for mut said in said {
            said.journal_seq = self.journal_seq(&said.job)?;
            said.origin = ProcessOrigin::of_process().record();
            let record = head.append(said, now);
            let line = record.to_line();
            if line.len() >= MAX_LINE {
                return Err(Error::TooLong { bytes: line.len(), limit: MAX_LINE });
            }
            lines.push_str(&line);
            lines.push('\n');
            records.push(record);
        }
        let written = file.write_all(lines.as_bytes()).and_then(|()| file.sync_data());
        if let Err(error) = written {
            // Nobody may act on it. If it cannot be taken back, it is an intention without
            // an outcome, or half a line, which the next append puts aside.
            file.set_len(tail.end).ok();
            return Err(store::Error::io("append to", &self.path, error).into());
        }
        let moved = self.repo.move_anchor(&self.reference, &head.to_string(), Some(&anchor));
        moved.map_err(Error::Anchor)?;
        Ok(records)
    }

    /// Begins a new trail with a record that says so. The old one and its anchor are kept beside it;
    /// returns where.
    pub fn restart(&self, said: NewAuditRecord, now: Timestamp) -> Result<ArchivedTrail, Error> {
        let time = now.strftime("%Y%m%dT%H%M%SZ").to_string();
        let mut kept = ArchivedTrail::default();
        {
            let _lock = lock_trail(&self.lock)?;
            if self.path.symlink_metadata().is_ok() {
                let place = unused_name(&self.path, &format!(".kept-{time}"))?;
                rename_projection(&self.path, &place)?;
                kept.file = Some(place);
            }
            let anchor = self.repo.read_anchor(&self.reference).map_err(Error::Anchor)?;
            let start = ChainHead::start().to_string();
            if let Some(anchor) = &anchor {
                let place = format!("{}-kept-{time}", self.reference);
                self.repo.move_anchor(&place, &anchor.text, None).map_err(Error::Anchor)?;
                kept.reference = Some(place);
            }
            let moved = self.repo.move_anchor(&self.reference, &start, anchor.as_ref());
            moved.map_err(Error::Anchor)?;
        }
        self.append(vec![said.with_outcome(AuditOutcome::Done)], now)?;
        Ok(kept)
    }

    /// Returns the last record that the journal of a job has, so that a journal which loses its
    /// end is found out.
    fn journal_seq(&self, job: &JobId) -> Result<Option<u64>, Error> {
        match store::durable_seq(&self.layout, job) {
            Ok(seq) => Ok(Some(seq)),
            Err(store::Error::NoJob { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the anchor; that of an empty trail is made first.
    ///
    /// Because it is there before the first record, records without one have lost it.
    fn anchor(&self, tail: &AuditTail) -> Result<AuditAnchor, Error> {
        if let Some(anchor) = self.repo.read_anchor(&self.reference).map_err(Error::Anchor)? {
            return Ok(anchor);
        }
        if tail.end > 0 || tail.torn > 0 {
            let reason = format!("its anchor, the reference `{}`, is gone", self.reference);
            return Err(Error::Unfit { path: self.path.clone(), reason });
        }
        // A trail that was deleted together with its anchor is not taken for a new one.
        if let Some((job, replays)) = review(&self.layout)?.unrecorded.first() {
            let reason = format!(
                "it is gone, and the journal of job `{job}` holds {replays} of its replays"
            );
            return Err(Error::Unfit { path: self.path.clone(), reason });
        }
        let start = ChainHead::start().to_string();
        self.repo.move_anchor(&self.reference, &start, None).map_err(Error::Anchor)
    }

    /// Puts half a record aside that an append left which was cut off.
    fn move_torn_tail_aside(
        &self,
        file: &File,
        tail: &AuditTail,
        now: Timestamp,
    ) -> Result<(), Error> {
        if tail.torn == 0 {
            return Ok(());
        }
        let length = usize::try_from(tail.torn).unwrap_or(MAX_LINE);
        let mut half = vec![0; length];
        let failed = |error| store::Error::io("read the end of", &self.path, error);
        file.read_exact_at(&mut half, tail.end).map_err(failed)?;
        let aside = unused_name(&self.path, &format!(".torn-{}", now.strftime("%Y%m%dT%H%M%SZ")))?;
        write_atomic(&aside, &half)?;
        let cut = file.set_len(tail.end).and_then(|()| file.sync_data());
        cut.map_err(|error| store::Error::io("cut the end off", &self.path, error).into())
    }

    fn misfit(&self, misfit: AnchorMismatch) -> Error {
        match misfit {
            AnchorMismatch::Io(error) => store::Error::io("read", &self.path, error).into(),
            AnchorMismatch::Reason(reason) => Error::Unfit { path: self.path.clone(), reason },
        }
    }
}

/// Reads the head that an anchor holds.
pub(crate) fn parse_anchor(reference: &str, anchor: &AuditAnchor) -> Result<ChainHead, Error> {
    let no_head = |reason| Error::NoHead { reference: reference.to_owned(), reason };
    anchor.text.parse().map_err(no_head)
}

/// Waits until nobody else appends, for as long as the returned file is open.
pub(crate) fn lock_trail(path: &Path) -> Result<File, Error> {
    let file = open_to_append(path)?;
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if began.elapsed() < PATIENCE => pause(),
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Busy { path: path.to_owned(), waited: PATIENCE });
            }
            Err(TryLockError::Error(error)) => {
                return Err(store::Error::io("lock", path, error).into());
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "another process is waited for in real time")]
fn pause() {
    thread::sleep(PAUSE);
}

/// The number of bytes read at once.
const BLOCK: u64 = 8 * 1024;

/// The end of an audit trail.
pub(crate) struct AuditTail {
    /// Where the last whole line ends.
    pub(crate) end: u64,
    /// The number of bytes behind it: an incomplete record.
    pub(crate) torn: u64,
}

/// The mismatch of a tail and its anchor, in words that follow "it is not what was recorded".
pub(crate) enum AnchorMismatch {
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
    pub(crate) fn find(file: &File) -> Result<Self, AnchorMismatch> {
        let length = file.metadata()?.len();
        let end = after_newline(file, length)?;
        Ok(Self { end, torn: length - end })
    }

    /// Checks that the whole lines go on from the anchored record, and returns the last one.
    ///
    /// Only what stands behind the anchor is read, which is what an append left that was cut
    /// off, and is nearly always nothing.
    pub(crate) fn verify_against(
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
