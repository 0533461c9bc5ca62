//! Suspending work that a limit or a budget cut off, and going on with it.
//!
//! The worktree stays where it is, with everything in it, and the progress is stored beside the
//! job's state. Only then is it recorded that the work is suspended: whoever resumes it finds both.

use std::{fs, path::PathBuf, sync::Arc};

use prodigy_core::{
    event::{WorkSuspended, WorktreeSnapshot},
    failure::Failure,
    ids::{ItemId, JobId},
    job::{MapState, SuspendedWork},
    workflow::Isolation,
};

use super::{
    worker::{Worker, blocking},
    worker_pool::item_branch,
};
use crate::{
    git::Worktree,
    queue::AttemptOutcome,
    run::Dispatcher,
    step::{SavedProgress, StepContext, StepOwner},
    store::{self, Layout},
};

/// The longest stored progress that is read; what is longer starts over.
const PROGRESS_LIMIT: u64 = 256 * 1024 * 1024;

/// The name of the progress of a step of the job.
const STEP: &str = "job-step";

/// Work that goes on: where, and from which commit its item began.
pub(crate) struct ResumedWork {
    pub(crate) workplace: StepContext,
    pub(crate) base: String,
}

impl Worker {
    /// Keeps what an attempt or a handler has that was cut off, and returns what is recorded of
    /// it. What cannot be kept starts over.
    pub(crate) async fn suspend(&mut self, id: &ItemId, workplace: &StepContext) -> WorkSuspended {
        let progress = workplace.progress();
        let lost = WorkSuspended { counted: progress.is_served(), ..WorkSuspended::default() };
        let mut saved = workplace.save_progress();
        saved.kept.clone_from(&self.kept);
        if self.crew.map.isolation == Isolation::Worktree {
            let Some((snapshot, base)) = self.record_worktree(id).await else { return lost };
            (saved.snapshot, saved.base) = (Some(snapshot), base);
        }
        if store_progress(&self.crew.tools.layout, &self.crew.job, id.as_str(), &saved).is_err() {
            return lost;
        }
        self.is_suspended = true;
        let finished_steps = progress.finished_steps();
        WorkSuspended { snapshot: saved.snapshot, finished_steps, ..lost }
    }

    /// Keeps suspended work that went on and was stopped by a person: it goes back to where it was
    /// suspended.
    pub(crate) fn keep_suspended(&mut self, outcome: &AttemptOutcome) {
        let is_stopped = match outcome {
            AttemptOutcome::Released => true,
            // Whoever stops a run may end git and supervisors with it.
            AttemptOutcome::Failed { .. } => self.crew.tools.stop.is_requested(),
            AttemptOutcome::Completed(_)
            | AttemptOutcome::CutOff { .. }
            | AttemptOutcome::Handled { .. }
            | AttemptOutcome::Resolved { .. }
            | AttemptOutcome::Unresolved { .. } => false,
        };
        self.is_suspended |= self.is_resumed && is_stopped;
    }

    /// Records the worktree under a reference, from which it is brought back if it is lost.
    async fn record_worktree(&mut self, id: &ItemId) -> Option<(WorktreeSnapshot, String)> {
        let slot = self.slot.take()?;
        let reference = suspended_reference(&self.crew.job, id);
        let recorded = blocking(move || {
            slot.save_over_ref(&reference)?;
            let snapshot = slot.snapshot_at_ref(&reference)?;
            let base = slot.base().to_owned();
            Ok((slot, snapshot.map(|snapshot| (snapshot, base))))
        });
        let (slot, recorded) = recorded.await.ok()?;
        self.slot = Some(slot);
        recorded
    }

    /// Goes on with work that was cut off; `None` if it has to start over.
    pub(crate) async fn resume_work(
        &mut self,
        identity: &StepOwner,
        work: Option<&SuspendedWork>,
    ) -> Option<ResumedWork> {
        let (work, item) = (work?, identity.item.as_ref()?);
        let (layout, job) = (&self.crew.tools.layout, &self.crew.job);
        let saved = load_progress(layout, job, item.id.as_str(), work)?;
        let temporary = self.crew.tools.state.join("tmp").join(self.agent.to_string());
        store::create_dir(&temporary).ok()?;
        let mut is_as_left = work.starts <= 1;
        if self.crew.map.isolation == Isolation::Worktree {
            let branch = item_branch(&self.crew.job, &item.id);
            is_as_left &= self.reopen_worktree(&branch, &saved, is_as_left).await.ok()?;
        }
        self.kept.clone_from(&saved.kept);
        let base = saved.base.clone();
        let workplace = self.step_context(identity.clone());
        workplace.resume_work(saved, is_as_left);
        self.is_resumed = true;
        Some(ResumedWork { workplace, base })
    }

    /// Opens the worktree that holds suspended work, and brings it back to how it was left if
    /// anything may have changed it since; returns whether it had been there all the time.
    async fn reopen_worktree(
        &mut self,
        branch: &str,
        saved: &SavedProgress,
        is_as_left: bool,
    ) -> Result<bool, Failure> {
        let (repo, path) = (self.crew.repo.clone(), self.path());
        let (branch, saved) = (branch.to_owned(), saved.clone());
        let here = self.slot.take();
        let reopened = blocking(move || {
            let found = match here {
                Some(slot) => Some(slot),
                // One that git cannot work with is made again, too.
                None => repo.find_slot(&path, &branch, &saved.base).ok().flatten(),
            };
            let is_found = found.is_some();
            let mut slot = match found {
                Some(slot) => slot,
                None => repo.create_slot(&path, &branch, &saved.base)?,
            };
            if let Some(snapshot) = saved.snapshot.as_ref().filter(|_| !is_found || !is_as_left) {
                slot.tree().restore(snapshot)?;
            }
            slot.resume(&saved.kept);
            Ok((slot, is_found))
        });
        let (slot, is_found) = reopened.await?;
        self.slot = Some(slot);
        Ok(is_found)
    }

    /// Forgets the progress of an item whose work is not suspended any more.
    pub(crate) async fn forget_progress(&self, id: &ItemId) {
        let directory = self.crew.tools.layout.progress_dir(&self.crew.job, id.as_str());
        // What is left of it is not believed: nothing records it.
        if fs::remove_dir_all(directory).is_err() {
            return;
        }
        let (repo, reference) = (self.crew.repo.clone(), suspended_reference(&self.crew.job, id));
        blocking(move || repo.delete_job_references(&[reference])).await.ok();
    }
}

impl Dispatcher {
    /// Says that suspended work starts over because the workflow has other steps now, and where it
    /// is kept.
    pub(crate) fn note_lost_suspensions(&mut self) {
        let items = self.job.map.as_ref().map_or(0, MapState::suspended);
        if items > 0 {
            let who = if items == 1 { "item starts" } else { "items start" };
            let note = format!(
                "the steps have changed: {items} suspended {who} over; `git for-each-ref refs/prodigy/{}/suspended` names what was done",
                self.parts.id
            );
            self.parts.note(&note);
        }
        if self.job.suspended.is_some() {
            self.parts.note("the steps have changed: the suspended step starts over");
        }
    }
}

/// Suspends a step of the job that was cut off, and returns what is recorded of it.
pub(crate) async fn suspend_step(
    workplace: &Arc<StepContext>,
    step: &str,
    tree: Worktree,
) -> WorkSuspended {
    let progress = workplace.progress();
    let (step, counted) = (Some(step.to_owned()), progress.is_served());
    let lost = WorkSuspended { step, counted, ..WorkSuspended::default() };
    let snapshot = blocking(move || tree.snapshot()).await.ok();
    let mut saved = workplace.save_progress();
    saved.snapshot.clone_from(&snapshot);
    let (layout, job) = (&workplace.tools.layout, &workplace.identity.job);
    if snapshot.is_none() || store_progress(layout, job, STEP, &saved).is_err() {
        return lost;
    }
    WorkSuspended { snapshot, finished_steps: progress.finished_steps(), ..lost }
}

/// Returns the progress of a step of the job that was cut off.
pub(crate) fn load_step(
    layout: &Layout,
    job: &JobId,
    work: Option<&SuspendedWork>,
) -> Option<SavedProgress> {
    load_progress(layout, job, STEP, work?)
}

/// Returns the reference that holds the worktree of an item whose work is suspended.
fn suspended_reference(job: &JobId, item: &ItemId) -> String {
    format!("refs/prodigy/{job}/suspended/{item}")
}

/// Returns the file with the progress that belongs to a state of the worktree. Until a newer one is
/// recorded, the one before is needed.
fn progress_file(
    layout: &Layout,
    job: &JobId,
    name: &str,
    snapshot: Option<&WorktreeSnapshot>,
) -> PathBuf {
    let state = snapshot.map_or("shared", |snapshot| snapshot.files.as_str());
    let head = snapshot.map_or("", |snapshot| snapshot.head.as_str());
    let head: String = head.chars().take(12).collect();
    layout.progress_dir(job, name).join(format!("{state}-{head}.json"))
}

fn store_progress(
    layout: &Layout,
    job: &JobId,
    name: &str,
    saved: &SavedProgress,
) -> Result<(), store::Error> {
    let file = progress_file(layout, job, name, saved.snapshot.as_ref());
    if let Some(directory) = file.parent() {
        store::create_dir(directory)?;
    }
    let encode = |error: serde_json::Error| {
        let reason = error.to_string();
        store::Error::Encode { path: file.clone(), reason }
    };
    store::write_atomic(&file, &serde_json::to_vec(saved).map_err(encode)?)
}

fn load_progress(
    layout: &Layout,
    job: &JobId,
    name: &str,
    work: &SuspendedWork,
) -> Option<SavedProgress> {
    let file = progress_file(layout, job, name, work.snapshot.as_ref());
    let text = store::read_bounded(&file, PROGRESS_LIMIT).ok()??;
    let saved: SavedProgress = serde_json::from_slice(&text).ok()?;
    // One of another worktree says nothing of this one.
    Some(saved).filter(|saved| saved.snapshot == work.snapshot)
}
