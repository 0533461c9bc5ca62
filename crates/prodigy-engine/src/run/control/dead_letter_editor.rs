//! Changing entries by hand.

use std::collections::HashSet;

use prodigy_core::{
    Timestamp,
    audit::{AuditAction, AuditOutcome, IdentityKind, NewAuditRecord},
    dlq::EntryStatus,
    event::{EntryChange, EntryRemoval, Event, NewEvent},
    ids::{ItemId, JobId},
    mask::Mask,
};
use serde_json::value::RawValue;

use crate::{
    run::control::lost_end::refuse_lost_end,
    store::{
        Durability, JobLock, JournalWriter, Layout, audit,
        dlq::{Error, rebuild::JournalScan, writer::DeadLetterWriter},
        read_edit, write_edit,
    },
};

/// Something that is done to entries by hand.
#[derive(Clone, Debug)]
pub enum DeadLetterAction {
    /// The items are left out; their entries stay to be read.
    Drop,
    /// The entries are deleted; items that were still waiting are left out.
    Clear,
    /// The changes of the items are in place: the items count as done.
    Adopt,
    /// The entries are not replayed until somebody releases them.
    Quarantine {
        /// The owner of the entries.
        owner: Option<String>,
    },
    /// The entries may be replayed although nothing has changed.
    Release,
    /// The items have other data from here on.
    Edit(Box<RawValue>),
}

/// A manual change of a job's entries: the person, the time and the reason.
#[derive(Clone, Copy, Debug)]
pub struct DeadLetterEditor<'a> {
    /// Where the job is.
    pub layout: &'a Layout,
    /// The job.
    pub job: &'a JobId,
    /// The person's name.
    pub by: &'a str,
    /// The kind of proof of their identity.
    pub identity: IdentityKind,
    /// The reason; empty if none was given.
    pub reason: &'a str,
    /// When.
    pub now: Timestamp,
}

/// The function that appends to the audit trail.
pub type AuditSink<'a> = dyn FnMut(Vec<NewAuditRecord>) -> Result<(), audit::Error> + 'a;

/// A failure to change entries.
#[derive(Debug, thiserror::Error)]
pub enum EditorError {
    /// The dead letters cannot be read or changed.
    #[error(transparent)]
    Queue(#[from] Error),
    /// The audit trail cannot be appended to, so nothing was changed.
    #[error("nothing was changed: the audit trail cannot be appended to")]
    Audit(#[source] audit::Error),
}

impl From<crate::store::Error> for EditorError {
    fn from(error: crate::store::Error) -> Self {
        Self::Queue(error.into())
    }
}

impl DeadLetterEditor<'_> {
    /// Changes entries; returns those that could be changed. The job must not be running.
    pub fn apply(
        &self,
        items: &[ItemId],
        amendment: &DeadLetterAction,
        trail: &mut AuditSink<'_>,
    ) -> Result<Vec<ItemId>, EditorError> {
        // A job that was never recorded must not get a lock.
        crate::store::read_last_seq(self.layout, self.job)?;
        let lock = JobLock::take(self.layout, self.job)?;
        self.apply_locked(&lock, items, amendment, trail)
    }

    /// Changes entries of a job whose lock is held by the caller.
    ///
    /// The audit trail announces the change before it is made, and records afterwards that it was
    /// made.
    pub fn apply_locked(
        &self,
        _lock: &JobLock,
        items: &[ItemId],
        amendment: &DeadLetterAction,
        trail: &mut AuditSink<'_>,
    ) -> Result<Vec<ItemId>, EditorError> {
        let mut scan = JournalScan::read(self.layout, self.job, u64::MAX)?;
        let mut seen = HashSet::new();
        let fit =
            |item: &&ItemId| scan.dead.get(*item).is_some_and(|dead| amendment.is_applicable(dead));
        let chosen = items.iter().filter(fit).filter(|item| seen.insert(*item));
        let chosen: Vec<ItemId> = chosen.cloned().collect();
        if chosen.is_empty() {
            return Ok(chosen);
        }
        let records = self.intent_records(amendment, &chosen, &mut scan);
        let facts = || {
            let event = self.event(amendment)?;
            Ok(chosen.iter().map(|item| item_event(item, event.clone())).collect())
        };
        self.commit(scan, records, facts, trail)?;
        Ok(chosen)
    }

    /// Appends to the journal what the audit trail announces, and brings the files up to date.
    pub(crate) fn commit(
        &self,
        mut scan: JournalScan,
        records: Vec<NewAuditRecord>,
        facts: impl FnOnce() -> Result<Vec<NewEvent>, Error>,
        trail: &mut AuditSink<'_>,
    ) -> Result<(), EditorError> {
        let Self { layout, job, now, .. } = *self;
        layout.refuse_other_location(job)?;
        refuse_lost_end(layout, job)?;
        trail(records.clone()).map_err(EditorError::Audit)?;
        let known = scan.last_seq;
        let (mut journal, _) = JournalWriter::open(layout, job, Durability::Full)?;
        let written = journal.append(facts()?, now)?;
        journal.sync()?;
        for record in &written {
            scan.apply(record);
        }
        // It is done; if the files cannot be written now, they are when they are opened next.
        update(layout, job, &mut scan, known).ok();
        let done = records.into_iter().map(|record| record.with_outcome(AuditOutcome::Done));
        // That it was done is in the journal as well.
        trail(done.collect()).ok();
        Ok(())
    }

    /// Returns what is recorded of it.
    fn event(&self, amendment: &DeadLetterAction) -> Result<Event, Error> {
        let Self { layout, job, by, reason, .. } = *self;
        let (by, reason) = (by.to_owned(), reason.to_owned());
        let change = match amendment {
            DeadLetterAction::Drop => {
                return Ok(Event::DlqItemRemoved { how: EntryRemoval::Dropped, reason, by });
            }
            DeadLetterAction::Clear => {
                return Ok(Event::DlqItemRemoved { how: EntryRemoval::Cleared, reason, by });
            }
            DeadLetterAction::Adopt => {
                return Ok(Event::DlqItemRemoved { how: EntryRemoval::Adopted, reason, by });
            }
            DeadLetterAction::Quarantine { owner } => {
                EntryChange::Quarantined { owner: owner.clone() }
            }
            DeadLetterAction::Release => EntryChange::Released,
            // The journal names the data, so it has to be there first.
            DeadLetterAction::Edit(data) => {
                EntryChange::Edited { input_hash: write_edit(layout, job, data)? }
            }
        };
        Ok(Event::DlqItemUpdated { change, reason, by })
    }

    /// Returns what the audit trail says of it before it is done: a record for each entry, or
    /// one for all that are deleted.
    fn intent_records(
        &self,
        amendment: &DeadLetterAction,
        items: &[ItemId],
        scan: &mut JournalScan,
    ) -> Vec<NewAuditRecord> {
        let record = self.audit_record(match amendment {
            DeadLetterAction::Drop => AuditAction::Drop,
            DeadLetterAction::Clear => AuditAction::Clear,
            DeadLetterAction::Adopt => AuditAction::Adopt,
            DeadLetterAction::Quarantine { .. } => AuditAction::Quarantine,
            DeadLetterAction::Release => AuditAction::Release,
            DeadLetterAction::Edit(_) => AuditAction::Edit,
        });
        if matches!(amendment, DeadLetterAction::Clear) {
            let entries = Some(u64::try_from(items.len()).unwrap_or(u64::MAX));
            return vec![NewAuditRecord { entries, ..record }];
        }
        let of_entry = |item: &ItemId| NewAuditRecord {
            entry: item.to_string(),
            revision: scan.revision(item),
            ..record.clone()
        };
        items.iter().map(of_entry).collect()
    }

    /// Returns a record of the audit trail about something that is done to an entry.
    pub(crate) fn audit_record(&self, action: AuditAction) -> NewAuditRecord {
        let mut record = NewAuditRecord::new(self.by, self.identity, action, self.job.clone());
        record.reason = Some(self.reason.to_owned()).filter(|reason| !reason.is_empty());
        record
    }
}

/// Returns what happened to an item.
pub(crate) fn item_event(item: &ItemId, event: Event) -> NewEvent {
    NewEvent { agent_id: None, item_id: Some(item.clone()), event }
}

impl DeadLetterAction {
    /// Returns whether it can be done to an entry.
    pub(crate) fn is_applicable(&self, dead: &crate::store::dlq::rebuild::ScannedEntry) -> bool {
        let is_fit = match dead.status {
            EntryStatus::Open => true,
            EntryStatus::Resolved | EntryStatus::Dropped => matches!(self, Self::Clear),
            EntryStatus::Replaying => false,
        };
        is_fit && !dead.is_cleared
    }
}

/// Returns the data of an item as its next attempt finds it; `None` if it is gone.
///
/// The data that an entry shows may be redacted.
pub fn current_item_data(
    layout: &Layout,
    job: &JobId,
    item: &ItemId,
) -> Result<Option<Box<RawValue>>, Error> {
    let mut scan = JournalScan::read(layout, job, u64::MAX)?;
    let letter = scan.letters.take(item);
    if let Some(sha256) = letter.as_ref().and_then(|letter| letter.edited_input_hash()) {
        return Ok(Some(read_edit(layout, job, sha256)?));
    }
    let Some(spool) = scan.spool() else { return Ok(None) };
    let place = spool.ids().position(|id| id.is_ok_and(|id| id == *item));
    Ok(place.map(|place| spool.read(place)).transpose()?.map(|item| item.data))
}

/// Writes what changed, and whatever was missing before.
fn update(layout: &Layout, job: &JobId, scan: &mut JournalScan, known: u64) -> Result<(), Error> {
    let covered = crate::store::dlq::index::last_mark(layout, job)?.map_or(0, |mark| mark.seq);
    let spool = scan.spool();
    let mut projection = DeadLetterWriter::new(layout, job, Mask::default(), spool.clone());
    let changed = scan.changed_after(covered.min(known));
    scan.write(&changed, &mut projection, spool.as_ref())?;
    projection.listing.add_mark(scan.last_seq);
    projection.listing.flush()?;
    projection.listing.summarize()
}
