//! Restoring a result that a commit with an outdated index reverted.
//!
//! Between the move of the branch and that of the index lies one rename. A kill just there, and a
//! user who removes `index.lock` by hand and commits, put the files of before on top of the
//! result. Whoever completes the update puts the result back in a commit of its own.

use std::collections::HashSet;

use prodigy_core::event::CheckoutUpdate;

use super::{
    checkout_update::{changes, index_lines},
    merge_settings::MergeSettings,
    staging::StagingDir,
};
use crate::git::{Error, Repo, repo::with_fallback_committer};

/// The commit that put a reverted result back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredResult {
    /// The commit on top of the branch that had reverted the result.
    pub reverted_by: String,
    /// The commit that restores it.
    pub commit: String,
    /// The number of files that it restores.
    pub files: usize,
}

impl Repo {
    /// Commits the files of an update again that its branch has as they were before; returns
    /// `None` if there are none.
    pub(crate) fn restore_result(
        &self,
        staging: &StagingDir,
        update: &CheckoutUpdate,
    ) -> Result<Option<RestoredResult>, Error> {
        let Some(tip) = self.branch_tip(&update.target)? else { return Ok(None) };
        let later = changes(self, &update.old, &tip)?;
        let later: HashSet<&[u8]> = later.iter().map(|change| change.path.as_slice()).collect();
        let mut lost = changes(self, &update.old, &update.new)?;
        lost.retain(|change| !later.contains(change.path.as_slice()));
        if lost.is_empty() {
            return Ok(None);
        }
        let index = staging.scratch_index();
        self.call(&["read-tree", &tip]).index(&index).run()?;
        let lines = index_lines(&lost.iter().collect::<Vec<_>>());
        let call = self.call(&["update-index", "-z", "--index-info"]).index(&index);
        call.stdin(lines).run()?;
        let tree = self.call(&["write-tree"]).index(&index).durable().run_text()?;
        let note = format!("prodigy: restore the result that {} reverted", short(&tip));
        let message = format!(
            "Restore the result of {}\n\n{} was made from an index of before the merge, and reverted it.\n",
            short(&update.new),
            short(&tip)
        );
        let call = self.call(&["commit-tree", "-p", &tip, "-F", "-"]).stdin(message).durable();
        let call =
            if self.check_committer().is_ok() { call } else { with_fallback_committer(call) };
        let commit = MergeSettings::read(self)?.sign(call).args([&tree]).run_text()?;
        let name = format!("refs/heads/{}", update.target);
        self.call(&["update-ref", "-m", &note, &name, &commit, &tip]).durable().run()?;
        Ok(Some(RestoredResult { reverted_by: tip, commit, files: lost.len() }))
    }
}

impl RestoredResult {
    /// Returns the sentence for people.
    pub(crate) fn message(&self) -> String {
        format!(
            "commit {} was made from an index of before the merge and had reverted {} files of the result; commit {} restores them",
            short(&self.reverted_by),
            self.files,
            short(&self.commit)
        )
    }
}

fn short(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}
