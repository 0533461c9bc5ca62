//! Checks of an audit trail beyond its hash chain: clocks that went backwards, and replays that
//! only the journals recorded.

use std::collections::HashMap;

use prodigy_core::{
    Timestamp,
    audit::{AuditAction, AuditOutcome},
    event::Event,
    ids::JobId,
};

use super::{Error, read_trail};
use crate::store::{JournalReader, Layout};

/// The irregularities of an audit trail that its hash chain does not show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrailReview {
    /// The records that are earlier than the one before them.
    pub backwards: Vec<u64>,
    /// The jobs whose journals hold more replays than the trail, and how many more.
    pub unrecorded: Vec<(JobId, u64)>,
}

/// Compares an audit trail with the clock, and with the journals of the repository.
pub fn review(layout: &Layout) -> Result<TrailReview, Error> {
    let mut review = TrailReview::default();
    let mut announced: HashMap<JobId, u64> = HashMap::new();
    let (mut last, mut since) = (Timestamp::MIN, Timestamp::MIN);
    for record in read_trail(layout)? {
        let record = match record {
            Ok(record) => record,
            // The check of the chain speaks of it.
            Err(Error::Unreadable { .. }) => continue,
            Err(error) => return Err(error),
        };
        if record.ts < last {
            review.backwards.push(record.seq);
        }
        last = record.ts;
        let said = record.said;
        match (said.action, said.outcome) {
            (AuditAction::Replay, AuditOutcome::Intended) => {
                *announced.entry(said.job).or_default() += 1;
            }
            // What was done before is in the trail that was kept.
            (AuditAction::RestartTrail, AuditOutcome::Done) => since = record.ts,
            _ => {}
        }
    }
    review.unrecorded = count_unannounced_replays(layout, &announced, since)?;
    Ok(review)
}

/// Returns how many replays since a moment the journals hold that were not announced.
fn count_unannounced_replays(
    layout: &Layout,
    announced: &HashMap<JobId, u64>,
    since: Timestamp,
) -> Result<Vec<(JobId, u64)>, Error> {
    let mut found = Vec::new();
    for job in layout.jobs()? {
        let replays = count_journal_replays(layout, &job, since)?;
        let more = replays.saturating_sub(announced.get(&job).copied().unwrap_or_default());
        if more > 0 {
            found.push((job, more));
        }
    }
    Ok(found)
}

/// Counts the replays that a journal holds, as far as it can be read.
fn count_journal_replays(layout: &Layout, job: &JobId, since: Timestamp) -> Result<u64, Error> {
    let mut replays = 0;
    // What follows damage cannot be read; `prodigy verify` speaks of it.
    for record in JournalReader::open(layout, job)?.map_while(Result::ok) {
        // Those of versions without an audit trail say nothing of what allowed them.
        let is_allowed = matches!(&record.event, Event::ReplayStarted { allowed: Some(_), .. });
        replays += u64::from(is_allowed && record.timestamp > since);
    }
    Ok(replays)
}
