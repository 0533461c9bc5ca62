//! Dead letters by cause.

use std::{collections::HashMap, time::Duration};

use prodigy_core::{
    Timestamp,
    dlq::EntryStatus,
    failure::{ReasonClass, ReasonCode},
    ids::{ItemId, JobId},
    replay::ReplayVerdict,
};
use prodigy_engine::store::dlq::DeadLetterSummary;

/// The age up to which an entry counts as recent.
const RECENT: Duration = Duration::from_secs(3600);

/// The dead letters of one cause.
pub(crate) struct CauseView {
    pub(crate) signature: String,
    pub(crate) pattern: String,
    /// That of the newest.
    pub(crate) reason: ReasonCode,
    pub(crate) class: ReasonClass,
    pub(crate) count: u64,
    /// The number of entries that the policy lets be replayed without a change.
    pub(crate) replayable: u64,
    /// The number of entries that failed within the last hour.
    pub(crate) recent: u64,
    pub(crate) first: Timestamp,
    pub(crate) last: Timestamp,
    /// The newest.
    pub(crate) example: (JobId, ItemId),
    /// All of them are of one job.
    pub(crate) is_of_one_job: bool,
}

/// Entries, gathered by cause.
pub(crate) struct CauseIndex {
    now: Timestamp,
    by_signature: HashMap<String, CauseView>,
    pub(crate) open: u64,
    pub(crate) replaying: u64,
    pub(crate) resolved: u64,
    pub(crate) dropped: u64,
}

impl CauseIndex {
    pub(crate) fn new(now: Timestamp) -> Self {
        Self { now, by_signature: HashMap::new(), open: 0, replaying: 0, resolved: 0, dropped: 0 }
    }

    /// Adds an entry and the policy's verdict; closed entries are only counted.
    pub(crate) fn add(
        &mut self,
        job: &JobId,
        heading: &DeadLetterSummary,
        verdict: Option<ReplayVerdict>,
    ) {
        match heading.status {
            EntryStatus::Open => self.open += 1,
            EntryStatus::Replaying => self.replaying += 1,
            EntryStatus::Resolved => self.resolved += 1,
            EntryStatus::Dropped => self.dropped += 1,
        }
        if matches!(heading.status, EntryStatus::Resolved | EntryStatus::Dropped) {
            return;
        }
        let at = heading.last_attempt;
        let example = || (job.clone(), heading.item_id.clone());
        let signature = &heading.error_signature;
        let group = self.by_signature.entry(signature.clone()).or_insert_with(|| CauseView {
            signature: signature.clone(),
            pattern: heading.error_pattern.clone(),
            reason: heading.reason_code,
            class: heading.class,
            count: 0,
            replayable: 0,
            recent: 0,
            first: at,
            last: at,
            example: example(),
            is_of_one_job: true,
        });
        group.is_of_one_job &= group.example.0 == *job;
        group.count += 1;
        group.replayable += u64::from(verdict == Some(ReplayVerdict::Replay));
        group.recent += u64::from(self.now.checked_sub(RECENT).is_ok_and(|hour| at >= hour));
        group.first = group.first.min(at);
        if at > group.last {
            group.last = at;
            group.reason = heading.reason_code;
            group.class = heading.class;
            group.example = example();
        }
    }

    /// Returns how many entries can be replayed as they are.
    pub(crate) fn replayable(&self) -> u64 {
        self.by_signature.values().map(|group| group.replayable).sum()
    }

    /// Returns the causes, the one with the most entries first.
    pub(crate) fn by_count(&self) -> Vec<&CauseView> {
        let mut groups: Vec<_> = self.by_signature.values().collect();
        groups.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.signature.cmp(&b.signature)));
        groups
    }
}
