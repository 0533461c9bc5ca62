//! Work that was kept outside of a job's commits, at a glance.

use std::collections::BTreeMap;

use crate::{
    event::{Event, EventRecord, KeptWork},
    ids::{ItemId, JobId},
};

/// The work of a job that was kept outside of its commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptSummary {
    /// By the name of the reference, so that an item that is tried again counts once.
    entries: BTreeMap<String, KeptEntry>,
}

/// The work of one item, or of the job's own steps, that was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptEntry {
    /// The item; `None` for the job's own steps.
    pub item: Option<ItemId>,
    /// The work.
    pub work: KeptWork,
}

impl KeptSummary {
    /// Applies a record.
    pub fn apply(&mut self, record: &EventRecord) {
        let Event::WorkKept(work) = &record.event else { return };
        let name = work.reference.as_ref().or(work.stray_commits.first()).cloned();
        let entry = KeptEntry { item: record.item_id.clone(), work: (**work).clone() };
        self.entries.insert(name.unwrap_or_default(), entry);
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the work of each item and of the job.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &KeptEntry> {
        self.entries.values()
    }

    /// Returns how many items' uncommitted files are kept.
    pub fn items(&self) -> u32 {
        let of_items = |entry: &&KeptEntry| entry.item.is_some() && entry.work.reference.is_some();
        u32::try_from(self.entries().filter(of_items).count()).unwrap_or(u32::MAX)
    }

    /// Returns how many uncommitted files are kept.
    pub fn files(&self) -> u32 {
        self.entries().map(|entry| entry.work.files).sum()
    }

    /// Returns the command that brings all uncommitted files into the checkout it is typed in.
    pub fn command(job: &JobId) -> String {
        let list = format!("git for-each-ref --format='%(refname)' refs/prodigy/{job}/kept");
        format!("git cherry-pick --no-commit $({list})")
    }
}

impl KeptEntry {
    /// Returns whose work it is, for people.
    pub fn owner(&self) -> &str {
        self.item.as_ref().map_or("the job", ItemId::as_str)
    }
}
