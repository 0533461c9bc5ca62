//! Completing the files from the journal.

use prodigy_core::{checkpoint::Checkpoint, dlq::Letter, ids::JobId, mask::Mask};

use super::{Error, index::last_mark, projection::Projection, scan::Scan};
use crate::store::{self, JobLock, Layout, Reader, last_seq, load_checkpoint};

/// Writes what the journal says and the files do not, if nobody else works on the job.
///
/// It is cheap if there is nothing to do: only the ends of the list and the journal are read.
pub(super) fn catch_up(layout: &Layout, job: &JobId, held: Option<&JobLock>) -> Result<(), Error> {
    let Some(_) = missing(layout, job)? else { return Ok(()) };
    let _lock = match held {
        Some(_) => None,
        None if JobLock::holder(layout, job)?.is_some() => return Ok(()),
        None => match JobLock::take(layout, job) {
            Ok(lock) => Some(lock),
            Err(store::Error::Locked { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        },
    };
    // Somebody may have been faster.
    let Some(after) = missing(layout, job)? else { return Ok(()) };
    complete(layout, job, after)
}

/// Returns the record after which the files may not say what the journal says; `None` if
/// they do.
fn missing(layout: &Layout, job: &JobId) -> Result<Option<u64>, Error> {
    let mark = last_mark(layout, job)?;
    let last = match last_seq(layout, job) {
        // The files of older programs have no journal of ours.
        Err(store::Error::NoJob { .. }) => return Ok(None),
        last => last?,
    };
    match mark {
        Some(mark) if mark.seq >= last => Ok(None),
        Some(mark) => Ok(Some(mark.seq)),
        None if has_no_list(layout, job) && nothing_died(layout, job, last) => Ok(None),
        None => Ok(Some(0)),
    }
}

fn has_no_list(layout: &Layout, job: &JobId) -> bool {
    layout.dlq_index(job).symlink_metadata().is_err()
}

/// Returns whether it is known without reading the journal that no item ever died.
fn nothing_died(layout: &Layout, job: &JobId, last: u64) -> bool {
    let checkpoint = load_checkpoint::<Checkpoint>(layout, job).ok().flatten();
    let usable = checkpoint.filter(|c| c.is_readable() && c.covers() == last);
    usable.is_some_and(|checkpoint| {
        let map = checkpoint.into_job().map;
        map.is_none_or(|map| map.items.iter().all(|item| item.died.is_none()))
    })
}

/// Writes what the journal says after a record.
fn complete(layout: &Layout, job: &JobId, after: u64) -> Result<(), Error> {
    if after > 0 {
        let mut reader = Reader::open_after(layout, job, after)?;
        let mut matters = false;
        for record in &mut reader {
            let record = record?;
            matters |= record.item_id.is_some() && Letter::concerns(&record.event);
        }
        if !matters {
            let mut projection = Projection::new(layout, job, Mask::default(), None);
            projection.listing.mark(reader.last_seq());
            return projection.listing.write();
        }
    }
    let mut scan = Scan::read(layout, job, u64::MAX)?;
    let spool = scan.spool();
    let mut projection = Projection::new(layout, job, Mask::default(), spool.clone());
    let changed = scan.changed_after(after);
    if changed.is_empty() && !projection.listing.is_there() {
        return Ok(());
    }
    scan.write(&changed, &mut projection, spool.as_ref())?;
    projection.listing.mark(scan.last_seq);
    projection.listing.write()
}
