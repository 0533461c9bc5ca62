//! Recovery of the artifacts of failed items that were not recorded when the items failed.

use std::path::Path;

use prodigy_core::{
    event::{AttemptArtifacts, Event, NewEvent},
    failure::ReasonCode,
    ids::{AgentId, ItemId},
    job::{ItemStage, JobInput, POISON},
    workflow::Preserve,
};

use super::{release, worker_pool::item_branch};
use crate::run::{
    Dispatcher, Error,
    dispatcher::{actions, run_state::RunState},
};

/// The reason for which the worktree of a failed item is kept.
const FAILED: &str = "the item failed";

impl Dispatcher {
    /// Records the worktrees that an earlier run kept without getting to say so, makes safe what
    /// items left that are not tried again, and removes what else its agents left.
    pub(crate) fn recover_worktrees(&mut self) -> Result<(), Error> {
        let worktrees = self.parts.settings.layout.worktrees_dir(&self.parts.id);
        let (Some(map), Ok(entries)) = (&self.job.map, std::fs::read_dir(&worktrees)) else {
            return Ok(());
        };
        let (mut kept, mut later, mut slots) = (Vec::new(), Vec::new(), Vec::new());
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Ok(agent) = name.parse::<AgentId>() {
                // One with suspended work in it waits for that.
                if !map.is_reserved(agent) {
                    slots.push((name, entry.path()));
                }
                continue;
            }
            let find = |name: &str| name.parse::<ItemId>().ok().and_then(|id| map.find(&id));
            let Some((at, item)) = find(&name) else {
                // Those of later failures of an item are numbered.
                let numbered = name.rsplit_once('.').filter(|(_, n)| n.parse::<u32>().is_ok());
                if numbered.and_then(|(name, _)| find(name)).is_some() {
                    later.push(entry.path());
                }
                continue;
            };
            if !map.kept.contains(&at) {
                kept.push((item.id.clone(), keep_reason(&item.stage), entry.path()));
            }
        }
        for path in later {
            self.parts.settings.repo.repair_worktree(&path)?;
        }
        for (id, reason, path) in kept {
            self.parts.settings.repo.repair_worktree(&path)?;
            self.emit_preserved_worktree(id, path.to_string_lossy().into_owned(), reason, None);
        }
        for (name, path) in slots {
            if let Err(error) = self.preserve_unrecorded_work(&name, &path, &worktrees) {
                let path = path.display();
                self.parts.note(&format!("warning: `{path}` could not be kept: {error}"));
            }
            self.parts.settings.repo.remove_job_worktree(&path, &name, true)?;
        }
        Ok(())
    }

    /// Makes safe what an item left in an agent's worktree, if the item is not tried again and
    /// nothing says yet what it left.
    ///
    /// So it is if prodigy died too often while the item was under way, if something outside may
    /// have been changed, and if the run was killed when the item had just failed for good.
    fn preserve_unrecorded_work(
        &mut self,
        name: &str,
        place: &Path,
        worktrees: &Path,
    ) -> Result<(), Error> {
        let repo = self.parts.settings.repo.clone();
        let Some(tree) = repo.find_job_worktree(place, name)? else { return Ok(()) };
        // What it is on may have been left half written.
        let Ok(Some(branch)) = tree.checked_out() else { return Ok(()) };
        let Some((id, attempt)) = self.item_of_branch(&branch) else { return Ok(()) };
        let base =
            repo.resolve_commit(&format!("refs/heads/{}", actions::job_branch(&self.parts.id)))?;
        let Some(mut slot) = repo.find_slot(place, &branch, &base)? else { return Ok(()) };
        let Ok(left) = slot.inspect() else { return Ok(()) };
        let commits = left.commits + left.astray;
        if left.uncommitted.is_empty() && commits == 0 {
            return Ok(());
        }
        let RunState { settings, mask, id: job, policy, .. } = &self.parts;
        let patches = release::PatchWriter { layout: &settings.layout, job, mask };
        let (uncommitted, patch) = patches.write(&slot, &id, &left);
        let preserve = policy.as_ref().map(|policy| policy.preserve_worktrees);
        let keeps_worktree = preserve != Some(Preserve::Never);
        let kept_at = if keeps_worktree {
            let kept = slot.preserve_at(&worktrees.join(id.as_str()), attempt, None)?;
            kept.to_string_lossy().into_owned()
        } else {
            slot.keep_commits_on_branch(&left.head)?;
            if uncommitted.is_some() && patch.is_none() {
                slot.save_to_ref(&release::failed_reference(job, &id), attempt)?
            } else {
                String::new()
            }
        };
        let branch = (commits > 0 || keeps_worktree).then_some(branch);
        let behind = AttemptArtifacts { branch, commits, uncommitted, patch };
        self.emit_preserved_worktree(id, kept_at, FAILED, Some(behind));
        Ok(())
    }

    /// Returns the item whose branch this is, with the number of its last attempt, if it is not tried again and nothing says what it left.
    fn item_of_branch(&self, branch: &str) -> Option<(ItemId, u32)> {
        let map = self.job.map.as_ref()?;
        let id = branch.strip_prefix("prodigy/")?.strip_prefix(self.parts.id.as_str())?;
        let (at, item) = map.find(&id.strip_prefix('/')?.parse().ok()?)?;
        let has_failed = matches!(item.stage, ItemStage::DeadLettered | ItemStage::Skipped);
        let is_given_up = item.lost >= POISON || item.has_open_effects();
        let attempt = if has_failed { item.attempts } else { item.attempts.saturating_add(1) };
        let is_ours = (has_failed || is_given_up) && !map.secured.contains(&at);
        is_ours.then(|| (item.id.clone(), attempt))
    }

    fn emit_preserved_worktree(
        &mut self,
        id: ItemId,
        path: String,
        reason: &str,
        left: Option<AttemptArtifacts>,
    ) {
        let (reason, left) = (reason.to_owned(), left.map(Box::new));
        let event = Event::WorktreePreserved { path, reason, left };
        self.inputs.push_back(JobInput::Inside(NewEvent {
            agent_id: None,
            item_id: Some(id),
            event,
        }));
    }

    /// Adds where the commits are of items that fail because these conflict; it is recorded
    /// before that they failed.
    pub(crate) fn with_unmerged_commits(
        &self,
        facts: Vec<NewEvent>,
    ) -> Result<Vec<NewEvent>, Error> {
        let mut all = Vec::with_capacity(facts.len());
        for fact in facts {
            if let (Event::ItemDeadLettered { failure, .. }, Some(id)) =
                (&fact.event, &fact.item_id)
                && failure.kind == ReasonCode::MergeConflict
            {
                all.extend(self.unmerged_commits_event(id)?);
            }
            all.push(fact);
        }
        Ok(all)
    }

    /// Says where the commits of an item are that cannot be merged.
    fn unmerged_commits_event(&self, id: &ItemId) -> Result<Option<NewEvent>, Error> {
        let branch = item_branch(&self.parts.id, id);
        let commits = self.count_unmerged(&branch)?;
        if commits == 0 {
            return Ok(None);
        }
        let left =
            AttemptArtifacts { branch: Some(branch), commits, ..AttemptArtifacts::default() };
        let event = Event::WorktreePreserved {
            path: String::new(),
            reason: "its commits are on its branch".to_owned(),
            left: Some(Box::new(left)),
        };
        Ok(Some(NewEvent { agent_id: None, item_id: Some(id.clone()), event }))
    }

    /// Returns how many commits of an item's branch the job's branch has not.
    fn count_unmerged(&self, branch: &str) -> Result<u64, Error> {
        let repo = &self.parts.settings.repo;
        let Some(tip) = repo.branch_tip(branch)? else { return Ok(0) };
        let target = format!("refs/heads/{}", actions::job_branch(&self.parts.id));
        Ok(repo.count_missing_from(&[tip], &target)? as u64)
    }
}

/// Says why the worktree of an item is kept.
fn keep_reason(stage: &ItemStage) -> &'static str {
    match stage {
        ItemStage::DeadLettered | ItemStage::Skipped => FAILED,
        ItemStage::Pending
        | ItemStage::Waiting { .. }
        | ItemStage::Running { .. }
        | ItemStage::Handling { .. }
        | ItemStage::Unhandled(_)
        | ItemStage::Merging(_)
        | ItemStage::Conflicted(_)
        | ItemStage::Resolving { .. }
        | ItemStage::Successful => "prodigy was cut off when it had kept it",
    }
}
