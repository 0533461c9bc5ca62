//! Writing entries: a file for each, and a line in the list.

use std::{io, path::Path};

use prodigy_core::{
    dlq::{DeadLetterState, DeadLetteredItem, EntryStatus},
    ids::{ItemId, JobId},
    mask::Mask,
};
use serde_json::{Value, value::RawValue};

use super::{
    DeadLetterSummary, Error,
    dead_letter_store::{read_entry, read_stored},
    index::{IndexWriter, SummaryLine},
    old_layout::{is_closed, migrate_layout},
};
use crate::store::{self, Layout, Spool, create_projection, read_edit, write_projection};

/// The files of a job's dead letters, open to be written.
///
/// Whoever has one holds the job's lock.
pub(crate) struct DeadLetterWriter {
    layout: Layout,
    job: JobId,
    mask: Mask,
    spool: Option<Spool>,
    pub(crate) listing: IndexWriter,
}

impl DeadLetterWriter {
    /// Looks at the files of a job. Nothing is made before something is written; files in the
    /// layout of before are moved where they belong.
    pub(crate) fn new(layout: &Layout, job: &JobId, mask: Mask, spool: Option<Spool>) -> Self {
        // What cannot be moved is read where it is, and what is written says why it cannot be.
        migrate_layout(layout, job).ok();
        let listing = IndexWriter::new(layout, job);
        Self { layout: layout.clone(), job: job.clone(), mask, spool, listing }
    }

    /// Looks at the files of a job without changing anything, for whoever does not hold its lock.
    pub(crate) fn open_read_only(layout: &Layout, job: &JobId, spool: Option<Spool>) -> Self {
        let listing = IndexWriter::new(layout, job);
        let (layout, job) = (layout.clone(), job.clone());
        Self { layout, job, mask: Mask::default(), spool, listing }
    }

    /// Returns the stored entry of an item, if there is one that can be gone on from.
    pub(crate) fn read_entry(&self, item: &ItemId) -> Option<DeadLetteredItem> {
        let entry = read_stored(&self.layout, &self.job, item).ok()??;
        // The older shapes do not say which records they know of.
        (entry.journal_seq > 0).then_some(entry)
    }

    /// Writes the file of an entry, or deletes it; returns what the list has to say of it.
    pub(crate) fn write_entry(
        &mut self,
        letter: &DeadLetterState,
        place: Option<usize>,
    ) -> Result<Option<DeadLetterSummary>, Error> {
        let item = letter.item_id();
        let open = self.layout.dlq_item(&self.job, item);
        let closed = self.layout.dlq_resolved_item(&self.job, item);
        if letter.is_cleared() {
            // Without its entry nobody finds it.
            std::fs::remove_file(self.layout.dlq_patch(&self.job, item)).ok();
            remove(&open)?;
            remove(&closed)?;
            return Ok(letter.without_item_data().map(|entry| DeadLetterSummary::from(&entry)));
        }
        let is_closed = letter.status().is_some_and(is_closed);
        let (path, other) = if is_closed { (closed, open) } else { (open, closed) };
        // An entry that is new was changed once or twice, so there is no file to look for.
        if letter.revision() <= 2 && letter.status() == Some(EntryStatus::Open) {
            let Some(entry) = self.entry(letter, place, None) else { return Ok(None) };
            if create_projection(&path, &text(&entry, &path)?)? {
                return Ok(Some(DeadLetterSummary::from(&entry)));
            }
        }
        let before = match read_entry(&path, &self.job).unwrap_or_default() {
            None => read_entry(&other, &self.job).unwrap_or_default(),
            before => before,
        };
        let Some(entry) = self.entry(letter, place, before.as_ref()) else { return Ok(None) };
        write_projection(&path, &text(&entry, &path)?)?;
        remove(&other)?;
        Ok(Some(DeadLetterSummary::from(&entry)))
    }

    /// Adds the line of an entry to the list; `was_open` is what the list said before.
    pub(crate) fn add_to_index(
        &mut self,
        letter: &DeadLetterState,
        heading: DeadLetterSummary,
        was_open: bool,
    ) {
        let listing = &mut self.listing;
        let open = listing.open + u64::from(is_open(letter));
        listing.open = open.saturating_sub(u64::from(was_open));
        let (open, gone) = (listing.open, letter.is_cleared());
        listing.add_summary(SummaryLine::new(heading, letter.seq(), gone, open));
    }

    /// Makes the entry of a letter, with the item's data and without secrets.
    pub(crate) fn entry(
        &self,
        letter: &DeadLetterState,
        place: Option<usize>,
        before: Option<&DeadLetteredItem>,
    ) -> Option<DeadLetteredItem> {
        // An entry without the item's data is better than none.
        let chosen = self.data(letter, place);
        let data = match (&chosen, before) {
            (Some(chosen), _) => &**chosen,
            (None, Some(before)) => &*before.item_data,
            (None, None) => RawValue::NULL,
        };
        let mut entry = letter.entry(data)?;
        match before {
            // Whoever wrote it may have known secrets that are not known here.
            Some(before) if chosen.is_none() || before.input_hash == entry.input_hash => {
                entry.item_data.clone_from(&before.item_data);
                entry.input_hash.clone_from(&before.input_hash);
                entry.update_hash();
            }
            Some(_) | None => self.hide(&mut entry),
        }
        Some(entry)
    }

    /// Returns the data of an item: what was chosen, or what took its place.
    fn data(&self, letter: &DeadLetterState, place: Option<usize>) -> Option<Box<RawValue>> {
        match letter.edited_input_hash() {
            Some(sha256) => read_edit(&self.layout, &self.job, sha256).ok(),
            None => Some(self.spool.as_ref()?.read(place?).ok()?.data),
        }
    }

    /// Takes secrets out of the item's data, which comes from the user's own input; what else
    /// an entry holds comes from the journal, which has none.
    fn hide(&self, entry: &mut DeadLetteredItem) {
        if self.mask.is_empty() {
            return;
        }
        let Ok(data) = serde_json::from_str::<Value>(entry.item_data.get()) else { return };
        let mut masked = data.clone();
        self.mask.mask_value(&mut masked);
        if masked != data
            && let Ok(masked) = RawValue::from_string(masked.to_string())
        {
            entry.item_data = masked;
            entry.update_hash();
        }
    }
}

/// Returns whether the entry of a letter waits for somebody.
pub(crate) fn is_open(letter: &DeadLetterState) -> bool {
    letter.status() == Some(EntryStatus::Open) && !letter.is_cleared()
}

/// Removes the file of an entry, if it is there.
fn remove(path: &Path) -> Result<(), Error> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(store::Error::io("remove", path, error).into())
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Returns the text of an entry's file.
fn text(entry: &DeadLetteredItem, path: &Path) -> Result<Vec<u8>, Error> {
    let mut text = serde_json::to_vec_pretty(entry).map_err(|error| store::Error::Encode {
        path: path.to_owned(),
        reason: error.to_string(),
    })?;
    text.push(b'\n');
    Ok(text)
}
