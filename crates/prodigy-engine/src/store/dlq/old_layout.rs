//! Homes of prodigy before 0.2: the log of changes was called `index.json`, and closed entries
//! stayed in `items/`.

use std::{collections::HashSet, fs, io};

use prodigy_core::{dlq::EntryStatus, ids::JobId};

use super::{
    Error,
    index::{IndexLine, IndexReader},
};
use crate::store::{self, Layout, create_dir, rename_projection};

/// Returns whether the files of a job's dead letters are laid out as they were before.
pub(crate) fn is_old_layout(layout: &Layout, job: &JobId) -> Result<bool, Error> {
    let is_there = |path: std::path::PathBuf| path.symlink_metadata().is_ok();
    if is_there(layout.dlq_log(job)) || !is_there(layout.dlq_index(job)) {
        return Ok(false);
    }
    // What another program left there is no log, nor is a document whose log was lost.
    Ok(IndexReader::open(layout, job)?.and_then(|mut lines| lines.next()).is_some())
}

/// Brings the files of a job's dead letters into today's layout: first the closed entries, then
/// the log. Cut off in between it is done again.
///
/// The caller holds the job's lock.
pub(crate) fn migrate_layout(layout: &Layout, job: &JobId) -> Result<(), Error> {
    if !is_old_layout(layout, job)? {
        return Ok(());
    }
    let mut seen = HashSet::new();
    create_dir(&layout.dlq_resolved_dir(job))?;
    for line in IndexReader::open(layout, job)?.into_iter().flatten() {
        let IndexLine::Change(change) = line? else { continue };
        if !seen.insert(change.item_id.clone()) || change.gone || !is_closed(change.status) {
            continue;
        }
        let from = layout.dlq_item(job, &change.item_id);
        match fs::symlink_metadata(&from) {
            Ok(_) => rename_projection(&from, &layout.dlq_resolved_item(job, &change.item_id))?,
            // It was moved before, or is made again from the journal.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(store::Error::io("look at", from, error).into()),
        }
    }
    Ok(rename_projection(&layout.dlq_index(job), &layout.dlq_log(job))?)
}

/// Returns whether an entry belongs to those that nobody has to do anything about.
pub(crate) fn is_closed(status: EntryStatus) -> bool {
    match status {
        EntryStatus::Open | EntryStatus::Replaying => false,
        EntryStatus::Resolved | EntryStatus::Dropped => true,
    }
}
