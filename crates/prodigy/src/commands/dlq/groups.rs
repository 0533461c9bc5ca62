//! Dead letters by cause.

use std::{collections::HashMap, time::Duration};

use prodigy_core::{
    Timestamp,
    dlq::EntryStatus,
    failure::{ReasonClass, ReasonCode},
    ids::{ItemId, JobId},
    replay::ReplayVerdict,
};
use prodigy_engine::dlq::DeadLetterSummary;

/// The age up to which an entry counts as recent.
const RECENT: Duration = Duration::from_secs(3600);

/// The dead letters of one cause.
pub(super) struct CauseView {
    pub(super) signature: String,
    pub(super) pattern: String,
    /// That of the newest.
    pub(super) reason: ReasonCode,
    pub(super) class: ReasonClass,
    pub(super) count: u64,
    /// The number of entries that the policy lets be replayed without a change.
    pub(super) replayable: u64,
    /// The number of entries that failed within the last hour.
    pub(super) recent: u64,
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
    /// The newest.
    pub(super) example: (JobId, ItemId),
    /// All of them are of one job.
    pub(super) is_of_one_job: bool,
}

/// Entries, gathered by cause.
pub(super) struct CauseIndex {
    now: Timestamp,
    by_signature: HashMap<String, CauseView>,
    pub(super) open: u64,
    pub(super) replaying: u64,
    pub(super) resolved: u64,
    pub(super) dropped: u64,
}

impl CauseIndex {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { now, by_signature: HashMap::new(), open: 0, replaying: 0, resolved: 0, dropped: 0 }
    }

    /// Adds an entry and the policy's verdict; closed entries are only counted.
    pub(super) fn add(
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
    pub(super) fn replayable(&self) -> u64 {
        self.by_signature.values().map(|group| group.replayable).sum()
    }

    /// Returns the causes, the one with the most entries first.
    pub(super) fn by_count(&self) -> Vec<&CauseView> {
        let mut groups: Vec<_> = self.by_signature.values().collect();
        groups.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.signature.cmp(&b.signature)));
        groups
    }
}
