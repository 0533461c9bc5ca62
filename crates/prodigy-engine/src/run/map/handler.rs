//! The handler of the error policy, in the worktree of the attempt that failed.

use std::sync::Arc;

use prodigy_core::{
    event::WorkSuspended,
    failure::{Failure, ReasonCode},
    ids::ItemId,
    job::{FailedAttempt, SuspensionCause},
    workflow::Isolation,
};

use super::{
    attempt::{self, AttemptRunner},
    release::failed_reference,
    secure::{AttemptRemains, handler_reference},
    worker::{Worker, blocking, leaves_no_processes},
};
use crate::{
    queue::{AttemptOutcome, Claim, FinishResponse, InterruptedHandler, WorkQueue as _},
    step::{StepContext, StepOwner, worktree_failure},
};

impl Worker {
    /// Runs a handler that was cut off once more, on what the attempt left, and does what becomes
    /// of its item.
    pub(crate) async fn restart_handler(&mut self, claim: Claim, handler: &InterruptedHandler) {
        let (place, attempt) = (claim.assignment.item, claim.assignment.attempt);
        let InterruptedHandler { name, failed } = handler;
        let item = self.crew.spool.read(usize::try_from(place).unwrap_or(usize::MAX));
        let id = match &item {
            Ok(item) => item.id.clone(),
            Err(error) => {
                let broken = worktree_failure(error.to_string());
                return self.fail_handler(claim, failed.clone(), broken).await;
            }
        };
        let identity = self.step_owner(&id, attempt);
        let suspended = claim.assignment.suspended.as_deref();
        let resumed = self.resume_work(&identity, suspended).await.map(|work| work.workplace);
        if resumed.is_none()
            && let Err(broken) = self.prepare_handler(&id, identity).await
        {
            return self.fail_handler(claim, failed.clone(), broken).await;
        }
        let mut remains =
            AttemptRemains { id, attempt, left: None, is_clean: true, is_secured: false };
        let settled = self.run_handler(claim, name, failed.clone(), &mut remains, resumed).await;
        self.finish_attempt(settled, remains, false).await;
    }

    /// Makes the worktree ready for a handler that starts over.
    async fn prepare_handler(&mut self, id: &ItemId, identity: StepOwner) -> Result<(), Failure> {
        self.prepare_context(identity, self.tip()).await?;
        self.restore_for_handler(&failed_reference(&self.crew.job, id)).await
    }

    /// Ends an item whose handler cannot even begin.
    async fn fail_handler(&mut self, claim: Claim, failed: FailedAttempt, broken: Failure) {
        let outcome = match self.interruption.take() {
            Some(cut_off) => interrupted_handler(cut_off, WorkSuspended::default()).secured(),
            None => AttemptOutcome::Handled { failure: failed.failure, handler: Some(broken) },
        };
        self.crew.queue.finish(claim, outcome).await;
        self.discard().await;
    }

    /// Brings back what the attempt left before its handler ran the first time.
    async fn restore_for_handler(&mut self, failed: &str) -> Result<(), Failure> {
        let Some(slot) = self.slot.take() else { return Ok(()) };
        let reference = handler_reference(failed);
        let slot = blocking(move || slot.restore_from_ref(&reference).map(|()| slot)).await?;
        self.slot = Some(slot);
        Ok(())
    }

    /// Runs the handler of the error policy after a failed attempt, makes safe what both left,
    /// and says how it ended.
    pub(crate) async fn run_handler(
        &mut self,
        claim: Claim,
        name: &str,
        failed: FailedAttempt,
        remains: &mut AttemptRemains,
        resumed: Option<StepContext>,
    ) -> FinishResponse {
        let identity = self.step_owner(&remains.id, remains.attempt);
        let FailedAttempt { step, failure } = failed;
        let told = attempt::FailedStep { step: step.as_deref(), failure: &failure };
        let item = claim.assignment.item;
        let (workplace, handler) = self.handle(&identity, item, name, told, resumed).await;
        remains.is_clean &= handler.as_ref().is_none_or(leaves_no_processes);
        // It worked in the same worktree. If that cannot be looked at any more, nothing is
        // known of what is in it.
        remains.left = self.inspect_worktree().await.ok().flatten();
        let outcome = match handler {
            Some(broken) if self.is_stopped(&broken) => AttemptOutcome::Released,
            handler => match self.interruption.take() {
                Some(cut_off) => {
                    let work = match &workplace {
                        Some(workplace) => self.suspend(&remains.id, workplace).await,
                        None => WorkSuspended::default(),
                    };
                    interrupted_handler(cut_off, work)
                }
                None => AttemptOutcome::Handled { failure, handler },
            },
        };
        if let AttemptOutcome::Handled { .. } = outcome {
            self.secure(remains).await;
        }
        self.keep_suspended(&outcome);
        let again = outcome.clone().secured();
        let settled = self.crew.queue.finish(claim, outcome).await;
        if let FinishResponse::Secure { claim, .. } = settled {
            self.secure(remains).await;
            return self.crew.queue.finish(claim, again).await;
        }
        settled
    }

    /// Returns whether a handler was not let finish.
    fn is_stopped(&self, broken: &Failure) -> bool {
        broken.kind == ReasonCode::Cancelled && self.crew.tools.stop.is_requested()
    }

    /// Runs the handler of the error policy; returns where, and why it failed, if it did.
    async fn handle(
        &mut self,
        identity: &StepOwner,
        place: u32,
        name: &str,
        failed: attempt::FailedStep<'_>,
        resumed: Option<StepContext>,
    ) -> (Option<StepContext>, Option<Failure>) {
        let crew = Arc::clone(&self.crew);
        let Some(steps) = crew.handlers.get(name) else {
            let message = format!("there is no handler `{name}`");
            return (None, Some(Failure::new(ReasonCode::TemplateError, message)));
        };
        let read = self.crew.spool.read(usize::try_from(place).unwrap_or(usize::MAX));
        let item = match read {
            Ok(item) => item,
            Err(error) => {
                let failure = Failure::new(ReasonCode::WorktreeError, error.to_string());
                return (None, Some(failure));
            }
        };
        if self.slot.is_none()
            && self.crew.map.isolation == Isolation::Worktree
            && let Err(failure) = self.prepare_context(identity.clone(), self.tip()).await
        {
            return (None, Some(failure));
        }
        let workplace = resumed.unwrap_or_else(|| self.step_context(identity.clone()));
        let attempt = AttemptRunner { crew: &crew, workplace: &workplace, item: &item, place };
        let failure = attempt::run_handler(attempt, steps, name, failed).await;
        (Some(workplace), failure)
    }
}

/// Returns the outcome of a handler that was cut off.
fn interrupted_handler(cut_off: SuspensionCause, work: WorkSuspended) -> AttemptOutcome {
    let (duration_ms, cost_usd) = (0, 0.0);
    AttemptOutcome::CutOff { cut_off, work: Box::new(work), duration_ms, cost_usd, secured: false }
}
