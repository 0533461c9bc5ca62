//! Journals that lost their end.
//!
//! A checkpoint, the files of dead letters and the audit trail are written after the records
//! that they speak of. If one of them knows of a record that the journal does not have, the
//! journal was cut, or is an older copy: going on would do again what the lost records say was
//! done.

use std::fmt;

use prodigy_core::{
    Timestamp,
    audit::{AuditAction, AuditOutcome, IdentityKind, NewAuditRecord},
    event::Event,
    ids::JobId,
    job::checkpoint::Checkpoint,
};

use crate::{
    run::control::{AuditSink, EditorError},
    store::{
        Durability, Error, JobLock, JournalWriter, Layout, audit, dlq, load_checkpoint,
        read_last_seq, set_views_aside,
    },
};

/// Something that knows of records which the journal does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalWitness {
    /// The thing.
    pub kind: WitnessKind,
    /// The last record that it knows of.
    pub knows: u64,
}

/// The things that know of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WitnessKind {
    /// The checkpoint.
    Checkpoint,
    /// The log of changes of the dead letters, or their files.
    DeadLetters,
    /// The audit trail.
    AuditTrail,
}

impl fmt::Display for WitnessKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Checkpoint => "the checkpoint",
            Self::DeadLetters => "the dead letters",
            Self::AuditTrail => "the audit trail",
        })
    }
}

/// The end that a journal lost, as accepted by a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedLoss {
    /// The last record that is left.
    pub kept: u64,
    /// The things that know of more.
    pub witnesses: Vec<JournalWitness>,
    /// The directory of the dead letters as they were, if there were some.
    pub aside: Vec<std::path::PathBuf>,
}

/// Refuses a job whose journal lost its end; names what is ahead of it, and by how much.
pub fn refuse_lost_end(layout: &Layout, job: &JobId) -> Result<(), Error> {
    let last = read_last_seq(layout, job)?;
    let witnesses = witnesses(layout, job, last)?;
    if witnesses.is_empty() {
        return Ok(());
    }
    Err(Error::LostEnd { job: job.clone(), last, ahead: described(&witnesses, last) })
}

/// Puts into words what is ahead of a journal, and by how much.
pub fn described(witnesses: &[JournalWitness], last: u64) -> String {
    let one = |witness: &JournalWitness| {
        let more = witness.knows.saturating_sub(last);
        format!("{} knows record {} ({more} more)", witness.kind, witness.knows)
    };
    let all: Vec<String> = witnesses.iter().map(one).collect();
    all.join(", ").replace("the dead letters knows", "the dead letters know")
}

/// Returns what knows of records behind the last one that a journal has.
pub fn witnesses(layout: &Layout, job: &JobId, last: u64) -> Result<Vec<JournalWitness>, Error> {
    // One that cannot be read is no witness; whoever uses it says so.
    let checkpoint = load_checkpoint::<Checkpoint>(layout, job).ok().flatten();
    let known = [
        (WitnessKind::Checkpoint, checkpoint.map_or(0, |checkpoint| checkpoint.covers())),
        (WitnessKind::DeadLetters, dlq::known_seq(layout, job).unwrap_or_default()),
        (WitnessKind::AuditTrail, last_seq_in_trail(layout, job).unwrap_or_default()),
    ];
    let ahead = known.into_iter().filter(|(_, knows)| *knows > last);
    Ok(ahead.map(|(kind, knows)| JournalWitness { kind, knows }).collect())
}

/// Returns the last record of a job that the audit trail knows of.
///
/// Records before the last accepted loss of the journal's end do not count.
fn last_seq_in_trail(layout: &Layout, job: &JobId) -> Result<u64, audit::Error> {
    let mut known = 0;
    for record in audit::read_trail(layout)? {
        let record = match record {
            Ok(record) => record,
            // `prodigy audit verify` speaks of it.
            Err(audit::Error::Unreadable { .. }) => continue,
            Err(error) => return Err(error),
        };
        if record.said.job != *job {
            continue;
        }
        let is_accepted = record.said.action == AuditAction::AcceptLostEnd
            && record.said.outcome == AuditOutcome::Done;
        known = if is_accepted { 0 } else { known }.max(record.said.journal_seq.unwrap_or(0));
    }
    Ok(known)
}

/// A person who accepts that the end of a journal is lost.
#[derive(Clone, Copy, Debug)]
pub struct LossAcceptance<'a> {
    /// The layout of the job's repository.
    pub layout: &'a Layout,
    /// The job.
    pub job: &'a JobId,
    /// The person.
    pub by: &'a str,
    /// The reason, if one was given.
    pub reason: Option<&'a str>,
    /// The moment.
    pub now: Timestamp,
}

impl LossAcceptance<'_> {
    /// Records that the end of a journal is lost, so that the job can go on without it: whatever
    /// its steps change outside may have been changed by records that are gone.
    ///
    /// The audit trail and the journal have it before the files that know more are set aside.
    pub fn apply(&self, trail: &mut AuditSink<'_>) -> Result<AcceptedLoss, EditorError> {
        let Self { layout, job, by, reason, now } = *self;
        let kept = read_last_seq(layout, job)?;
        layout.refuse_other_location(job)?;
        let _lock = JobLock::take(layout, job)?;
        let witnesses = witnesses(layout, job, kept)?;
        let action = AuditAction::AcceptLostEnd;
        let mut record = NewAuditRecord::new(by, IdentityKind::Asserted, action, job.clone());
        record.reason = reason.map(str::to_owned);
        trail(vec![record.clone()]).map_err(EditorError::Audit)?;
        let known = witnesses.iter().map(|witness| witness.knows).max().unwrap_or(kept);
        let lost = Event::JournalEndLost { kept, known, by: by.to_owned() };
        let (mut journal, _) = JournalWriter::open(layout, job, Durability::Full)?;
        journal.append(vec![lost], now)?;
        journal.sync()?;
        let aside = set_views_aside(layout, job, now)?;
        trail(vec![record.with_outcome(AuditOutcome::Done)]).map_err(EditorError::Audit)?;
        Ok(AcceptedLoss { kept, witnesses, aside })
    }
}
