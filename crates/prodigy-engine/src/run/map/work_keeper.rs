//! Keeping what successful items, and the job itself, leave outside of their commits.

use std::collections::BTreeSet;

use prodigy_core::{
    event::{Event, KeptWork, NewEvent},
    failure::Failure,
    ids::{ItemId, JobId, OWN_STEPS},
    job::JobInput,
    mask::Mask,
    workflow::{Body, Isolation, Leftovers, Workflow},
};

use super::worker::{Worker, blocking};
use crate::{
    git::{
        self, CommitResult, CommitScope, KeepRequest, KeptFiles, Worktree, WorktreeSlot,
        WorktreeStatus,
    },
    run::{Dispatcher, Error, dispatcher::actions},
    step::{commit_trailer, infrastructure_failure},
    store::{Layout, write_projection},
};

/// The name of what the job's own steps leave.
const JOB: &str = "job";

/// The name of what the setup leaves in files that items have changed since.
const SETUP: &str = "job.setup";

/// The place where the work of one item, or of the job, is kept.
struct WorkKeeper {
    layout: Layout,
    job: JobId,
    mask: Mask,
    /// The item, [`JOB`] or [`SETUP`].
    name: String,
    /// The item's name, or the one that stands for the job's own steps.
    trailer: String,
}

impl Worker {
    /// Keeps what a successful attempt left outside of its commits, and brings `left` to what is
    /// in its worktree then.
    pub(crate) async fn keep_work(
        &mut self,
        id: &ItemId,
        left: &mut WorktreeStatus,
    ) -> Result<(), Failure> {
        let Some(mut slot) = self.slot.take() else { return Ok(()) };
        let policy = self.crew.map.leftovers;
        let keeper = WorkKeeper {
            layout: self.crew.tools.layout.clone(),
            job: self.crew.job.clone(),
            mask: self.crew.mask.clone(),
            name: id.to_string(),
            trailer: id.to_string(),
        };
        let (brought, mut now) = (self.kept.clone(), left.clone());
        let (slot, now, kept) = blocking(move || {
            let kept = keeper.keep(&mut slot, &mut now, policy, &brought);
            Ok((slot, now, kept))
        })
        .await?;
        // Whatever could not be kept is still in there.
        (self.slot, *left) = (Some(slot), now);
        if let Some(kept) = kept.map_err(|error| infrastructure_failure(&error))? {
            let (agent_id, item_id) = (Some(self.agent), Some(id.clone()));
            self.crew.tools.emit(NewEvent { agent_id, item_id, event: Event::WorkKept(kept) });
        }
        Ok(())
    }
}

impl WorkKeeper {
    /// Keeps what an item left in its worktree, or commits it.
    fn keep(
        &self,
        slot: &mut WorktreeSlot,
        left: &mut WorktreeStatus,
        policy: Leftovers,
        brought: &[String],
    ) -> Result<Option<Box<KeptWork>>, git::Error> {
        if policy == Leftovers::Commit && !left.uncommitted.is_empty() {
            let scope = CommitScope { before: &[], kept: brought };
            slot.tree().commit_uncommitted(&self.message("Commit"), scope)?;
            *left = slot.inspect()?;
        }
        let mut kept = self.name_stray_commits(slot.tree(), &left.head)?;
        if !left.uncommitted.is_empty() && policy != Leftovers::Discard {
            let (reference, message) = (self.reference(), self.message("Keep"));
            let request =
                KeepRequest { reference: &reference, message: &message, mask: &self.mask };
            let files = slot.keep_uncommitted(left, request)?;
            self.describe(&mut kept, files);
            let lost = left.uncommitted.iter().filter(|file| file.is_repository());
            kept.not_kept = lost.map(|file| file.path.clone()).collect();
        }
        Ok(Some(kept).filter(|kept| *kept != KeptWork::default()).map(Box::new))
    }

    /// Gives names to commits that were made in a worktree and left there.
    fn name_stray_commits(&self, tree: &Worktree, head: &str) -> Result<KeptWork, git::Error> {
        let tips = tree.stray_commits(head)?;
        let name = format!("refs/prodigy/{}/stray/{}", self.job, self.name);
        let stray_commits = tree.repo().name_stray_commits(&tips, &name)?;
        Ok(KeptWork { stray_commits, ..KeptWork::default() })
    }

    /// Writes the patch of files that are kept, and says where they are.
    fn describe(&self, kept: &mut KeptWork, files: Option<KeptFiles>) {
        let Some(KeptFiles { paths, patch }) = files else { return };
        kept.reference = Some(self.reference());
        kept.files = u32::try_from(paths.len()).unwrap_or(u32::MAX);
        let patch = patch.filter(|patch| patch.left_out.is_empty() && !patch.bytes.is_empty());
        kept.patch = patch.and_then(|patch| {
            let file = self.layout.kept_patch(&self.job, &self.name);
            let file = std::path::absolute(&file).unwrap_or(file);
            // The reference has it all; a patch that cannot be written is not told of.
            write_projection(&file, &patch.bytes).ok()?;
            Some(file.to_string_lossy().into_owned())
        });
    }

    fn reference(&self) -> String {
        format!("refs/prodigy/{}/kept/{}", self.job, self.name)
    }

    /// Returns the message of a commit of what was left.
    fn message(&self, verb: &str) -> String {
        let Self { job, name, trailer: item, .. } = self;
        format!("{verb} what {name} left uncommitted\n\n{}\n", commit_trailer(job, item))
    }
}

impl Dispatcher {
    fn work_keeper(&self, name: &str) -> WorkKeeper {
        WorkKeeper {
            layout: self.parts.settings.layout.clone(),
            job: self.parts.id.clone(),
            mask: self.parts.mask.clone(),
            name: name.to_owned(),
            trailer: OWN_STEPS.to_owned(),
        }
    }

    /// Commits what is uncommitted in the job's worktree, if the workflow says so.
    ///
    /// More than is committed automatically stays, and is kept when the worktree is removed.
    pub(crate) fn commit_leftovers(&mut self) -> Result<(), Error> {
        if leftovers_of(&self.parts.settings.workflow) != Leftovers::Commit {
            return Ok(());
        }
        let (message, tree) = (self.work_keeper(JOB).message("Commit"), self.job_worktree()?);
        match tree.commit_uncommitted(&message, CommitScope::default())? {
            CommitResult::Nothing => {}
            CommitResult::Made(_) => self.parts.fingerprint = None,
            CommitResult::Refused(reason) => {
                self.parts.note(&format!("warning: leftovers are not committed: {reason}"));
            }
        }
        Ok(())
    }

    /// Keeps what the last step left uncommitted in files that are about to be put back to those
    /// of the job's branch.
    pub(crate) fn keep_setup_work(&mut self, tree: &Worktree) -> Result<(), Error> {
        let Some(snapshot) = self.job.last_snapshot() else { return Ok(()) };
        let keeper = self.work_keeper(SETUP);
        let (reference, message) = (keeper.reference(), keeper.message("Keep"));
        let request = KeepRequest { reference: &reference, message: &message, mask: &keeper.mask };
        let files = tree.keep_changed(&snapshot, request)?;
        let mut kept = KeptWork::default();
        keeper.describe(&mut kept, files);
        if kept != KeptWork::default() {
            self.append(vec![Event::WorkKept(Box::new(kept))])?;
        }
        Ok(())
    }

    /// Keeps what the job's worktree holds outside of its commits; returns whether all of it
    /// is safe.
    fn keep_job_work(&mut self, tree: &Worktree) -> Result<bool, Error> {
        let left = tree.uncommitted_paths()?;
        let keeper = self.work_keeper(JOB);
        let mut kept = keeper.name_stray_commits(tree, &tree.head()?)?;
        let mut safe = BTreeSet::new();
        if leftovers_of(&self.parts.settings.workflow) == Leftovers::Discard {
            safe.extend(left.iter().cloned());
        } else if !left.is_empty() {
            let (reference, message) = (keeper.reference(), keeper.message("Keep"));
            let request =
                KeepRequest { reference: &reference, message: &message, mask: &keeper.mask };
            let files = tree.keep_uncommitted(request)?;
            safe.extend(files.iter().flat_map(|files| files.paths.iter().cloned()));
            keeper.describe(&mut kept, files);
        }
        if kept != KeptWork::default() {
            self.append(vec![Event::WorkKept(Box::new(kept))])?;
        }
        let is_there = |path: &String| tree.path().join(path).symlink_metadata().is_ok();
        Ok(left.iter().all(|path| safe.contains(path) || !is_there(path)))
    }

    /// Removes the job's worktree once all that it holds is safe.
    pub(crate) fn clean_tree(&mut self) -> Result<(), Error> {
        let tree = match self.job_worktree() {
            Ok(tree) => tree,
            // The branch goes last: an earlier run was cut off when only the trash was left.
            Err(Error::Git(git::Error::NoSuchBranch { .. })) => return self.finish_cleaning(),
            Err(error) => return Err(error),
        };
        let path = tree.path().to_string_lossy().into_owned();
        if self.keep_job_work(&tree)? {
            let branch = actions::job_branch(&self.parts.id);
            self.parts.settings.repo.remove_job_worktree(tree.path(), &branch, false)?;
            self.inputs.push_back(JobInput::TreeCleaned { path });
        } else {
            let reason = "it holds files that git cannot keep".to_owned();
            self.inputs.push_back(JobInput::TreeKept { path, reason });
        }
        Ok(())
    }

    /// Removes what is left of a worktree whose branch is gone already.
    fn finish_cleaning(&mut self) -> Result<(), Error> {
        let path = self.parts.settings.layout.worktrees_dir(&self.parts.id).join(JOB);
        let branch = actions::job_branch(&self.parts.id);
        self.parts.settings.repo.remove_job_worktree(&path, &branch, false)?;
        let path = path.to_string_lossy().into_owned();
        self.inputs.push_back(JobInput::TreeCleaned { path });
        Ok(())
    }
}

/// Returns what becomes of files that are uncommitted in the job's own worktree.
///
/// Items that share it leave theirs there; otherwise `map.leftovers` is about the items alone.
fn leftovers_of(workflow: &Workflow) -> Leftovers {
    match &workflow.body {
        Body::Sequential { leftovers, .. } => *leftovers,
        Body::MapReduce(body) => match body.map.isolation {
            Isolation::Shared => body.map.leftovers,
            Isolation::Worktree => Leftovers::Keep,
        },
    }
}
