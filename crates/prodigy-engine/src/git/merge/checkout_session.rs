//! Bringing a checkout and its branch to a merge, so that a kill at any moment loses nothing.
//!
//! ```text
//! recorded ─▶ index.lock ─▶ examined ─▶ new files beside, old ones linked ─▶ branch locked
//!          ─▶ files in their places ─▶ branch moved ─▶ index in its place ─▶ locks given back
//! ```
//!
//! Until the branch moves everything can be put back, and what cannot be finished is put back
//! at once. From then on only the index is missing. So whoever takes the job up looks at the
//! branch: if it has the new commit, the rest is done; if not, all is undone.

use std::{fs, path::Path};

use prodigy_core::event::CheckoutUpdate;

use super::{
    branch_move::BranchMove,
    checkout_update::{self, BlockingPaths, BranchCheckout, copy_index, refresh},
    file_moves::rename,
    job_merge::{MergeOutcome, MergeRequest},
    restore_result::RestoredResult,
    staging::{ConcurrentChange, StagingDir, UpdatePlan},
};
use crate::git::{
    Error, Repo,
    command::GitDirs,
    index_lock::{IndexLock, IndexLockHolder},
    isolation::isolated_git_dir::read_regular_or_empty,
    locks::RepoLock,
    worktree::remove,
};

/// A checkout whose index is locked, so that nobody else changes it by git.
pub(crate) struct CheckoutSession<'a> {
    seat: BranchCheckout<'a>,
    request: &'a MergeRequest,
    staging: StagingDir,
    lock: IndexLock,
}

/// The end of one attempt to update a checkout.
pub(crate) enum CheckoutUpdateOutcome {
    Done,
    /// The branch moved before it could be locked. Nothing was changed.
    Moved,
    /// It cannot be done. Nothing was changed.
    Refused(MergeOutcome),
}

/// The result of recovering an interrupted update of a checkout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckoutRecovery {
    /// Nothing had been changed.
    Untouched,
    /// The branch had moved: files and index are as it says now.
    Finished {
        /// The result that a commit made meanwhile had reverted.
        restored: Option<RestoredResult>,
    },
    /// The branch had not moved: the files are what they were.
    Undone {
        /// The files that somebody changed since, which were left alone.
        kept: Vec<String>,
    },
}

impl CheckoutRecovery {
    /// Says it to people; nothing if nothing had been changed.
    pub fn message(&self) -> Option<String> {
        match self {
            Self::Untouched => None,
            Self::Finished { restored: None } => {
                Some("the update of your checkout was cut off; it is complete now".to_owned())
            }
            Self::Finished { restored: Some(restored) } => Some(format!(
                "the update of your checkout was cut off; it is complete now: {}",
                restored.message()
            )),
            Self::Undone { kept } if kept.is_empty() => {
                Some("the update of your checkout was cut off; it has been undone".to_owned())
            }
            Self::Undone { kept } => Some(format!(
                "the update of your checkout was cut off; it has been undone, except in files that you changed since: {}",
                kept.join(", ")
            )),
        }
    }
}

impl<'a> CheckoutSession<'a> {
    /// Locks the index of a checkout; if that cannot be, returns why.
    pub(crate) fn begin(
        repo: &'a Repo,
        place: &'a GitDirs,
        request: &'a MergeRequest,
    ) -> Result<Result<Self, String>, Error> {
        let lock = match IndexLock::acquire(&place.git_dir, &request.source_branch)? {
            Ok(lock) => lock,
            Err(holder) => return Ok(Err(holder.message(&place.work_tree))),
        };
        let staging = StagingDir::of(place, &request.source_branch);
        Ok(Ok(Self { seat: BranchCheckout { repo, place }, request, staging, lock }))
    }

    /// Brings files, branch and index from the old commit to the new one.
    pub(crate) fn update(
        &mut self,
        update: &CheckoutUpdate,
    ) -> Result<CheckoutUpdateOutcome, Error> {
        let commits = (update.old.as_str(), update.new.as_str());
        let plan = match self.stage(update, commits) {
            Ok(Ok(plan)) => plan,
            Ok(Err(outcome)) => return self.abandon(outcome),
            Err(error) => return self.abandon(refused(&error)),
        };
        let target = &self.request.target_branch;
        let locked =
            BranchMove::prepare(self.seat, target, commits, &self.request.reflog_message());
        let mut branch = match locked {
            Ok(branch) => branch,
            Err(error) => {
                if self.tip()?.as_deref() == Some(commits.0) {
                    return self.abandon(refused(&error));
                }
                self.staging.remove()?;
                return Ok(CheckoutUpdateOutcome::Moved);
            }
        };
        self.lock.set_kept(true);
        let refusal = match self.apply(&plan) {
            Ok(Ok(())) => match branch.commit() {
                Ok(()) => None,
                Err(error) => {
                    // Only when its git is gone does the branch stand still.
                    drop(branch);
                    (self.tip()?.as_deref() != Some(commits.1)).then(|| refused(&error))
                }
            },
            Ok(Err(ConcurrentChange { path })) => {
                branch.abort()?;
                Some(MergeOutcome::DirtyTarget { paths: vec![path] })
            }
            Err(error) => {
                branch.abort()?;
                Some(refused(&error))
            }
        };
        if let Some(outcome) = refusal {
            let paths = self.staging.undo(self.seat, &plan)?;
            self.lock.set_kept(false);
            let is_whole = paths.is_empty();
            return self.abandon(if is_whole {
                outcome
            } else {
                MergeOutcome::DirtyTarget { paths }
            });
        }
        install_index(self.seat, &self.staging.index())?;
        self.lock.set_kept(false);
        self.staging.remove()?;
        Ok(CheckoutUpdateOutcome::Done)
    }

    /// Puts the files in their places, and makes the index ready: once the branch has moved, it
    /// must follow at once.
    fn apply(&self, plan: &UpdatePlan) -> Result<Result<(), ConcurrentChange>, Error> {
        let applied = self.staging.apply(self.seat, plan)?;
        if applied.is_ok() {
            refresh(self.seat, &self.staging.index())?;
        }
        Ok(applied)
    }

    /// Gives the lock back.
    pub(crate) fn end(self) -> Result<(), Error> {
        self.lock.release()
    }

    /// Examines the checkout and makes everything ready beside it.
    fn stage(
        &self,
        update: &CheckoutUpdate,
        commits: (&str, &str),
    ) -> Result<Result<UpdatePlan, MergeOutcome>, Error> {
        let paths = self.in_progress()?;
        if !paths.is_empty() {
            return Ok(Err(MergeOutcome::DirtyTarget { paths }));
        }
        self.staging.create(update)?;
        let scratch = self.staging.scratch_index();
        let examined = match checkout_update::examine(self.seat, commits.0, commits.1, &scratch)? {
            Ok(examined) => examined,
            Err(BlockingPaths { paths }) => return Ok(Err(MergeOutcome::DirtyTarget { paths })),
        };
        let changed = |ConcurrentChange { path }| MergeOutcome::DirtyTarget { paths: vec![path] };
        Ok(self.staging.write_files(self.seat, &examined, commits)?.map_err(changed))
    }

    fn abandon(&self, outcome: MergeOutcome) -> Result<CheckoutUpdateOutcome, Error> {
        self.staging.remove()?;
        Ok(CheckoutUpdateOutcome::Refused(outcome))
    }

    fn tip(&self) -> Result<Option<String>, Error> {
        self.seat.repo.branch_tip(&self.request.target_branch)
    }

    /// Returns the signs that the user is in the middle of something in the checkout.
    fn in_progress(&self) -> Result<Vec<String>, Error> {
        let signs =
            ["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply"];
        let is_there = |sign: &&str| self.seat.place.git_dir.join(sign).exists();
        let GitDirs { git_dir, common_dir, .. } = self.seat.place;
        let is_main = git_dir == common_dir;
        let shown = |sign: &str| {
            if is_main { format!(".git/{sign}") } else { git_dir.join(sign).display().to_string() }
        };
        let mut found: Vec<_> = signs.into_iter().filter(is_there).map(shown).collect();
        if found.is_empty() && !self.seat.has_branch(&self.request.target_branch)? {
            found.push(shown("HEAD"));
        }
        Ok(found)
    }
}

impl Repo {
    /// Finishes or undoes an update of a checkout that was cut off by a kill.
    ///
    /// `source_branch` is the branch of the job whose update it is, `recorded` the update that
    /// its journal tells of. If that is lost, or the checkout was moved since, all working trees
    /// are searched for one.
    pub fn recover_checkout(
        &self,
        source_branch: &str,
        recorded: Option<&CheckoutUpdate>,
    ) -> Result<CheckoutRecovery, Error> {
        let _lock = RepoLock::acquire(self.common_dir())?;
        let recorded_place = match recorded {
            Some(update) => self.work_tree_at(Path::new(&update.worktree))?,
            None => None,
        };
        let places = match recorded_place {
            Some(place) => vec![place],
            None => self.work_trees()?,
        };
        for place in places {
            let seat = BranchCheckout { repo: self, place: &place };
            let recovery = self.recover(seat, source_branch, recorded)?;
            if recovery != CheckoutRecovery::Untouched {
                return Ok(recovery);
            }
        }
        Ok(CheckoutRecovery::Untouched)
    }

    fn recover(
        &self,
        seat: BranchCheckout<'_>,
        source_branch: &str,
        recorded: Option<&CheckoutUpdate>,
    ) -> Result<CheckoutRecovery, Error> {
        let GitDirs { git_dir, work_tree, .. } = seat.place;
        let staging = StagingDir::of(seat.place, source_branch);
        let was_locked = IndexLock::is_held_by(git_dir, source_branch)?;
        if !was_locked && !staging.exists() {
            return Ok(CheckoutRecovery::Untouched);
        }
        let lock = match IndexLock::acquire(git_dir, source_branch)? {
            Ok(lock) => lock,
            Err(holder) => return Err(Error::CheckoutBusy { reason: holder.message(work_tree) }),
        };
        let known = staging.read_update()?.or_else(|| recorded.cloned());
        let recovery = match (staging.read_plan()?, known) {
            (Some(plan), Some(update)) => {
                if was_locked {
                    remove_branch_locks(seat, &update)?;
                }
                self.complete_update(seat, &staging, &plan, &update)?
            }
            // Nothing is changed before there is a plan.
            (_, _) => CheckoutRecovery::Untouched,
        };
        staging.remove()?;
        lock.release()?;
        Ok(recovery)
    }

    /// Completes an update whose branch has moved, or undoes it.
    fn complete_update(
        &self,
        seat: BranchCheckout<'_>,
        staging: &StagingDir,
        plan: &UpdatePlan,
        update: &CheckoutUpdate,
    ) -> Result<CheckoutRecovery, Error> {
        if !self.has_moved(update)? {
            return Ok(CheckoutRecovery::Undone { kept: staging.undo(seat, plan)? });
        }
        // As long as the new index is not in its place, whoever removes the lock commits from the
        // old one. The lock tells nothing: a recovery that was cut off has taken it again.
        let is_outdated = staging.index().exists();
        let restored = if is_outdated { self.restore_result(staging, update)? } else { None };
        // Whoever removed the lock and went elsewhere has nothing of it in the files.
        if seat.has_branch(&update.target)? {
            finish_update(seat, staging, plan, update)?;
        }
        Ok(CheckoutRecovery::Finished { restored })
    }

    /// Returns whether the branch of an update has its new commit.
    fn has_moved(&self, update: &CheckoutUpdate) -> Result<bool, Error> {
        match self.branch_tip(&update.target)? {
            Some(tip) => self.is_ancestor(&update.new, &tip),
            None => Ok(false),
        }
    }
}

impl IndexLockHolder {
    /// Says who holds the lock, and what to do about it.
    fn message(&self, work_tree: &Path) -> String {
        match self {
            Self::Job(branch) => {
                let job = branch.strip_prefix("prodigy/").unwrap_or(branch);
                let job = job.strip_suffix("/job").unwrap_or(job);
                let work_tree = work_tree.display();
                format!(
                    "job `{job}` was ended while it updated `{work_tree}`; `prodigy resume {job}` completes that"
                )
            }
            Self::Other(path) => {
                let path = path.display();
                format!("`{path}` says that another git is at work; remove it if none is")
            }
        }
    }
}

fn refused(error: &Error) -> MergeOutcome {
    let mut reason = error.to_string();
    if let Some(source) = std::error::Error::source(error) {
        reason = format!("{reason}: {source}");
    }
    MergeOutcome::Refused { reason }
}

/// Gives a checkout its new index.
fn install_index(seat: BranchCheckout<'_>, index: &Path) -> Result<(), Error> {
    let real = seat.place.git_dir.join("index");
    rename(index, &real).map_err(Error::file("write", &real))
}

/// Does what is missing once the branch has moved.
fn finish_update(
    seat: BranchCheckout<'_>,
    staging: &StagingDir,
    plan: &UpdatePlan,
    update: &CheckoutUpdate,
) -> Result<(), Error> {
    staging.finish(seat, plan)?;
    // The lock may have been removed by hand, so that the index may have changed since.
    let index = staging.index();
    let lines = checkout_update::pending_index_lines(seat, &update.old, &update.new)?;
    if lines.is_empty() {
        return Ok(());
    }
    copy_index(seat, &index)?;
    let call = seat.call(&["update-index", "-z", "--index-info"]).index(&index);
    call.stdin(lines).run()?;
    refresh(seat, &index)?;
    install_index(seat, &index)
}

/// Removes the locks on branch and `HEAD` that the git of a killed update left.
///
/// A lock on the branch is known by the commit that it would move to. One on `HEAD` is empty;
/// it is taken for ours if it was made while we held the index.
fn remove_branch_locks(seat: BranchCheckout<'_>, update: &CheckoutUpdate) -> Result<(), Error> {
    let branch = seat.place.common_dir.join(format!("refs/heads/{}.lock", update.target));
    if read_regular_or_empty(&branch)? == format!("{}\n", update.new).as_bytes() {
        remove(&branch)?;
    }
    let time = |path: &Path| fs::symlink_metadata(path).and_then(|found| found.modified()).ok();
    let head = seat.place.git_dir.join("HEAD.lock");
    let since = time(&seat.place.git_dir.join("index.lock"));
    if time(&head).is_some_and(|made| since.is_some_and(|since| made >= since))
        && read_regular_or_empty(&head)?.is_empty()
    {
        remove(&head)?;
    }
    Ok(())
}
