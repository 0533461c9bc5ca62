//! Providing the worktree that an attempt works in.

use std::{path::PathBuf, sync::Arc};

use prodigy_core::{event::Event, failure::Failure, workflow::Isolation};

use super::{
    checkout_transfer,
    worker::{Worker, blocking, broken},
    worker_pool::item_branch,
};
use crate::{
    git::{Worktree, WorktreeSlot},
    step::{CommitRules, StepContext, StepOwner},
};

impl Worker {
    /// Makes the worktree ready for an item, at a commit.
    pub(crate) async fn prepare_context(
        &mut self,
        identity: StepOwner,
        tip: String,
    ) -> Result<StepContext, Failure> {
        let temporary = self.crew.tools.state.join("tmp").join(self.agent.to_string());
        crate::store::create_dir(&temporary).map_err(|error| broken(error.to_string()))?;
        if self.crew.map.isolation == Isolation::Shared {
            return Ok(self.step_context(identity));
        }
        let item = identity.item.as_ref().map(|item| item.id.clone());
        let Some(id) = item else { return Err(broken("no item".to_owned())) };
        let branch = item_branch(&self.crew.job, &id);
        self.free_item_branch(&identity, &branch).await?;
        if let Some(slot) = self.slot.take() {
            self.slot = Some(self.reset_slot(slot, branch.clone(), tip).await?);
        } else {
            self.slot = Some(self.create(branch.clone(), tip.clone()).await?);
            let workplace = self.step_context(identity.clone());
            workplace.emit(Event::WorktreeCreated {
                path: workplace.tree.path().to_string_lossy().into_owned(),
                branch: branch.clone(),
                commit: workplace.tree.head().map_err(|error| broken(error.to_string()))?,
            });
            match checkout_transfer::provision_worktree(&self.crew, &workplace).await {
                Ok(kept) => {
                    self.kept = kept;
                    self.reset_after_provision(branch.clone(), tip).await?;
                }
                Err(failure) => {
                    // Half furnished, it would be missing something for the next item too.
                    self.discard().await;
                    return Err(failure);
                }
            }
        }
        if let Some(old) = self.old.take().filter(|old| old.branch != branch) {
            self.crew.delete_branch_later(old);
        }
        Ok(self.step_context(identity))
    }

    pub(crate) fn step_context(&self, identity: StepOwner) -> StepContext {
        let tree: &Worktree = self.slot.as_ref().map_or(&self.crew.job_tree, WorktreeSlot::tree);
        StepContext {
            tools: Arc::clone(&self.crew.tools),
            identity,
            tree: tree.clone(),
            supervisors: self.supervisors.clone(),
            spent: std::sync::Mutex::default(),
            allowance: self.allowance,
            past: Arc::clone(&self.past),
            commit_rules: CommitRules::new(self.kept.clone()),
            interruption: Arc::clone(&self.interruption),
            progress: std::sync::Mutex::default(),
            effects: Arc::clone(&self.effects),
        }
    }

    async fn create(&self, branch: String, tip: String) -> Result<WorktreeSlot, Failure> {
        let (repo, path) = (self.crew.repo.clone(), self.path());
        blocking(move || repo.create_slot(&path, &branch, &tip)).await
    }

    /// Makes a furnished worktree what it will be for later items, so that what it was
    /// furnished with does not count as the work of the first one.
    ///
    /// Commits of its setup go too: later items do not begin from them either.
    async fn reset_after_provision(&mut self, branch: String, tip: String) -> Result<(), Failure> {
        if self.kept.is_empty() {
            return Ok(());
        }
        let Some(slot) = self.slot.take() else { return Ok(()) };
        self.slot = Some(self.reset_slot(slot, branch, tip).await?);
        Ok(())
    }

    async fn reset_slot(
        &self,
        mut slot: WorktreeSlot,
        branch: String,
        tip: String,
    ) -> Result<WorktreeSlot, Failure> {
        let kept = self.kept.clone();
        blocking(move || slot.reset_for_item(&branch, &tip, &kept).map(|()| slot)).await
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.crew.worktrees.join(self.agent.to_string())
    }
}
