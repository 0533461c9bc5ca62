//! An agent resolves the conflict of an item, and its work is looked at.

use std::time::Instant;

use prodigy_core::{
    event::{AttemptArtifacts, Event, WorkSuspended},
    failure::{Failure, ReasonCode},
    ids::ItemId,
    job::MergeConflict,
    workflow::{OnConflict, Preserve, RESOLVING, StepAddress},
};
use serde_json::json;

use super::{
    attempt::AttemptRunner,
    merge_queue,
    release::WorktreeRelease,
    worker::{Worker, blocking, leaves_no_processes},
    worker_pool::item_branch,
};
use crate::{
    git::{MergeResolution, MergeStart, OpenMerge},
    queue::{AttemptOutcome, Claim, FinishResponse, WorkQueue as _},
    run::{Dispatcher, Error},
    step::{self, StepContext, StepOutcome, StepScope, StepTask, millis, worktree_failure},
    store::SpooledItem,
};

/// The result of an agent's work on a conflict.
enum ConflictOutcome {
    /// A commit has both sides.
    Resolved { commit: String, commits: u64 },
    /// It was not resolved.
    Failed(Failure),
    /// It was not let finish.
    Interrupted,
}

/// A conflict and whose it is.
struct ConflictCase<'a> {
    item: &'a SpooledItem,
    /// The item's place, from 0.
    place: u32,
    attempt: u32,
    conflict: &'a MergeConflict,
}

impl Worker {
    /// Has an agent resolve the conflict of an item, and does what becomes of it.
    pub(crate) async fn resolve_conflict(&mut self, claim: Claim, conflict: &MergeConflict) {
        let begun = Instant::now();
        let (place, attempt) = (claim.assignment.item, claim.assignment.attempt);
        let item = self.crew.spool.read(usize::try_from(place).unwrap_or(usize::MAX));
        let (mut id, mut merge, mut spent) = (ItemId::from_position(1, 1), None, 0.0);
        let mut work = WorkSuspended::default();
        let ended = match item {
            Ok(item) => {
                id = item.id.clone();
                let case = ConflictCase { item: &item, place, attempt, conflict };
                self.work_on(&case, &mut merge, &mut spent, &mut work).await
            }
            Err(error) => ConflictOutcome::Failed(worktree_failure(error.to_string())),
        };
        let (duration_ms, cost_usd) = (millis(begun.elapsed()), spent);
        let cut_off = self.interruption.take();
        let is_resolved = matches!(ended, ConflictOutcome::Resolved { .. });
        let outcome = match (ended, cut_off) {
            (ConflictOutcome::Resolved { commit, commits }, _) => {
                AttemptOutcome::Resolved { commit, commits, duration_ms, cost_usd }
            }
            (ConflictOutcome::Failed(_) | ConflictOutcome::Interrupted, Some(cut_off)) => {
                let work = Box::new(work);
                AttemptOutcome::CutOff { cut_off, work, duration_ms, cost_usd, secured: true }
            }
            (ConflictOutcome::Interrupted, None) => AttemptOutcome::Released,
            (ConflictOutcome::Failed(failure), None) => {
                AttemptOutcome::Unresolved { failure, duration_ms, cost_usd }
            }
        };
        let left = if is_resolved { self.inspect_worktree().await.ok().flatten() } else { None };
        // What git or a supervisor failed at may be tried again.
        let is_final = matches!(&outcome, AttemptOutcome::Unresolved { failure, .. } if leaves_no_processes(failure));
        if is_final {
            self.release_conflict(&id, attempt, merge.take(), conflict).await;
        }
        let settled = self.crew.queue.finish(claim, outcome).await;
        let failed = matches!(settled, FinishResponse::Released { failed: true });
        if failed {
            self.crew.mark_dead_lettered(&id);
        }
        if is_resolved {
            let clean = left.is_some();
            self.release_worktree(WorktreeRelease { id, attempt, left, failed: false, clean })
                .await;
        } else if !is_final {
            self.release_conflict(&id, attempt, merge.filter(|_| failed), conflict).await;
        }
    }

    /// Makes the merge, as far as it goes, and lets the agent finish it.
    async fn work_on(
        &mut self,
        case: &ConflictCase<'_>,
        open: &mut Option<OpenMerge>,
        spent: &mut f64,
        work: &mut WorkSuspended,
    ) -> ConflictOutcome {
        let identity = self.step_owner(&case.item.id, case.attempt);
        let at = case.conflict.commits.head.clone();
        let workplace = match self.prepare_context(identity, at).await {
            Ok(workplace) => workplace,
            Err(failure) => return ConflictOutcome::Failed(failure),
        };
        let (job, id) = (&self.crew.job, &case.item.id);
        let message =
            merge_queue::merge_message(job, id, &format!("Merge {} into {id}", self.job_branch()));
        let ended = match self.begin(&message).await {
            Ok(ConflictMerge::Merged(ended)) => Ok(ended),
            Ok(ConflictMerge::Open(merge, told)) => {
                *open = Some(merge.clone());
                match self.ask(&workplace, case, &merge, told).await {
                    Some(ended) => {
                        *spent = workplace.spent();
                        // The merge is begun anew, on what was merged meanwhile.
                        work.counted = workplace.progress().is_served();
                        self.give_up(merge).await;
                        return ended;
                    }
                    None => self.inspect_resolution(&workplace, merge, message).await,
                }
            }
            Err(failure) => Err(failure),
        };
        *spent = workplace.spent();
        match ended {
            Ok(MergeResolution::Resolved { commit, commits, dropped }) => {
                if let Some(dropped) = dropped {
                    self.warn_dropped_changes(&workplace, dropped);
                }
                ConflictOutcome::Resolved { commit, commits }
            }
            Ok(MergeResolution::Unresolved(why)) => {
                ConflictOutcome::Failed(Failure::new(ReasonCode::MergeConflict, why))
            }
            Err(failure) => ConflictOutcome::Failed(failure),
        }
    }

    /// Begins the merge in the worktree.
    async fn begin(&mut self, message: &str) -> Result<ConflictMerge, Failure> {
        let Some(mut slot) = self.slot.take() else {
            return Err(worktree_failure("there is no worktree".to_owned()));
        };
        let (target, tip, message) = (self.job_branch(), self.tip(), message.to_owned());
        let (slot, begun) = blocking(move || {
            let begun = match slot.begin_merge(&target, &tip, &message)? {
                MergeStart::Clean(tree) => {
                    ConflictMerge::Merged(slot.commit_merge(&tree, &tip, &message)?)
                }
                MergeStart::Stopped(merge) => {
                    let told = slot.conflict_logs(&merge)?;
                    ConflictMerge::Open(*merge, told)
                }
            };
            Ok((slot, begun))
        })
        .await?;
        self.slot = Some(slot);
        Ok(begun)
    }

    /// Asks the agent; returns how that ended, if it did not end well.
    async fn ask(
        &self,
        workplace: &StepContext,
        case: &ConflictCase<'_>,
        merge: &OpenMerge,
        (ours_log, theirs_log): (String, String),
    ) -> Option<ConflictOutcome> {
        let OnConflict::Resolve(step) = &self.crew.map.on_conflict else {
            let message = "no agent resolves conflicts";
            return Some(ConflictOutcome::Failed(Failure::new(ReasonCode::MergeConflict, message)));
        };
        let (crew, item, place) = (&*self.crew, case.item, case.place);
        let mut vars = AttemptRunner { crew, workplace, item, place }.vars();
        let paths: Vec<String> = merge.paths().iter().map(|path| format!("- {path}")).collect();
        vars.set(
            "conflict",
            json!({
                "source": item_branch(&crew.job, &item.id),
                "target": self.job_branch(),
                "paths": paths.join("\n"),
                "ours": merge.ours,
                "theirs": merge.theirs,
                "ours_log": ours_log,
                "theirs_log": theirs_log,
            }),
        );
        let deadline = crew.map.agent_timeout.and_then(|most| Instant::now().checked_add(most));
        let address = StepAddress::named(RESOLVING);
        let task = StepTask { step, address: &address, top_level: false, deadline };
        match step::run(workplace, task, &mut StepScope::new(vars)).await {
            StepOutcome::GoOn(_) | StepOutcome::Skipped { .. } => None,
            StepOutcome::Stop { failure, .. } => Some(ConflictOutcome::Failed(failure)),
            StepOutcome::Interrupted => Some(ConflictOutcome::Interrupted),
        }
    }

    /// Looks at what the agent made of the merge.
    async fn inspect_resolution(
        &mut self,
        workplace: &StepContext,
        merge: OpenMerge,
        message: String,
    ) -> Result<MergeResolution, Failure> {
        workplace.check_repo_guard()?;
        let Some(mut slot) = self.slot.take() else {
            return Err(worktree_failure("there is no worktree".to_owned()));
        };
        let (slot, ended) = blocking(move || {
            let ended = slot.finish_merge(&merge, &message);
            if !matches!(ended, Ok(MergeResolution::Resolved { .. })) {
                slot.abort_merge(&merge)?;
            }
            Ok((slot, ended?))
        })
        .await?;
        self.slot = Some(slot);
        Ok(ended)
    }

    /// Warns of changes that a resolution has not kept.
    fn warn_dropped_changes(&self, workplace: &StepContext, dropped: String) {
        let agent = self.crew.map.on_conflict.resolver().unwrap_or_default().to_owned();
        let step = RESOLVING.to_owned();
        workplace.emit(Event::AgentWarned { step, agent, message: dropped });
    }

    /// Sets the item's branch back to its own commits.
    async fn give_up(&mut self, merge: OpenMerge) {
        let Some(slot) = self.slot.take() else { return };
        // A slot that git would not work with is not used again.
        let given_up = blocking(move || slot.abort_merge(&merge).map(|()| slot));
        self.slot = given_up.await.ok();
    }

    /// Keeps the worktree of a conflict that was not resolved, if somebody may look at it.
    async fn release_conflict(
        &mut self,
        id: &ItemId,
        attempt: u32,
        merge: Option<OpenMerge>,
        conflict: &MergeConflict,
    ) {
        let is_kept = match self.crew.preserve {
            Preserve::Failed | Preserve::Always => merge.is_some() && self.crew.may_keep_worktree(),
            Preserve::Never => false,
        };
        let Some(slot) = self.slot.take_if(|_| is_kept) else {
            return self.discard().await;
        };
        let path = self.crew.worktrees.join(id.as_str());
        let branch = Some(item_branch(&self.crew.job, id));
        let commits = conflict.commits.commits;
        let behind =
            Some(Box::new(AttemptArtifacts { branch, commits, ..AttemptArtifacts::default() }));
        match blocking(move || slot.preserve_at(&path, attempt, None)).await {
            Ok(path) => {
                let reason = "its conflict was not resolved";
                self.emit_preserved(id, path.to_string_lossy().into_owned(), reason, behind);
            }
            Err(failure) => self.emit_preserved(id, String::new(), &failure.message, behind),
        }
    }

    fn job_branch(&self) -> String {
        self.crew.job_tree.branch().to_owned()
    }
}

/// The first result of a merge.
enum ConflictMerge {
    /// There was no conflict any more.
    Merged(MergeResolution),
    /// It stopped; what both sides did is told.
    Open(OpenMerge, (String, String)),
}

impl Dispatcher {
    /// Makes sure that the commits of items whose conflicts wait to be resolved have their name:
    /// an agent that was cut off may have left the branch anywhere.
    pub(crate) fn restore_conflict_branches(&self) -> Result<(), Error> {
        let Some(map) = self.job.map.as_ref().filter(|map| map.has_conflicts()) else {
            return Ok(());
        };
        for (item, conflict) in map.conflicts() {
            let branch = item_branch(&self.parts.id, &item.id);
            self.parts.settings.repo.set_item_branch(&branch, &conflict.commits.head)?;
        }
        Ok(())
    }
}
