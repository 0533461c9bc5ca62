//! Retries of a single step.

use std::time::Instant;

use prodigy_core::{
    event::StepFailureDecision,
    failure::{Failure, ReasonCode},
    policy::RetryPolicy,
    workflow::StepAction,
};

use super::{
    StepContext, StepScope,
    output::{ActionFailure, ActionOutput},
    runner::{StepTask, cancelled_failure, is_safe_to_retry, run_once},
    step_events::{emit_failed, emit_started},
};

/// Tries the step as often as its `retry` allows; without one, only where a provider has no room.
pub(crate) async fn run_with_retries(
    workplace: &StepContext,
    task: StepTask<'_>,
    scope: &mut StepScope,
    attempt: &mut u32,
) -> Result<ActionOutput, Box<ActionFailure>> {
    loop {
        let begun = Instant::now();
        let failed = match run_once(workplace, task, scope, *attempt).await {
            Ok(output) => return Ok(output),
            Err(failed) => failed,
        };
        // What may have been done already is not done a second time.
        let may_retry = is_safe_to_retry(workplace, task, &failed.failure);
        let patience = || busy_provider_retry(workplace, task, &failed.failure);
        let retry = task.step.retry.as_ref().or_else(patience);
        let Some(retry) = retry.filter(|_| may_retry) else { return Err(failed) };
        let wait = retry.delay(*attempt, random_fraction());
        // A try that could only begin after the end of an enclosing limit is no try.
        let too_late = task
            .deadline
            .is_some_and(|end| Instant::now().checked_add(wait).is_none_or(|begins| begins >= end));
        if too_late || !retry.allows(*attempt, failed.failure.kind) {
            return Err(failed);
        }
        let (then, log) = (StepFailureDecision::Retry, failed.output.log());
        let failure = &failed.failure;
        emit_failed(workplace, task.path(), *attempt, failure, then, begun.elapsed(), log);
        // A try that was begun before the work was cut off was waited for then.
        let is_known = workplace.progress().was_started(task.path(), *attempt + 1);
        tokio::select! {
            () = tokio::time::sleep(wait), if !is_known => {}
            () = std::future::ready(()), if is_known => {}
            () = workplace.tools.stop.wait_requested() => {
                return Err(ActionFailure::without_output(cancelled_failure()));
            }
        }
        *attempt += 1;
        emit_started(workplace, task, scope, *attempt);
    }
}

/// Returns how an agent is tried again whose provider had no room, if its step does not say so.
///
/// An item is tried again as a whole.
pub(crate) fn busy_provider_retry<'a>(
    workplace: &'a StepContext,
    task: StepTask<'_>,
    failure: &Failure,
) -> Option<&'a RetryPolicy> {
    let is_agent = matches!(task.step.action, StepAction::Agent { .. });
    let is_full = ReasonCode::NO_ROOM.contains(&failure.kind);
    let is_tried = is_agent && is_full && workplace.identity.item.is_none();
    is_tried.then_some(&workplace.tools.patience)
}

/// Returns a number from 0 to 1 that nobody can foresee.
pub fn random_fraction() -> f64 {
    // Without random numbers the wait is the whole one.
    getrandom::u32().map_or(1.0, |number| f64::from(number) / f64::from(u32::MAX))
}
