//! Completing the files from the journal.

use prodigy_core::{
    checkpoint::Checkpoint, dlq::DeadLetterState, event::Event, ids::JobId, mask::Mask,
};

use super::{
    Error,
    index::{IndexReader, last_mark},
    old_layout::is_old_layout,
    projection::DeadLetterWriter,
    queue::known_seq,
    scan::JournalScan,
};
use crate::store::{self, JobLock, JournalReader, Layout, load_checkpoint, read_last_seq};

/// Writes what the journal says and the files do not, if nobody else works on the job.
///
/// It is cheap if there is nothing to do: only the ends of the list and the journal are read.
pub(super) fn rebuild_missing(
    layout: &Layout,
    job: &JobId,
    held: Option<&JobLock>,
) -> Result<(), Error> {
    if missing(layout, job)?.is_none() && !is_incomplete(layout, job)? {
        return Ok(());
    }
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
    if let Some(after) = missing(layout, job)? {
        complete(layout, job, after)?;
    }
    if is_incomplete(layout, job)? {
        let mut projection = DeadLetterWriter::new(layout, job, Mask::default(), None);
        projection.listing.summarize()?;
    }
    Ok(())
}

/// Returns whether the files are laid out as they were before, or have a log and no index.
fn is_incomplete(layout: &Layout, job: &JobId) -> Result<bool, Error> {
    let is_there = |path: std::path::PathBuf| path.symlink_metadata().is_ok();
    let has_no_index = is_there(layout.dlq_log(job)) && !is_there(layout.dlq_index(job));
    Ok(has_no_index || is_old_layout(layout, job)?)
}

/// Returns the record after which the files may not say what the journal says; `None` if
/// they do.
fn missing(layout: &Layout, job: &JobId) -> Result<Option<u64>, Error> {
    let mark = last_mark(layout, job)?;
    let last = match read_last_seq(layout, job) {
        // The files of older programs have no journal of ours.
        Err(store::Error::NoJob { .. }) => return Ok(None),
        last => last?,
    };
    match mark {
        Some(mark) if mark.seq >= last => Ok(None),
        Some(mark) => Ok(Some(mark.seq)),
        None if has_no_list(layout, job)? && nothing_died(layout, job) => Ok(None),
        // The entries know more than the journal: they are not made to say less.
        None if known_seq(layout, job)? > last => Ok(None),
        None => Ok(Some(0)),
    }
}

fn has_no_list(layout: &Layout, job: &JobId) -> Result<bool, Error> {
    Ok(IndexReader::open(layout, job)?.is_none_or(|mut lines| lines.next().is_none()))
}

/// Returns whether no item of a job ever died; `false` if that cannot be told.
///
/// Only what the journal says after the checkpoint is read.
pub(super) fn nothing_died(layout: &Layout, job: &JobId) -> bool {
    let checkpoint = load_checkpoint::<Checkpoint>(layout, job).ok().flatten();
    let last = read_last_seq(layout, job).unwrap_or_default();
    let usable = checkpoint.filter(|c| c.is_readable() && c.covers() <= last);
    let mut covered = 0;
    if let Some(checkpoint) = usable {
        covered = checkpoint.covers();
        let map = checkpoint.into_job().map;
        if map.is_some_and(|map| map.items.iter().any(|item| item.died.is_some())) {
            return false;
        }
    }
    let Ok(mut reader) = JournalReader::open_after(layout, job, covered) else { return false };
    reader.all(|record| {
        record.is_ok_and(|record| !matches!(record.event, Event::ItemDeadLettered { .. }))
    })
}

/// Writes what the journal says after a record.
fn complete(layout: &Layout, job: &JobId, after: u64) -> Result<(), Error> {
    if after > 0 {
        let mut reader = JournalReader::open_after(layout, job, after)?;
        let mut matters = false;
        for record in &mut reader {
            let record = record?;
            matters |= record.item_id.is_some() && DeadLetterState::is_relevant(&record.event);
        }
        if !matters {
            let mut projection = DeadLetterWriter::new(layout, job, Mask::default(), None);
            projection.listing.add_mark(reader.last_seq());
            return projection.listing.flush();
        }
    }
    let mut scan = JournalScan::read(layout, job, u64::MAX)?;
    let spool = scan.spool();
    let mut projection = DeadLetterWriter::new(layout, job, Mask::default(), spool.clone());
    let changed = scan.changed_after(after);
    if changed.is_empty() && !projection.listing.exists() {
        return Ok(());
    }
    scan.write(&changed, &mut projection, spool.as_ref())?;
    projection.listing.add_mark(scan.last_seq);
    projection.listing.flush()?;
    projection.listing.summarize()
}
