//! Carrying out what a job decided about its items.

pub(crate) mod attempt;
pub(crate) mod checkout_transfer;
pub(crate) mod conflict;
pub(crate) mod handler;
pub(crate) mod item_selection;
pub(crate) mod merge_queue;
pub(crate) mod provision;
pub(crate) mod recover;
pub(crate) mod release;
pub(crate) mod secure;
pub(crate) mod suspend;
pub(crate) mod work_keeper;
pub(crate) mod worker;
pub(crate) mod worker_pool;

use prodigy_core::{
    dlq::{DeadLetterState, RunFingerprint},
    event::{EventRecord, PauseReason},
    ids::AgentId,
    job::{ItemAction, JobInput, MergeConflict},
    policy::ItemBudget,
    workflow::Isolation,
};

use super::{Dispatcher, Error, dispatcher::actions::check_free_space};
use crate::{
    git::Worktree,
    queue::{Assignment, InterruptedHandler, WorkQueue as _},
    store::dlq::DeadLetterProjector,
};

/// The task of an agent with an item.
enum ItemTask {
    Attempt,
    Conflict(Box<MergeConflict>),
    Handler(Box<InterruptedHandler>),
}

impl Dispatcher {
    /// Does what was decided about an item.
    pub(crate) fn perform_item_action(&mut self, action: ItemAction) -> Result<(), Error> {
        match action {
            ItemAction::Select => self.select_items(),
            ItemAction::Find { from } => self.queue_selected_items(from),
            // They are decided over together, when everything else is done.
            ItemAction::Claim { item } => {
                self.parts.claims.push(item);
                Ok(())
            }
            ItemAction::Start { agent, item, attempt, may_repeat } => {
                self.assign(agent, item, attempt, may_repeat, ItemTask::Attempt)
            }
            ItemAction::Resolve { agent, item, attempt, conflict } => {
                self.assign(agent, item, attempt, false, ItemTask::Conflict(Box::new(conflict)))
            }
            ItemAction::HandleAgain { agent, item, attempt, name, failed } => {
                let handler = Box::new(InterruptedHandler { name, failed: *failed });
                self.assign(agent, item, attempt, false, ItemTask::Handler(handler))
            }
            ItemAction::Secure { agent, goes_on } => {
                self.parts.queue.secure(agent, goes_on);
                Ok(())
            }
            ItemAction::Handle { agent, name, failure, .. } => {
                self.parts.queue.run_handler(agent, name, failure);
                Ok(())
            }
            ItemAction::Release { agent, failed } => {
                self.parts.queue.release(agent, failed);
                Ok(())
            }
            ItemAction::Merge { item, commits } => {
                let crew = self.worker_context()?;
                let id = self.job.map.as_ref().and_then(|map| map.item(item));
                if let (Some(merges), Some(state)) = (&crew.merges, id) {
                    self.parts.merging += 1;
                    merges.merge(item, state.id.clone(), commits);
                }
                Ok(())
            }
        }
    }

    /// Hands an attempt of an item, its conflict, or its handler to an agent.
    fn assign(
        &mut self,
        agent: AgentId,
        item: u32,
        attempt: u32,
        may_repeat: bool,
        errand: ItemTask,
    ) -> Result<(), Error> {
        if let Err(error) = check_free_space(&self.parts.settings) {
            // It was started as far as the journal knows; it goes back with the others
            // when the run has stopped.
            self.parts.note(&error.to_string());
            self.parts.halt = Some(PauseReason::DiskFull);
            self.inputs.push_back(JobInput::Tick);
            return Ok(());
        }
        self.worker_context()?;
        let state = self.job.map.as_ref().and_then(|map| map.item(item));
        let ledger = state.and_then(|item| item.ledger.as_deref().cloned());
        let ledger = ledger.unwrap_or_default().with_lost_end(self.job.end_lost);
        let (conflict, handler) = match errand {
            ItemTask::Attempt => (None, None),
            ItemTask::Conflict(conflict) => (Some(conflict), None),
            ItemTask::Handler(handler) => (None, Some(handler)),
        };
        // Why attempts failed tells nothing about a conflict.
        let setbacks = state.filter(|_| conflict.is_none()).map(|item| item.setbacks.clone());
        let setbacks = setbacks.unwrap_or_default();
        let suspended = state.and_then(|item| item.suspended.clone());
        let spent_usd = state.map_or(0.0, |item| item.cost_usd);
        let item_usd = self.parts.settings.workflow.budget.item_usd;
        let allowance = item_usd.map(|most_usd| ItemBudget { most_usd, spent_usd });
        let assignment = Assignment {
            agent,
            item,
            attempt,
            ledger,
            may_repeat,
            allowance,
            setbacks,
            conflict,
            handler,
            suspended,
        };
        self.parts.agents.assign(assignment);
        Ok(())
    }

    /// Brings the job's worktree to its branch when the items are done, and lets the agents go.
    pub(crate) async fn sync_job_worktree(&mut self) -> Result<(), Error> {
        self.parts.agents.shutdown().await;
        self.flush_dead_letters();
        self.check_repo_guard()?;
        let tree = self.job_worktree()?;
        let isolation = self.parts.map.as_ref().map(|map| map.isolation);
        self.commit_leftovers()?;
        if isolation == Some(Isolation::Worktree) {
            self.clear_branches(&tree)?;
            self.keep_setup_work(&tree)?;
            tree.reset_to_branch()?;
        }
        let snapshot = tree.snapshot()?;
        self.parts.fingerprint = None;
        self.inputs.push_back(JobInput::TreeSynced(Some(snapshot)));
        Ok(())
    }

    /// Deletes the branches of items whose commits are all in the job's branch.
    fn clear_branches(&self, tree: &Worktree) -> Result<(), Error> {
        let prefix = format!("prodigy/{}/", self.parts.id);
        self.parts.settings.repo.delete_item_branches(&prefix, tree.branch())?;
        Ok(())
    }

    /// Waits until the files of all dead letters are written that can be.
    pub(crate) fn flush_dead_letters(&mut self) {
        if let Some(letters) = &self.parts.letters {
            letters.flush();
        }
        self.warn_dead_letters();
    }

    /// Ends the writing of dead letters.
    pub(crate) fn finish_dead_letters(&mut self) {
        if let Some(letters) = &mut self.parts.letters {
            letters.finish(self.job.seq);
        }
        self.warn_dead_letters();
        self.parts.letters = None;
    }

    /// Says once that dead letters cannot be written.
    fn warn_dead_letters(&mut self) {
        if let Some(problem) =
            self.parts.letters.as_ref().and_then(DeadLetterProjector::take_first_error)
        {
            self.parts.note(&format!(
                "warning: dead letters cannot be written, the job goes on without them: {problem}"
            ));
        }
    }

    /// Has what follows from a record written: the file of a dead letter, and what was spent.
    pub(crate) fn apply_projections(&mut self, record: &EventRecord) -> Result<(), Error> {
        self.record_spending(record);
        let Some(id) = &record.item_id else { return Ok(()) };
        if !DeadLetterState::is_relevant(&record.event) {
            return Ok(());
        }
        let place = self.job.map.as_ref().and_then(|map| map.find(id));
        let place = place.and_then(|(at, _)| usize::try_from(at).ok());
        if self.parts.letters.is_none() {
            let (layout, job) = (self.parts.settings.layout.clone(), self.parts.id.clone());
            let (mask, spool) = (self.parts.mask.clone(), self.open_spool()?);
            let started = self.job.started.as_ref();
            let run = started.map(|started| RunFingerprint {
                workflow_hash: started.workflow_hash.clone(),
                found: started.found.clone().unwrap_or_default(),
            });
            let (run, before) = (run.unwrap_or_default(), self.parts.before);
            let letters = DeadLetterProjector::start(layout, job, run, before, mask, spool);
            let letters = letters.map_err(|source| Error::Prepare {
                what: "no thread can be started for dead letters".to_owned(),
                source,
            })?;
            self.parts.letters = Some(letters);
        }
        if let Some(letters) = &self.parts.letters {
            letters.apply(record, place);
        }
        self.warn_dead_letters();
        Ok(())
    }
}
