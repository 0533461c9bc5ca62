//! Release of a worktree after an attempt, and of a failed item's branch before a replay.

use std::{path::Path, sync::Arc};

use prodigy_core::{
    event::{AttemptArtifacts, Event, NewEvent},
    failure::Failure,
    ids::{ItemId, JobId},
    mask::Mask,
    workflow::Preserve,
};

use super::{
    worker::{Worker, blocking},
    worker_pool::{WorkerContext, item_branch},
};
use crate::{
    git::{ChangeKind, ChangedFile, WorktreeSlot, WorktreeStatus},
    step::StepOwner,
    store::{self, Layout},
};

/// The number of uncommitted files that are named, and the longest name shown.
const NAMED: usize = 10;
const NAME_LENGTH: usize = 120;

/// An attempt whose worktree is put away.
pub(crate) struct WorktreeRelease {
    pub(crate) id: ItemId,
    pub(crate) attempt: u32,
    pub(crate) left: Option<WorktreeStatus>,
    /// Set if the item has failed for good.
    pub(crate) failed: bool,
    /// Set if the worktree can be used again.
    pub(crate) clean: bool,
}

/// In which way something of an attempt is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Preservation {
    Worktree,
    Reference,
    Nothing,
}

impl Worker {
    /// Keeps what is worth keeping, and makes the worktree ready for the next item.
    pub(crate) async fn release_worktree(&mut self, ended: WorktreeRelease) {
        let Some(slot) = self.slot.take() else { return self.report_lost_worktree(&ended).await };
        let is_untouched = ended.left.as_ref().is_some_and(|left| left.is_untouched);
        let keep = match self.crew.preserve {
            Preserve::Always => true,
            Preserve::Failed => ended.failed && !is_untouched,
            Preserve::Never => false,
        };
        let keeping = match keep {
            true if !ended.clean || self.crew.may_keep_worktree() => Preservation::Worktree,
            true => Preservation::Reference,
            false => Preservation::Nothing,
        };
        let (slot, behind) = match &ended.left {
            Some(left) if ended.failed && !left.is_untouched => {
                self.collect_artifacts(slot, &ended, left.clone(), keeping).await
            }
            Some(_) | None => (Some(slot), None),
        };
        let Some(slot) = slot else { return };
        let is_nowhere =
            |left: &AttemptArtifacts| left.uncommitted.is_some() && left.patch.is_none();
        // What is too much for a patch is kept all the same.
        let is_lost = keeping == Preservation::Nothing && behind.as_deref().is_some_and(is_nowhere);
        let keeping = if is_lost { Preservation::Reference } else { keeping };
        match keeping {
            Preservation::Worktree => self.keep_worktree(slot, ended, behind).await,
            Preservation::Reference => self.keep_reference(slot, &ended, behind).await,
            Preservation::Nothing => {
                self.slot = Some(slot);
                if behind.is_some() {
                    let reason = "the item failed; no worktree is kept";
                    self.emit_preserved(&ended.id, String::new(), reason, behind);
                }
                if !ended.clean {
                    self.discard().await;
                }
            }
        }
    }

    /// Finds out what an item that failed for good left behind, and writes its patch.
    async fn collect_artifacts(
        &mut self,
        slot: WorktreeSlot,
        ended: &WorktreeRelease,
        left: WorktreeStatus,
        keeping: Preservation,
    ) -> (Option<WorktreeSlot>, Option<Box<AttemptArtifacts>>) {
        let (crew, id) = (Arc::clone(&self.crew), ended.id.clone());
        let looked = blocking(move || {
            if keeping == Preservation::Nothing && left.commits > 0 {
                slot.keep_commits_on_branch(&left.head)?;
            }
            let branch = match keeping {
                Preservation::Worktree => slot.preserved_branch(true, &left.head, left.commits),
                // The reference has the commits, and the branch is deleted.
                Preservation::Reference => None,
                Preservation::Nothing => slot.preserved_branch(false, &left.head, left.commits),
            };
            // Nothing else has what is not below HEAD.
            let astray = (left.astray > 0).then(|| slot.tree().branch().to_owned());
            let branch = astray.or(branch);
            let (uncommitted, patch) = crew.patches().write(&slot, &id, &left);
            let commits = left.commits + left.astray;
            let behind = AttemptArtifacts { branch, commits, uncommitted, patch };
            Ok((slot, behind))
        });
        // A slot that git would not work with is not used again.
        let Ok((slot, behind)) = looked.await else {
            self.old = None;
            return (None, None);
        };
        if behind.branch.is_some() {
            self.old = None;
        }
        let is_something = behind != AttemptArtifacts::default();
        (Some(slot), is_something.then(|| Box::new(behind)))
    }

    /// Says where the commits are of an item that failed for good and whose worktree could not
    /// be looked at: somebody may have removed it.
    async fn report_lost_worktree(&mut self, ended: &WorktreeRelease) {
        if !ended.failed || self.crew.merges.is_none() {
            return;
        }
        let branch = item_branch(&self.crew.job, &ended.id);
        let (repo, name, tip) = (self.crew.repo.clone(), branch.clone(), self.tip());
        let counted = blocking(move || match repo.branch_tip(&name)? {
            Some(found) => repo.count_missing_from(&[found], &tip),
            None => Ok(0),
        });
        // What cannot be counted is not deleted either.
        let commits = counted.await.unwrap_or_default() as u64;
        if commits > 0 {
            let left =
                AttemptArtifacts { branch: Some(branch), commits, ..AttemptArtifacts::default() };
            let reason = "its worktree is gone; its commits are on its branch";
            self.emit_preserved(&ended.id, String::new(), reason, Some(Box::new(left)));
        }
    }

    /// Keeps an item's worktree as it is.
    async fn keep_worktree(
        &mut self,
        slot: WorktreeSlot,
        ended: WorktreeRelease,
        behind: Option<Box<AttemptArtifacts>>,
    ) {
        let WorktreeRelease { id, attempt, left, failed, .. } = ended;
        let path = self.crew.worktrees.join(id.as_str());
        // The worktree of an item that failed for good stays on its branch.
        let leave_at = left.filter(|_| !failed).map(|left| left.head);
        if failed {
            self.old = None;
        }
        let reason = if failed { "the item failed" } else { "`preserve_worktrees` is `always`" };
        match blocking(move || slot.preserve_at(&path, attempt, leave_at.as_deref())).await {
            Ok(path) => {
                self.emit_preserved(&id, path.to_string_lossy().into_owned(), reason, behind);
            }
            Err(failure) => self.emit_preserved(&id, String::new(), &failure.message, behind),
        }
    }

    /// Keeps a reference to all that was in an item's worktree.
    async fn keep_reference(
        &mut self,
        slot: WorktreeSlot,
        ended: &WorktreeRelease,
        behind: Option<Box<AttemptArtifacts>>,
    ) {
        let (name, attempt) = (failed_reference(&self.crew.job, &ended.id), ended.attempt);
        match blocking(move || slot.save_to_ref(&name, attempt).map(|name| (slot, name))).await {
            Ok((slot, name)) => {
                self.slot = Some(slot);
                if let (Some(old), Some(left)) = (&mut self.old, &ended.left) {
                    old.recorded = Some(left.head.clone());
                }
                let reason = "the item failed; `git show` has what it left";
                self.emit_preserved(&ended.id, name, reason, behind);
            }
            Err(failure) => {
                // Nothing else has the commits now.
                self.old = None;
                self.emit_preserved(&ended.id, String::new(), &failure.message, behind);
            }
        }
    }

    pub(crate) fn emit_preserved(
        &self,
        id: &ItemId,
        path: String,
        reason: &str,
        left: Option<Box<AttemptArtifacts>>,
    ) {
        let event = Event::WorktreePreserved { path, reason: reason.to_owned(), left };
        let (agent_id, item_id) = (Some(self.agent), Some(id.clone()));
        self.crew.tools.emit(NewEvent { agent_id, item_id, event });
    }

    /// Gets out of the way what is left of the attempt that an item failed for good with.
    pub(crate) async fn free_item_branch(
        &self,
        identity: &StepOwner,
        branch: &str,
    ) -> Result<(), Failure> {
        let Some(item) =
            identity.item.as_ref().filter(|item| self.crew.take_dead_lettered(&item.id))
        else {
            return Ok(());
        };
        let reference = failed_reference(&self.crew.job, &item.id);
        let (repo, branch) = (self.crew.repo.clone(), branch.to_owned());
        let last = item.attempt.saturating_sub(1);
        blocking(move || repo.free_item_branch(&branch, &reference, last)).await?;
        Ok(())
    }
}

/// Returns the reference that holds what an item left which failed for good.
pub(crate) fn failed_reference(job: &JobId, item: &ItemId) -> String {
    format!("refs/prodigy/{job}/failed/{item}")
}

/// Where patches are written.
pub(crate) struct PatchWriter<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) job: &'a JobId,
    pub(crate) mask: &'a Mask,
}

impl WorkerContext {
    pub(crate) fn patches(&self) -> PatchWriter<'_> {
        PatchWriter { layout: &self.tools.layout, job: &self.job, mask: &self.mask }
    }
}

impl PatchWriter<'_> {
    /// Describes what was not committed, and writes it as a patch; returns the patch's path.
    ///
    /// That there is no patch is no failure: the description says why.
    pub(crate) fn write(
        &self,
        slot: &WorktreeSlot,
        id: &ItemId,
        left: &WorktreeStatus,
    ) -> (Option<String>, Option<String>) {
        if left.uncommitted.is_empty() {
            return (None, None);
        }
        let mut text = summary(&left.uncommitted);
        let patch = match slot.patch(left, self.mask) {
            Ok(Some(patch)) => patch,
            Ok(None) => {
                text.push_str("; too large for a patch");
                return (Some(text), None);
            }
            Err(error) => {
                text.push_str(&no_patch(&error));
                return (Some(text), None);
            }
        };
        if !patch.left_out.is_empty() {
            let names: Vec<_> = patch.left_out.iter().map(|path| format!("`{path}`")).collect();
            text.push_str("; not in the patch, because of a secret: ");
            text.push_str(&names.join(", "));
        }
        if patch.bytes.is_empty() {
            return (Some(text), None);
        }
        let file = self.layout.dlq_patch(self.job, id);
        let file = std::path::absolute(&file).unwrap_or(file);
        match write_patch(&file, &patch.bytes) {
            Ok(()) => (Some(text), Some(file.to_string_lossy().into_owned())),
            Err(error) => {
                text.push_str(&no_patch(&error));
                (Some(text), None)
            }
        }
    }
}

/// Writes a patch so that it is on disk: nothing else may have what is in it.
fn write_patch(file: &Path, bytes: &[u8]) -> Result<(), store::Error> {
    if let Some(directory) = file.parent() {
        store::create_dir(directory)?;
    }
    store::write_atomic(file, bytes)
}

fn no_patch(error: &dyn std::error::Error) -> String {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("; no patch was written: {error}{cause}")
}

/// Says which files were changed, for people.
fn summary(files: &[ChangedFile]) -> String {
    let word = |kind: ChangeKind| match kind {
        ChangeKind::New => "new",
        ChangeKind::Modified => "modified",
        ChangeKind::Deleted => "deleted",
        ChangeKind::Unmerged => "in conflict",
    };
    let mut files = files.iter().map(|file| format!("{} {}", short(&file.path), word(file.kind)));
    let text = files.by_ref().take(NAMED).collect::<Vec<_>>().join(", ");
    match files.len() {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

fn short(path: &str) -> String {
    match path.char_indices().nth(NAME_LENGTH) {
        Some((end, _)) => format!("{}…", path.get(..end).unwrap_or_default()),
        None => path.to_owned(),
    }
}
