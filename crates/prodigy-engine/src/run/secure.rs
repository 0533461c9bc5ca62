//! Making safe what a failed item leaves, before anything says that it failed for good.

use super::{crew::item_branch, merges::Old, put_away::PutAway, worker::Desk};

impl Desk {
    /// Makes safe what an attempt left behind with which its item fails for good, and records
    /// where it is.
    ///
    /// From the record of the failure on nobody looks for it any more, so this comes before it.
    /// Cut off in between, the item is tried again, and what was kept is found and recorded.
    pub(super) async fn secure(&mut self, ended: PutAway) {
        // Nothing of the branch is needed once the worktree is on another one, unless only the
        // branch has what is kept.
        let branch = item_branch(&self.crew.job, &ended.id);
        self.old = Some(Old { branch, recorded: None });
        self.put_away(ended).await;
    }

    /// Frees the worktree of an attempt whose remains are safe; `failed` says whether its item
    /// has failed for good.
    pub(super) async fn release_secured(&mut self, failed: bool, is_clean: bool) {
        if !failed {
            // It is tried again and may be under way elsewhere by then: its branch is not ours.
            self.old = None;
        }
        if !is_clean {
            self.discard().await;
        }
    }
}
