//! One agent of a job: it takes attempts from the queue, one after the other.

use std::sync::Arc;

use prodigy_core::{
    failure::{Failure, ReasonCode},
    ids::{AgentId, ItemId},
    job::FailedAttempt,
    policy::ItemBudget,
    workflow::Preserve,
};

use super::{
    attempt::{self, AttemptRunner},
    merge_queue::RetiredBranch,
    release::WorktreeRelease,
    secure::AttemptRemains,
    suspend::ResumedWork,
    worker_pool::{WorkerContext, item_branch},
};
use crate::{
    git::{self, WorktreeSlot, WorktreeStatus},
    queue::{AttemptOutcome, Claim, FinishResponse, WorkQueue as _},
    step::{
        AttemptId, EffectTracker, PreviousFailures, StepOwner, SupervisorPool, SuspensionFlag,
        worktree_failure,
    },
};

pub(crate) use crate::step::blocking;

/// Takes attempts until there are no more.
pub(crate) async fn run_worker(crew: Arc<WorkerContext>, agent: AgentId) {
    let mut desk = Worker {
        crew,
        agent,
        slot: None,
        supervisors: SupervisorPool::default(),
        old: None,
        kept: Vec::new(),
        effects: Arc::default(),
        interruption: Arc::default(),
        is_suspended: false,
        is_resumed: false,
        allowance: None,
        past: Arc::default(),
    };
    while let Some(claim) = desk.crew.queue.claim(agent).await {
        desk.process(claim).await;
    }
    desk.shutdown().await;
}

/// Where an agent works, and what it keeps between attempts.
pub(crate) struct Worker {
    pub(crate) crew: Arc<WorkerContext>,
    pub(crate) agent: AgentId,
    pub(crate) slot: Option<WorktreeSlot>,
    pub(crate) supervisors: SupervisorPool,
    /// The branch of the last attempt, if nothing of it is needed.
    pub(crate) old: Option<RetiredBranch>,
    /// The paths that stay in the worktree from item to item.
    pub(crate) kept: Vec<String>,
    /// The side effects of the attempt in flight, as far as known.
    pub(crate) effects: Arc<EffectTracker>,
    /// The limit or the budget that cut off the attempt under way.
    pub(crate) interruption: Arc<SuspensionFlag>,
    /// Set if the worktree holds work that was cut off and goes on.
    pub(crate) is_suspended: bool,
    /// Set if the attempt under way goes on where an earlier run was cut off.
    pub(crate) is_resumed: bool,
    /// The spending limit for the agents of the attempt in flight.
    pub(crate) allowance: Option<ItemBudget>,
    /// The failures of the attempts before the one in flight.
    pub(crate) past: Arc<PreviousFailures>,
}

/// The result of an attempt, before its worktree is released.
struct AttemptEnd {
    id: ItemId,
    outcome: AttemptOutcome,
    left: Option<WorktreeStatus>,
    /// Set if all its processes ended by themselves, so that the worktree can be used again.
    is_clean: bool,
}

impl Worker {
    /// Makes an attempt and does what becomes of it.
    async fn process(&mut self, claim: Claim) {
        let assignment = claim.assignment.clone();
        let ledger = assignment.ledger.clone();
        self.effects = Arc::new(EffectTracker::new(ledger, assignment.may_repeat));
        self.interruption = Arc::default();
        (self.is_suspended, self.is_resumed) = (false, false);
        self.allowance = assignment.allowance;
        self.past = Arc::new(PreviousFailures::new(assignment.setbacks.clone()));
        if let Some(conflict) = &assignment.conflict {
            return self.resolve_conflict(claim, conflict).await;
        }
        if let Some(handler) = &assignment.handler {
            return self.restart_handler(claim, handler).await;
        }
        let over = self.run_attempt(&claim).await;
        let (id, left, is_clean) = (over.id, over.left, over.is_clean);
        let mut outcome = over.outcome;
        if left.as_ref().is_some_and(|left| left.is_untouched)
            && self.crew.preserve != Preserve::Always
        {
            // There is nothing to make safe.
            outcome = outcome.secured();
        }
        let is_done = matches!(&outcome, AttemptOutcome::Completed(done) if !done.has_commits());
        let step = match &outcome {
            AttemptOutcome::Failed { step, .. } => step.clone(),
            AttemptOutcome::Completed(_)
            | AttemptOutcome::Handled { .. }
            | AttemptOutcome::Resolved { .. }
            | AttemptOutcome::Unresolved { .. }
            | AttemptOutcome::CutOff { .. }
            | AttemptOutcome::Released => None,
        };
        self.keep_suspended(&outcome);
        let again =
            matches!(outcome, AttemptOutcome::Failed { .. } | AttemptOutcome::CutOff { .. });
        let again = again.then(|| outcome.clone().secured());
        let mut remains =
            AttemptRemains { id, attempt: assignment.attempt, left, is_clean, is_secured: false };
        let mut settled = self.crew.queue.finish(claim, outcome).await;
        if let FinishResponse::Secure { claim, goes_on } = settled {
            if goes_on {
                self.secure_for_handler(&remains).await;
            } else {
                self.secure(&mut remains).await;
            }
            let outcome = again.unwrap_or(AttemptOutcome::Released);
            settled = self.crew.queue.finish(claim, outcome).await;
        }
        while let FinishResponse::Handle { claim, name, failure } = settled {
            let failed = FailedAttempt { step: step.clone(), failure };
            settled = self.run_handler(claim, &name, failed, &mut remains, None).await;
        }
        self.finish_attempt(settled, remains, is_done).await;
    }

    /// Does what becomes of an attempt that is settled; `is_done` says whether nothing of its
    /// branch is needed.
    pub(crate) async fn finish_attempt(
        &mut self,
        settled: FinishResponse,
        remains: AttemptRemains,
        mut is_done: bool,
    ) {
        let AttemptRemains { id, attempt, left, mut is_clean, is_secured } = remains;
        if self.is_suspended && !matches!(settled, FinishResponse::Released { failed: true }) {
            return;
        }
        self.is_suspended = false;
        self.forget_progress(&id).await;
        let failed = match settled {
            FinishResponse::Released { failed } => {
                is_done |= failed;
                failed
            }
            // Nobody waits for this any more: the run ends, or it was given to another.
            FinishResponse::Fenced
            | FinishResponse::Handle { .. }
            | FinishResponse::Secure { .. } => {
                (is_clean, is_done) = (false, false);
                false
            }
        };
        if failed {
            self.crew.mark_dead_lettered(&id);
        }
        if is_secured {
            return self.release_secured(failed, is_clean).await;
        }
        if is_done {
            // Nothing of the branch is needed once the worktree is on another one. An item
            // that is tried again may be under way elsewhere by then: its branch is not ours.
            let branch = item_branch(&self.crew.job, &id);
            self.old = Some(RetiredBranch { branch, recorded: None });
        }
        let ended = WorktreeRelease { id, attempt, left, failed, clean: is_clean };
        self.release_worktree(ended).await;
    }

    pub(crate) fn step_owner(&self, id: &ItemId, attempt: u32) -> StepOwner {
        let item = AttemptId { id: id.clone(), agent: self.agent, attempt };
        StepOwner { job: self.crew.job.clone(), item: Some(item) }
    }

    /// Makes the worktree ready and runs the item's steps.
    async fn run_attempt(&mut self, claim: &Claim) -> AttemptEnd {
        let (place, number) = (claim.assignment.item, claim.assignment.attempt);
        let fallback = ItemId::from_position(usize::try_from(place).unwrap_or_default() + 1, 1);
        let item = match self.crew.spool.read(usize::try_from(place).unwrap_or(usize::MAX)) {
            Ok(item) => item,
            Err(error) => return AttemptEnd::broken(fallback, error.to_string()),
        };
        let id = item.id.clone();
        let identity = self.step_owner(&id, number);
        let suspended = claim.assignment.suspended.as_deref();
        let ResumedWork { workplace, base } = match self.resume_work(&identity, suspended).await {
            Some(resumed) => resumed,
            None => match self.prepare_worktree(identity).await {
                Ok(begun) => begun,
                Err(failure) => return self.failed_start(id, failure),
            },
        };
        let attempt = AttemptRunner { crew: &self.crew, workplace: &workplace, item: &item, place };
        let mut ended = attempt::run(attempt).await;
        let is_clean = ended.left_no_processes();
        let mut left = match self.inspect_worktree().await {
            Ok(left) => left,
            Err(failure) => {
                ended.fail(failure);
                None
            }
        };
        // An attempt that has nothing to keep starts over, in whichever worktree is free then.
        let is_untouched = left.as_ref().is_some_and(|left| left.is_untouched);
        if ended.is_suspended() && (!is_untouched || workplace.progress().has_progress()) {
            ended.set_suspended_work(self.suspend(&id, &workplace).await);
        }
        if left.as_ref().is_some_and(|left| left.commits == 0 && left.head != base) {
            let message = "HEAD was left at a commit from before the item began";
            ended.fail(broken(message.to_owned()));
        }
        if let Some(count) = left.as_ref().map(|left| left.astray).filter(|count| *count > 0) {
            let (branch, commits) = (item_branch(&self.crew.job, &id), counted(count));
            let message = format!("HEAD was left without {commits} of the branch `{branch}`");
            ended.fail(broken(message));
        }
        if let Some(left) = left.as_mut().filter(|_| ended.is_success())
            && let Err(failure) = self.keep_work(&id, left).await
        {
            ended.fail(failure);
        }
        let outcome = ended.outcome(&base, left.as_ref());
        AttemptEnd { id, outcome, left, is_clean }
    }

    /// Makes the worktree ready for the first step of an item.
    async fn prepare_worktree(&mut self, identity: StepOwner) -> Result<ResumedWork, Failure> {
        let workplace = self.prepare_context(identity, self.tip()).await?;
        let base = self.base().map_err(|error| broken(error.to_string()))?;
        Ok(ResumedWork { workplace, base })
    }

    /// Returns the end of an attempt that could not begin.
    fn failed_start(&self, id: ItemId, failure: Failure) -> AttemptEnd {
        let mut over = AttemptEnd::failed(id, failure);
        if let Some(cut_off) = self.interruption.take() {
            over.outcome = AttemptOutcome::CutOff {
                cut_off,
                work: Box::default(),
                duration_ms: 0,
                cost_usd: 0.0,
                secured: false,
            };
        }
        over
    }

    /// Returns the commit that the attempt starts from.
    fn base(&self) -> Result<String, git::Error> {
        match &self.slot {
            Some(slot) => slot.tree().head(),
            None => Ok(String::new()),
        }
    }

    /// Returns where the job's branch stands.
    pub(crate) fn tip(&self) -> String {
        let merges = self.crew.merges.as_ref();
        merges.map(super::merge_queue::MergeQueue::tip).unwrap_or_default()
    }

    /// Looks at what an attempt left behind.
    pub(crate) async fn inspect_worktree(&mut self) -> Result<Option<WorktreeStatus>, Failure> {
        let Some(mut slot) = self.slot.take() else { return Ok(None) };
        let (slot, left) = blocking(move || {
            let left = slot.inspect()?;
            Ok((slot, left))
        })
        .await?;
        self.slot = Some(slot);
        Ok(Some(left))
    }

    /// Throws the worktree away: nobody knows what is in it.
    pub(crate) async fn discard(&mut self) {
        let Some(slot) = self.slot.take() else { return };
        if let Ok(Some(trash)) = blocking(move || slot.discard()).await {
            self.crew.delete_later(trash);
        }
    }

    /// Puts everything away for good.
    async fn shutdown(&mut self) {
        self.supervisors.close().await;
        if self.is_suspended {
            // Whoever resumes the job goes on in it.
            self.slot = None;
        }
        self.discard().await;
        if let Some(old) = self.old.take() {
            self.crew.delete_branch_later(old);
        }
    }
}

impl AttemptEnd {
    /// Makes one of an attempt that could not even begin.
    fn failed(id: ItemId, failure: Failure) -> Self {
        let (step, duration_ms, cost_usd) = (None, 0, 0.0);
        let outcome =
            AttemptOutcome::Failed { step, failure, duration_ms, cost_usd, secured: false };
        Self { id, outcome, left: None, is_clean: false }
    }

    fn broken(id: ItemId, why: String) -> Self {
        Self::failed(id, broken(why))
    }
}

/// Returns whether a failure leaves a worktree in which no process is at work.
pub(crate) fn leaves_no_processes(failure: &Failure) -> bool {
    // A check may have had more to say than why the step ended.
    !matches!(
        failure.cause.unwrap_or(failure.kind),
        ReasonCode::Timeout
            | ReasonCode::Stalled
            | ReasonCode::WorkerLost
            | ReasonCode::Cancelled
            | ReasonCode::WorktreeError
            | ReasonCode::DiskFull
    )
}

/// Says how many commits, for people.
fn counted(commits: u64) -> String {
    if commits == 1 { "1 commit".to_owned() } else { format!("{commits} commits") }
}

pub(crate) fn broken(why: String) -> Failure {
    worktree_failure(why)
}
