//! Comparing the files with the journal.

use std::{collections::HashMap, fs, path::PathBuf};

use prodigy_core::{
    ids::{ItemId, JobId},
    mask::Mask,
};

use super::{
    DeadLetterSummary, Error,
    dead_letter_store::read_entry,
    index::{IndexLine, IndexReader},
    old_layout::is_closed,
    rebuild::JournalScan,
    writer::DeadLetterWriter,
};
use crate::{
    run::control::lost_end::refuse_lost_end,
    store::{self, JobLock, Layout},
};

/// The defects of the files of a job's dead letters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FsckReport {
    /// The number of entries in the journal.
    pub entries: u64,
    /// The items whose entries have no file.
    pub missing: Vec<ItemId>,
    /// The files that do not hold what was written, and what is wrong with them.
    pub damaged: Vec<(PathBuf, String)>,
    /// The items whose files say something else than the journal.
    pub stale: Vec<ItemId>,
    /// The files that belong to no entry.
    pub foreign: Vec<PathBuf>,
    /// The items that the list leaves out, or of which it says something else than the journal.
    pub unlisted: Vec<ItemId>,
    /// True if the defects were repaired. Files that belong to no entry stay.
    pub repaired: bool,
}

impl FsckReport {
    /// Returns whether the files say what the journal says.
    pub fn is_clean(&self) -> bool {
        self.missing.is_empty()
            && self.damaged.is_empty()
            && self.stale.is_empty()
            && self.unlisted.is_empty()
    }
}

/// Compares the files of a job's dead letters with its journal, and writes them anew if they
/// differ and that is wanted. The job must not be running.
pub fn fsck(layout: &Layout, job: &JobId, repair: bool) -> Result<FsckReport, Error> {
    // A job that was never recorded must not get a lock.
    store::read_last_seq(layout, job)?;
    let _lock = JobLock::take(layout, job)?;
    // The files may be all that is left of records that are gone.
    refuse_lost_end(layout, job)?;
    let mut scan = JournalScan::read(layout, job, u64::MAX)?;
    let spool = scan.spool();
    let mut projection = DeadLetterWriter::new(layout, job, Mask::default(), spool.clone());
    let listed = listed(layout, job)?;
    let mut report = FsckReport::default();
    for item in scan.changed_after(0) {
        if scan.dead.get(&item).is_some_and(|dead| !dead.is_cleared) {
            report.entries += 1;
            compare(layout, job, &mut scan, &item, listed.get(&item), &mut report);
        }
    }
    let kept = |item: &ItemId| scan.dead.get(item).is_some_and(|dead| !dead.is_cleared);
    report.unlisted.extend(listed.keys().filter(|item| !kept(item)).cloned());
    report.foreign = foreign(layout, job, kept)?;
    if repair && !report.is_clean() {
        for (path, _) in &report.damaged {
            move_aside(path)?;
        }
        move_aside(&layout.dlq_log(job))?;
        let all = scan.changed_after(0);
        scan.write(&all, &mut projection, spool.as_ref())?;
        projection.listing.add_mark(scan.last_seq);
        projection.listing.flush()?;
        projection.listing.summarize()?;
        report.repaired = true;
    }
    Ok(report)
}

/// Compares what is stored of an entry with what the journal says.
fn compare(
    layout: &Layout,
    job: &JobId,
    scan: &mut JournalScan,
    item: &ItemId,
    listed: Option<&DeadLetterSummary>,
    report: &mut FsckReport,
) {
    let Some(letter) = scan.letters.take(item) else { return };
    let (open, closed) = (layout.dlq_item(job, item), layout.dlq_resolved_item(job, item));
    let is_closed = letter.status().is_some_and(is_closed);
    let (path, other) = if is_closed { (closed, open) } else { (open, closed) };
    let is_elsewhere = other.symlink_metadata().is_ok();
    match read_entry(&path, job) {
        Ok(_) if is_elsewhere => report.stale.push(item.clone()),
        Ok(None) => report.missing.push(item.clone()),
        Err(error) => report.damaged.push((path, error.to_string())),
        Ok(Some(stored)) => {
            let mut wanted = letter.entry(&stored.item_data);
            if let Some(wanted) = &mut wanted {
                wanted.input_hash.clone_from(&stored.input_hash);
                // Which log there was is not in the journal.
                let details = wanted.failure_history.iter_mut().zip(&stored.failure_history);
                for (wanted, stored) in details {
                    wanted.json_log_location.clone_from(&stored.json_log_location);
                }
                wanted.update_hash();
            }
            if wanted.is_none_or(|wanted| wanted.record_hash != stored.record_hash) {
                report.stale.push(item.clone());
            }
        }
    }
    let heading = letter.without_item_data().map(|entry| DeadLetterSummary::from(&entry));
    if heading.as_ref() != listed {
        report.unlisted.push(item.clone());
    }
    scan.letters.insert(letter);
}

/// Returns what the list says of every item.
fn listed(layout: &Layout, job: &JobId) -> Result<HashMap<ItemId, DeadLetterSummary>, Error> {
    let mut newest = HashMap::new();
    for line in IndexReader::open(layout, job)?.into_iter().flatten() {
        if let IndexLine::Change(change) = line? {
            let gone = change.gone;
            let item = change.item_id.clone();
            newest.entry(item).or_insert_with(|| (!gone).then(|| change.into_summary()));
        }
    }
    Ok(newest.into_iter().filter_map(|(item, heading)| Some((item, heading?))).collect())
}

/// Returns the files beside the entries that belong to none of them.
fn foreign(
    layout: &Layout,
    job: &JobId,
    kept: impl Fn(&ItemId) -> bool,
) -> Result<Vec<PathBuf>, Error> {
    let mut foreign = Vec::new();
    for directory in [layout.dlq_items_dir(job), layout.dlq_resolved_dir(job)] {
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(store::Error::io("list", directory, error).into()),
        };
        for entry in entries {
            let entry = entry.map_err(|error| store::Error::io("list", &directory, error))?;
            let name = entry.file_name().into_string().unwrap_or_default();
            let item = name.strip_suffix(".json").and_then(|id| id.parse().ok());
            if !item.is_some_and(|item| kept(&item)) {
                foreign.push(entry.path());
            }
        }
    }
    foreign.sort();
    Ok(foreign)
}

/// Moves a file out of the way, so that it can be written anew and still be looked at.
fn move_aside(path: &std::path::Path) -> Result<(), Error> {
    if path.symlink_metadata().is_err() {
        return Ok(());
    }
    Ok(store::move_to_backup(path, ".damaged")?)
}
