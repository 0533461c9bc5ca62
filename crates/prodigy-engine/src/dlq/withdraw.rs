//! Taking entries out of the queue without replaying them.

use prodigy_core::{
    Timestamp,
    dlq::EntryStatus,
    event::{Event, Fact, Withdrawal},
    ids::{ItemId, JobId},
    mask::Mask,
};

use super::{Error, projection::Projection, scan::Scan};
use crate::store::{Durability, JobLock, Journal, Layout};

/// Takes entries out of the queue; returns those that were in it.
///
/// Dropped are entries that are open: their items are left out, and the entries stay to be
/// read. Cleared is any entry that is not being replayed: its file is deleted, and an item
/// that was still waiting is left out. The job must not be running.
pub fn withdraw(
    layout: &Layout,
    job: &JobId,
    items: &[ItemId],
    how: Withdrawal,
    reason: &str,
    by: &str,
    now: Timestamp,
) -> Result<Vec<ItemId>, Error> {
    // A job that was never recorded must not get a lock.
    crate::store::last_seq(layout, job)?;
    let _lock = JobLock::take(layout, job)?;
    let mut scan = Scan::read(layout, job, u64::MAX)?;
    let applies = |item: &&ItemId| {
        scan.dead.get(*item).is_some_and(|dead| {
            let is_fit = match dead.status {
                EntryStatus::Open => true,
                EntryStatus::Resolved | EntryStatus::Dropped => how == Withdrawal::Cleared,
                EntryStatus::Replaying => false,
            };
            is_fit && !dead.is_cleared
        })
    };
    let mut chosen: Vec<ItemId> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for item in items.iter().filter(applies) {
        if seen.insert(item) {
            chosen.push(item.clone());
        }
    }
    if chosen.is_empty() {
        return Ok(chosen);
    }
    let known = scan.last_seq;
    let event = Event::DlqItemRemoved { how, reason: reason.to_owned(), by: by.to_owned() };
    let fact =
        |item: &ItemId| Fact { agent_id: None, item_id: Some(item.clone()), event: event.clone() };
    let (mut journal, _) = Journal::open(layout, job, Durability::Full)?;
    let records = journal.append(chosen.iter().map(fact).collect(), now)?;
    journal.durable()?;
    for record in &records {
        scan.take_in(record);
    }
    // It is done; if the files cannot be written now, they are when they are opened next.
    update(layout, job, &mut scan, known).ok();
    Ok(chosen)
}

/// Writes what changed, and whatever was missing before.
fn update(layout: &Layout, job: &JobId, scan: &mut Scan, known: u64) -> Result<(), Error> {
    let covered = super::index::last_mark(layout, job)?.map_or(0, |mark| mark.seq);
    let spool = scan.spool();
    let mut projection = Projection::new(layout, job, Mask::default(), spool.clone());
    let changed = scan.changed_after(covered.min(known));
    scan.write(&changed, &mut projection, spool.as_ref())?;
    projection.listing.mark(scan.last_seq);
    projection.listing.write()
}
