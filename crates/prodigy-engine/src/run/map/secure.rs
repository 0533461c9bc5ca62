//! Making safe what a failed attempt leaves, before anything says that it is not made again.

use std::sync::Arc;

use prodigy_core::{event::AttemptArtifacts, ids::ItemId};

use super::{
    merge_queue::RetiredBranch,
    release::{WorktreeRelease, failed_reference},
    worker::{Worker, blocking},
    worker_pool::item_branch,
};
use crate::git::WorktreeStatus;

/// The remains of an attempt in its worktree.
pub(crate) struct AttemptRemains {
    pub(crate) id: ItemId,
    pub(crate) attempt: u32,
    pub(crate) left: Option<WorktreeStatus>,
    /// Set if the worktree can be used again.
    pub(crate) is_clean: bool,
    /// Set once all of it is safe, so that the item may fail for good.
    pub(crate) is_secured: bool,
}

impl Worker {
    /// Makes safe what an attempt left behind with which its item fails for good, and records
    /// where it is.
    ///
    /// From the record of the failure on nobody looks for it any more, so this comes before it.
    /// Cut off in between, the item is tried again, and what was kept is found and recorded.
    pub(crate) async fn secure(&mut self, remains: &mut AttemptRemains) {
        // Nothing of the branch is needed once the worktree is on another one, unless only the
        // branch has what is kept.
        let branch = item_branch(&self.crew.job, &remains.id);
        self.old = Some(RetiredBranch { branch, recorded: None });
        let AttemptRemains { id, attempt, left, is_clean: clean, .. } = remains;
        let (id, left) = (id.clone(), left.clone());
        self.release_worktree(WorktreeRelease {
            id,
            attempt: *attempt,
            left,
            failed: true,
            clean: *clean,
        })
        .await;
        remains.is_secured = true;
    }

    /// Makes safe what an attempt left behind in whose worktree the handler of the error policy
    /// runs next: if that is cut off, it runs once more on the same files.
    pub(crate) async fn secure_for_handler(&mut self, remains: &AttemptRemains) {
        let Some(left) = remains.left.clone().filter(|left| !left.is_untouched) else { return };
        let Some(slot) = self.slot.take() else { return };
        let (crew, id) = (Arc::clone(&self.crew), remains.id.clone());
        let reference = handler_reference(&failed_reference(&crew.job, &id));
        let recorded = blocking(move || {
            let named = slot.save_over_ref(&reference);
            let (uncommitted, patch) = crew.patches().write(&slot, &id, &left);
            let commits = left.commits + left.astray;
            let behind = AttemptArtifacts { branch: None, commits, uncommitted, patch };
            Ok((slot, named, behind))
        });
        let Ok((slot, named, behind)) = recorded.await else { return };
        self.slot = Some(slot);
        let (path, reason) = match named {
            Ok(name) => (name, "the item failed; its handler is about to run".to_owned()),
            Err(error) => (String::new(), error.to_string()),
        };
        self.emit_preserved(&remains.id, path, &reason, Some(Box::new(behind)));
    }

    /// Frees the worktree of an attempt whose remains are safe; `failed` says whether its item
    /// has failed for good.
    pub(crate) async fn release_secured(&mut self, failed: bool, is_clean: bool) {
        if !failed {
            // It is tried again and may be under way elsewhere by then: its branch is not ours.
            self.old = None;
        }
        if !is_clean {
            self.discard().await;
        }
    }
}

/// Returns the reference that holds what an attempt left before its handler ran, next to the one
/// of the item.
pub(crate) fn handler_reference(failed: &str) -> String {
    format!("{failed}.handler")
}
