//! The job's branch when somebody deleted it.

use prodigy_core::event::{Event, EventRecord};

use crate::{
    run::{Dispatcher, Error},
    store::JournalReader,
};

impl Dispatcher {
    /// Puts the job's branch back where the journal says that it stood, if it is gone.
    ///
    /// When nothing is left but to tidy up it may be gone already.
    pub(crate) fn restore_job_branch(&mut self) -> Result<(), Error> {
        let Some(tree) = self.job.tree.as_ref().filter(|_| self.job.next_phase().is_some()) else {
            return Ok(());
        };
        let (branch, repo) = (tree.branch.clone(), self.parts.settings.repo.clone());
        if repo.has_branch(&branch)? {
            return Ok(());
        }
        let mut tip = tree.base.clone();
        for record in JournalReader::open(&self.parts.settings.layout, &self.parts.id)? {
            if let Some(moved) = moved_to(&record?, &branch) {
                tip = moved;
            }
        }
        repo.restore_branch(&branch, &tip)?;
        self.append(vec![Event::GitTampering { changes: vec![branch_deleted_message(&branch)] }])
    }
}

/// Returns where the job's branch stood after a record, if the record tells.
fn moved_to(record: &EventRecord, branch: &str) -> Option<String> {
    let event = &record.event;
    if let Event::WorktreeMerged { target: name, commit, .. }
    | Event::WorktreeCreated { branch: name, commit, .. } = event
    {
        return Some(commit.clone()).filter(|_| name == branch);
    }
    let snapshot = if let Event::PhaseStarted { snapshot, .. } = event {
        snapshot.as_ref()
    } else if let Event::StepCompleted(step) = event {
        step.snapshot.as_ref().filter(|_| record.item_id.is_none())
    } else {
        None
    };
    snapshot.map(|snapshot| snapshot.head.clone())
}

/// Says that a branch was deleted, among other things that steps change.
pub(crate) fn branch_deleted_message(branch: &str) -> String {
    format!("the branch `{branch}` was deleted")
}
