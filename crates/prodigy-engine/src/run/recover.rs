//! What is found of failed items that nobody could say anything about when they failed.

use std::path::Path;

use prodigy_core::{
    event::{Event, Fact, LeftBehind, Record},
    failure::FailureKind,
    ids::{AgentId, ItemId},
    job::{Input, POISON, Stage},
    workflow::Preserve,
};

use super::{Error, Run, crew::item_branch, parts::Parts, perform, put_away};

impl Run {
    /// Records the worktrees of failed items that an earlier run kept without getting to say
    /// so, keeps that of an item which ended the run, and removes what else its agents left.
    pub(super) fn recover_worktrees(&mut self, worktrees: &Path) -> Result<(), Error> {
        let (Some(map), Ok(entries)) = (&self.job.map, std::fs::read_dir(worktrees)) else {
            return Ok(());
        };
        let (mut kept, mut later, mut slots) = (Vec::new(), Vec::new(), Vec::new());
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.parse::<AgentId>().is_ok() {
                slots.push((name, entry.path()));
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
            let failed = matches!(item.stage, Stage::DeadLettered | Stage::Skipped);
            if failed && !map.kept.contains(&at) {
                kept.push((item.id.clone(), entry.path()));
            }
        }
        for path in later {
            self.parts.settings.repo.repair_worktree(&path)?;
        }
        for (id, path) in kept {
            self.parts.settings.repo.repair_worktree(&path)?;
            self.tell_found(id, &path, None);
        }
        for (name, path) in slots {
            if let Err(error) = self.keep_poison(&name, &path, worktrees) {
                let path = path.display();
                self.parts.note(&format!("warning: `{path}` could not be kept: {error}"));
            }
            self.parts.settings.repo.remove_job_worktree(&path, &name, true)?;
        }
        Ok(())
    }

    /// Keeps an agent's worktree if prodigy died too often while its item was under way: the
    /// item is not tried again, so that nothing else shows what happened.
    fn keep_poison(&mut self, name: &str, place: &Path, worktrees: &Path) -> Result<(), Error> {
        let policy = self.parts.policy.as_ref().map(|policy| policy.preserve_worktrees);
        let Some(map) = self.job.map.as_ref().filter(|_| policy != Some(Preserve::Never)) else {
            return Ok(());
        };
        let suspects = map.items.iter().filter(|item| item.lost >= POISON);
        let suspects: Vec<_> =
            suspects.map(|item| (item.id.clone(), item.attempts.saturating_add(1))).collect();
        if suspects.is_empty() {
            return Ok(());
        }
        let repo = self.parts.settings.repo.clone();
        let Some(tree) = repo.find_job_worktree(place, name)? else { return Ok(()) };
        // What it is on may have been left half written.
        let Ok(Some(branch)) = tree.checked_out() else { return Ok(()) };
        let found = suspects.into_iter().find(|(id, _)| item_branch(&self.parts.id, id) == branch);
        let Some((id, attempt)) = found else { return Ok(()) };
        let base = repo.commit(&format!("refs/heads/{}", perform::branch(&self.parts.id)))?;
        let Some(mut slot) = repo.find_slot(place, &branch, &base)? else { return Ok(()) };
        let Ok(left) = slot.examine() else { return Ok(()) };
        if left.uncommitted.is_empty() && left.commits == 0 {
            return Ok(());
        }
        let Parts { settings, mask, id: job, .. } = &self.parts;
        let patches = put_away::Patches { layout: &settings.layout, job, mask };
        let (uncommitted, patch) = patches.uncommitted(&slot, &id, &left);
        let kept = slot.keep_as(&worktrees.join(id.as_str()), attempt, None)?;
        let (branch, commits) = (Some(branch), left.commits);
        self.tell_found(id, &kept, Some(LeftBehind { branch, commits, uncommitted, patch }));
        Ok(())
    }

    fn tell_found(&mut self, id: ItemId, path: &Path, left: Option<LeftBehind>) {
        let (path, reason) = (path.to_string_lossy().into_owned(), "the item failed".to_owned());
        let event = Event::WorktreePreserved { path, reason, left: left.map(Box::new) };
        self.inputs.push_back(Input::Inside(Fact { agent_id: None, item_id: Some(id), event }));
    }

    /// Says where the commits of an item are that was given up because they conflict.
    pub(super) fn tell_unmerged(&mut self, record: &Record) -> Result<(), Error> {
        let (Event::ItemDeadLettered { failure, .. }, Some(id)) = (&record.event, &record.item_id)
        else {
            return Ok(());
        };
        if failure.kind != FailureKind::MergeConflict {
            return Ok(());
        }
        let branch = item_branch(&self.parts.id, id);
        let commits = self.count_unmerged(&branch)?;
        if commits == 0 {
            return Ok(());
        }
        let left = LeftBehind { branch: Some(branch), commits, ..LeftBehind::default() };
        let event = Event::WorktreePreserved {
            path: String::new(),
            reason: "its commits are on its branch".to_owned(),
            left: Some(Box::new(left)),
        };
        let fact = Fact { agent_id: None, item_id: Some(id.clone()), event };
        self.inputs.push_back(Input::Inside(fact));
        Ok(())
    }

    /// Returns how many commits of an item's branch the job's branch has not.
    fn count_unmerged(&self, branch: &str) -> Result<u64, Error> {
        let repo = &self.parts.settings.repo;
        let Some(tip) = repo.branch(branch)? else { return Ok(0) };
        let target = format!("refs/heads/{}", perform::branch(&self.parts.id));
        Ok(repo.missing_from(&[tip], &target)? as u64)
    }
}
