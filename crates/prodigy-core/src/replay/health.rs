//! The health of the dead letters, on which alerts are based.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    Timestamp,
    audit::{AuditAction, AuditOutcome, AuditRecord},
    dlq::{CommitState, EntryStatus},
    failure::ReasonCode,
    ids::{ItemId, JobId},
};

/// The time in which growth is measured.
const RECENT: Duration = Duration::from_secs(10 * 60);
/// The time before that, to compare it with.
const BASELINE: Duration = Duration::from_secs(24 * 60 * 60);
/// The time in which denials are counted.
const DENIALS: Duration = Duration::from_secs(60 * 60);

/// One dead letter, as far as alerts are about it.
#[derive(Clone, Copy, Debug)]
pub struct HealthSample<'a> {
    /// Its job.
    pub job: &'a JobId,
    /// Its item.
    pub item: &'a ItemId,
    /// Where the entry stands.
    pub status: EntryStatus,
    /// The reason code of the failure.
    pub reason_code: ReasonCode,
    /// When its last attempt ended.
    pub at: Timestamp,
    /// The changes that its attempts may have made.
    pub commit_state: CommitState,
    /// The owner of the entry.
    pub owner: Option<&'a str>,
}

/// A dead letter that is older than all others of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldestEntry {
    /// Its job.
    pub job: JobId,
    /// Its item.
    pub item: ItemId,
    /// When its last attempt ended.
    pub at: Timestamp,
    /// The owner of the entry.
    pub owner: Option<String>,
}

/// The health of the dead letters of one job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobHealth {
    /// The number of open entries, by reason code.
    pub open: BTreeMap<&'static str, u64>,
    /// The oldest that is open.
    pub oldest: Option<OldestEntry>,
    /// The number of open entries whose side effects are unknown.
    pub unknown: u64,
    /// The oldest of them.
    pub oldest_unknown: Option<OldestEntry>,
}

/// The health of the dead letters.
#[derive(Clone, Debug)]
pub struct DlqHealth {
    now: Timestamp,
    /// The jobs that have open entries.
    pub jobs: BTreeMap<JobId, JobHealth>,
    /// The number of entries that are being replayed.
    pub replaying: u64,
    /// The number of items that failed in the last ten minutes.
    pub recent: u64,
    /// The number of items that failed in the day before that.
    pub before: u64,
    /// The number of unclosed entries without a known reason.
    pub unclassified: u64,
    /// The number of replay decisions in the last hour.
    pub decided: u64,
    /// The number of them that denied the replay.
    pub denied: u64,
    /// The reason that the audit trail cannot be trusted, if it cannot.
    pub audit_fault: Option<String>,
}

impl DlqHealth {
    /// Begins to count.
    pub fn new(now: Timestamp) -> Self {
        Self {
            now,
            jobs: BTreeMap::new(),
            replaying: 0,
            recent: 0,
            before: 0,
            unclassified: 0,
            decided: 0,
            denied: 0,
            audit_fault: None,
        }
    }

    /// Counts a dead letter, closed or not.
    pub fn add(&mut self, seen: &HealthSample<'_>) {
        let age = self.age(seen.at);
        self.recent += u64::from(age < RECENT);
        self.before += u64::from(age >= RECENT && age < RECENT + BASELINE);
        match seen.status {
            EntryStatus::Resolved | EntryStatus::Dropped => return,
            EntryStatus::Replaying => self.replaying += 1,
            EntryStatus::Open => self.take_open(seen),
        }
        self.unclassified += u64::from(seen.reason_code == ReasonCode::Unclassified);
    }

    fn take_open(&mut self, seen: &HealthSample<'_>) {
        let job = self.jobs.entry(seen.job.clone()).or_default();
        *job.open.entry(seen.reason_code.code()).or_default() += 1;
        older(&mut job.oldest, seen);
        if seen.commit_state == CommitState::Unknown {
            job.unknown += 1;
            older(&mut job.oldest_unknown, seen);
        }
    }

    /// Counts a record of the audit trail.
    pub fn add_audit_record(&mut self, record: &AuditRecord) {
        if record.said.action != AuditAction::Replay || self.age(record.ts) >= DENIALS {
            return;
        }
        let entries = record.said.entries.unwrap_or(1);
        match record.said.outcome {
            AuditOutcome::Intended => self.decided += entries,
            AuditOutcome::Denied | AuditOutcome::Refused => {
                self.decided += entries;
                self.denied += entries;
            }
            // This was counted with the intention.
            AuditOutcome::Done | AuditOutcome::Failed => {}
        }
    }

    /// Returns how many entries are open.
    pub fn open(&self) -> u64 {
        self.jobs.values().flat_map(|job| job.open.values()).sum()
    }

    /// Returns how many entries are not closed.
    pub fn not_closed(&self) -> u64 {
        self.open() + self.replaying
    }

    /// Returns how many entries may or may not have changed something outside.
    pub fn unknown(&self) -> u64 {
        self.jobs.values().map(|job| job.unknown).sum()
    }

    /// Returns the oldest entry that is open.
    pub fn oldest(&self) -> Option<&OldestEntry> {
        self.jobs.values().filter_map(|job| job.oldest.as_ref()).min_by_key(|oldest| oldest.at)
    }

    /// Returns the oldest entry that may or may not have changed something outside.
    pub fn oldest_unknown(&self) -> Option<&OldestEntry> {
        let all = self.jobs.values().filter_map(|job| job.oldest_unknown.as_ref());
        all.min_by_key(|oldest| oldest.at)
    }

    /// Returns how many items died per minute, lately.
    pub fn growth_per_minute(&self) -> f64 {
        per_minute(self.recent, RECENT)
    }

    /// Returns how many items died per minute, in the day before.
    pub fn baseline_per_minute(&self) -> f64 {
        per_minute(self.before, BASELINE)
    }

    /// Returns which share of the replays that were decided over was denied.
    pub fn denial_ratio(&self) -> f64 {
        ratio(self.denied, self.decided)
    }

    /// Returns which share of the entries that are not closed has no known reason.
    pub fn unclassified_ratio(&self) -> f64 {
        ratio(self.unclassified, self.not_closed())
    }

    /// Returns how long ago something was; what is yet to come is now.
    pub fn age(&self, at: Timestamp) -> Duration {
        Duration::try_from(self.now.duration_since(at)).unwrap_or_default()
    }
}

/// Keeps the older one.
fn older(oldest: &mut Option<OldestEntry>, seen: &HealthSample<'_>) {
    if oldest.as_ref().is_none_or(|oldest| seen.at < oldest.at) {
        let (job, item, owner) = (seen.job.clone(), seen.item.clone(), seen.owner);
        *oldest = Some(OldestEntry { job, item, at: seen.at, owner: owner.map(str::to_owned) });
    }
}

#[expect(clippy::cast_precision_loss, reason = "nobody has 2^53 dead letters")]
fn per_minute(number: u64, during: Duration) -> f64 {
    number as f64 * 60.0 / during.as_secs_f64()
}

#[expect(clippy::cast_precision_loss, reason = "nobody has 2^53 dead letters")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
