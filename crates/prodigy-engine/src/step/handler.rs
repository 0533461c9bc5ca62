//! Handling of a failed step as the workflow says.
//!
//! ```text
//! failed ─▶ on_exit_code? ─▶ handler ─▶ try again ─▶ … ─▶ verdict
//! ```

use std::time::Instant;

use prodigy_core::{
    event::StepFailureDecision,
    failure::{Failure, ReasonCode},
    workflow::{HandlerEnd, OnFailure, Step, StepVerdict, Strategy, step_label},
};
use serde_json::{Value, json};

use super::{
    StepContext, StepOutcome, StepScope,
    output::{ActionFailure, ActionOutput},
    runner::{StepTask, is_safe_to_retry, run_once},
    sequence::{SequenceCompletion, SequenceStop, run_sequence},
    step_events::{emit_failed, emit_started},
};

/// The result of handling a failed step.
pub(super) enum HandlerOutcome {
    /// It succeeded after all, or something succeeded in its place.
    Mended {
        /// The output that counts.
        output: ActionOutput,
        /// The attempt that ended it.
        attempt: u32,
    },
    /// It stays failed, and the next step may run.
    GoOn {
        /// The output of the last try.
        output: ActionOutput,
        /// The last attempt.
        attempt: u32,
    },
    /// It stays failed, and the phase has to end.
    Stop {
        /// The failure.
        failure: Failure,
        /// The output of the last try.
        output: ActionOutput,
        /// The last attempt.
        attempt: u32,
    },
    /// The run was stopped.
    Interrupted,
}

/// The result of the handler's own steps.
enum HandlerResult {
    Done(SequenceCompletion),
    Failed { failure: Failure, printed: String },
    Interrupted,
}

impl HandlerResult {
    /// Returns what its steps printed.
    fn output(&self) -> &str {
        match self {
            Self::Done(SequenceCompletion { printed, .. }) | Self::Failed { printed, .. } => {
                printed
            }
            Self::Interrupted => "",
        }
    }
}

/// The last try of a step, which failed.
pub(super) struct LastFailure {
    /// The failure, with the output before it.
    pub(super) failed: ActionFailure,
    /// Which try it was.
    pub(super) attempt: u32,
    /// When it began.
    pub(super) begun: Instant,
}

impl LastFailure {
    /// Puts the failure on record, with what follows it.
    fn record(&self, workplace: &StepContext, task: StepTask<'_>, then: StepFailureDecision) {
        let ActionFailure { failure, output, .. } = &self.failed;
        let took = self.begun.elapsed();
        emit_failed(workplace, task.path(), self.attempt, failure, then, took, output.log());
    }

    /// Lets the run go on although the step stays failed.
    fn continue_phase(self, workplace: &StepContext, task: StepTask<'_>) -> HandlerOutcome {
        self.record(workplace, task, StepFailureDecision::GoOn);
        HandlerOutcome::GoOn { output: self.failed.output, attempt: self.attempt }
    }

    /// Returns `${error.…}` for the handler.
    fn error_variable(&self, task: StepTask<'_>) -> Value {
        let failure = &self.failed.failure;
        json!({
            "message": failure.message,
            "exit_code": failure.exit_code,
            "reason": failure.kind.code(),
            "step": step_label(task.step),
            "attempt": self.attempt,
        })
    }
}

/// Handles a failed step.
pub(super) async fn handle(
    workplace: &StepContext,
    task: StepTask<'_>,
    scope: &mut StepScope,
    last: LastFailure,
) -> HandlerOutcome {
    if let Some(code) = last.failed.failure.exit_code
        && let Some(steps) = task.step.on_exit_code.get(&code)
    {
        let address = task.address.part("on_exit_code").part(&code.to_string());
        let within = StepTask { address: &address, ..task };
        match run_steps(workplace, steps, within, scope, &last).await {
            HandlerResult::Interrupted => return HandlerOutcome::Interrupted,
            // Nothing was done about it.
            HandlerResult::Done(done) if !done.has_success && is_item(workplace) => {}
            HandlerResult::Done(_) => {
                last.record(workplace, task, StepFailureDecision::GoOn);
                return HandlerOutcome::Mended {
                    output: last.failed.output,
                    attempt: last.attempt,
                };
            }
            HandlerResult::Failed { .. } => {}
        }
    }
    match &task.step.on_failure {
        Some(on_failure) => recover(workplace, task, scope, on_failure, last).await,
        None if task.step.continue_on_error => last.continue_phase(workplace, task),
        None => {
            let ActionFailure { failure, output, .. } = last.failed;
            HandlerOutcome::Stop { failure, output, attempt: last.attempt }
        }
    }
}

/// Returns whether a failure means that the run was stopped; a step may also say that of
/// something of its own.
pub(super) fn is_cancelled(workplace: &StepContext, failure: &Failure) -> bool {
    failure.kind == ReasonCode::Cancelled && workplace.is_cancelled()
}

/// Runs the handler, and the original again as often as allowed.
async fn recover(
    workplace: &StepContext,
    task: StepTask<'_>,
    scope: &mut StepScope,
    on_failure: &OnFailure,
    mut last: LastFailure,
) -> HandlerOutcome {
    let retries = matches!(on_failure.strategy, Strategy::Recovery | Strategy::Fallback);
    let mut tries_left = if retries { on_failure.max_attempts.get() - 1 } else { 0 };
    loop {
        let handled = run_handler(workplace, task, scope, on_failure, &last).await;
        if matches!(handled, HandlerResult::Interrupted) {
            return HandlerOutcome::Interrupted;
        }
        // What may have been done already is not done a second time.
        if tries_left == 0 || !is_safe_to_retry(workplace, task, &last.failed.failure) {
            return decide_outcome(workplace, task, on_failure, handled, last);
        }
        last.record(workplace, task, StepFailureDecision::Retry);
        tries_left -= 1;
        let (attempt, begun) = (last.attempt + 1, Instant::now());
        emit_started(workplace, task, scope, attempt);
        match run_once(workplace, task, scope, attempt).await {
            Ok(output) => return HandlerOutcome::Mended { output, attempt },
            Err(again) if is_cancelled(workplace, &again.failure) => {
                return HandlerOutcome::Interrupted;
            }
            Err(again) => last = LastFailure { failed: *again, attempt, begun },
        }
        if tries_left == 0 {
            // The handler runs before each new try, and there is none.
            return decide_outcome(workplace, task, on_failure, handled, last);
        }
    }
}

/// Runs the handler's steps within its time.
async fn run_handler(
    workplace: &StepContext,
    task: StepTask<'_>,
    scope: &mut StepScope,
    on_failure: &OnFailure,
    last: &LastFailure,
) -> HandlerResult {
    let own = on_failure.timeout.and_then(|limit| Instant::now().checked_add(limit));
    let deadline = match (own, task.deadline) {
        (Some(own), Some(outer)) => Some(own.min(outer)),
        (own, outer) => own.or(outer),
    };
    let address = task.address.part("on_failure");
    let within = StepTask { address: &address, deadline, ..task };
    let handled = run_steps(workplace, &on_failure.steps, within, scope, last).await;
    for name in &on_failure.captures {
        scope.capture(name, handled.output().into());
    }
    handled
}

/// Runs the steps of a handler below the path of `within`, and shows them the failure that they
/// are for; what fails among them is not counted as a failed step.
async fn run_steps(
    workplace: &StepContext,
    steps: &[Step],
    within: StepTask<'_>,
    scope: &mut StepScope,
    last: &LastFailure,
) -> HandlerResult {
    let failed = scope.failed;
    let before =
        scope.enter_handler(last.error_variable(within), last.failed.output.combined_text());
    let ended = run_sequence(workplace, steps, within.address, within.deadline, scope).await;
    scope.leave_handler(before);
    scope.failed = failed;
    match ended {
        Ok(done) => HandlerResult::Done(done),
        Err(SequenceStop { end: StepOutcome::Interrupted, .. }) => HandlerResult::Interrupted,
        Err(SequenceStop { end: StepOutcome::Stop { failure, .. }, printed }) => {
            HandlerResult::Failed { failure, printed }
        }
        // `sequence` ends early only by the two above.
        Err(SequenceStop { end: StepOutcome::Skipped { .. } | StepOutcome::GoOn(_), .. }) => {
            HandlerResult::Done(SequenceCompletion::default())
        }
    }
}

/// Returns whether the step belongs to an item, which fails with a step that nothing recovers.
fn is_item(workplace: &StepContext) -> bool {
    workplace.identity.item.is_some()
}

/// Decides what the step's failure means for its phase.
fn decide_outcome(
    workplace: &StepContext,
    task: StepTask<'_>,
    on_failure: &OnFailure,
    handled: HandlerResult,
    mut last: LastFailure,
) -> HandlerOutcome {
    let (end, printed, broken) = match handled {
        HandlerResult::Done(SequenceCompletion { printed, has_success: true, .. }) => {
            (HandlerEnd::Succeeded, printed, None)
        }
        HandlerResult::Done(SequenceCompletion { printed, has_success: false, .. }) => {
            (HandlerEnd::Idle, printed, None)
        }
        HandlerResult::Failed { failure, .. } => (HandlerEnd::Failed, String::new(), Some(failure)),
        HandlerResult::Interrupted => return HandlerOutcome::Interrupted,
    };
    match on_failure.verdict(is_item(workplace), end, task.step.continue_on_error) {
        StepVerdict::Recovered => {
            last.record(workplace, task, StepFailureDecision::GoOn);
            let mut output = last.failed.output;
            if on_failure.strategy == Strategy::Fallback {
                output.instead = Some(printed);
                output.exit_code = 0;
            }
            HandlerOutcome::Mended { output, attempt: last.attempt }
        }
        StepVerdict::Ignored => last.continue_phase(workplace, task),
        StepVerdict::Failed => {
            if let Some(broken) = broken.filter(|_| on_failure.handler_failure_fatal) {
                let message = &mut last.failed.failure.message;
                *message = format!("{message} (its handler failed: {})", broken.message);
            }
            let ActionFailure { failure, output, .. } = last.failed;
            HandlerOutcome::Stop { failure, output, attempt: last.attempt }
        }
    }
}
