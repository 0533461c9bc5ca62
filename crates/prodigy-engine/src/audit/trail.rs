//! Appending to the audit trail.

use std::{
    fs::{File, TryLockError},
    io::Write as _,
    os::unix::{ffi::OsStrExt as _, fs::FileExt as _},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use prodigy_core::{
    Timestamp,
    audit::{AuditOutcome, AuditRecord, ChainHead, NewAuditRecord},
    ids::{JobId, hex},
};
use sha2::{Digest as _, Sha256};

use super::{
    Error, MAX_LINE, review,
    tail::{AnchorMismatch, AuditTail},
};
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
pub(super) fn parse_anchor(reference: &str, anchor: &AuditAnchor) -> Result<ChainHead, Error> {
    let no_head = |reason| Error::NoHead { reference: reference.to_owned(), reason };
    anchor.text.parse().map_err(no_head)
}

/// Waits until nobody else appends, for as long as the returned file is open.
pub(super) fn lock_trail(path: &Path) -> Result<File, Error> {
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
