//! What a workflow wants done about a failed step.
//!
//! ```text
//! failed ─▶ on_exit_code? ─▶ handler ─▶ try again ─▶ … ─▶ verdict
//! ```

use std::time::Instant;

use prodigy_core::{
    event::AfterFailure,
    failure::{Failure, FailureKind},
    workflow::{HandlerEnd, OnFailure, Step, StepVerdict, Strategy, step_label},
};
use serde_json::json;

use super::{
    Finished, Scope, Workplace,
    flow::{StepsDone, Task, may_be_repeated, once, sequence, tell_failed, tell_started},
    output::{Failed, Output},
};

/// What became of a failed step.
pub(super) enum Handled {
    /// It succeeded after all, or something succeeded in its place.
    Mended {
        /// The output that counts.
        output: Output,
        /// The attempt that ended it.
        attempt: u32,
    },
    /// It stays failed, and the next step may run.
    GoOn {
        /// The output of the last try.
        output: Output,
        /// The last attempt.
        attempt: u32,
    },
    /// It stays failed, and the phase has to end.
    Stop {
        /// Why it failed.
        failure: Failure,
        /// The output of the last try.
        output: Output,
        /// The last attempt.
        attempt: u32,
    },
    /// The run was stopped.
    Interrupted,
}

/// How the handler's own steps went.
enum Handler {
    Done(StepsDone),
    Failed(Failure),
    Interrupted,
}

/// The last try of a step, which failed.
pub(super) struct Last {
    /// Why, and what was printed before.
    pub(super) failed: Failed,
    /// Which try it was.
    pub(super) attempt: u32,
    /// When it began.
    pub(super) begun: Instant,
}

impl Last {
    /// Puts the failure on record, with what follows it.
    fn record(&self, workplace: &Workplace, task: Task<'_>, then: AfterFailure) {
        let Failed { failure, output, .. } = &self.failed;
        let took = self.begun.elapsed();
        tell_failed(workplace, task.path, self.attempt, failure, then, took, output.log());
    }

    /// Lets the run go on although the step stays failed.
    fn go_on(self, workplace: &Workplace, task: Task<'_>) -> Handled {
        self.record(workplace, task, AfterFailure::GoOn);
        Handled::GoOn { output: self.failed.output, attempt: self.attempt }
    }

    /// Sets `${error.…}` and `${shell.output}` for the handler.
    fn set_error(&self, scope: &mut Scope, task: Task<'_>) {
        let Failed { failure, output, .. } = &self.failed;
        scope.vars.set(
            "error",
            json!({
                "message": failure.message,
                "exit_code": failure.exit_code,
                "reason": failure.kind.code(),
                "step": step_label(task.step),
                "attempt": self.attempt,
            }),
        );
        let printed = output.both();
        scope.vars.set_field("shell", "output", printed.clone());
        scope.vars.set_field("last", "output", printed);
    }
}

/// Handles a failed step.
pub(super) async fn handle(
    workplace: &Workplace,
    task: Task<'_>,
    scope: &mut Scope,
    last: Last,
) -> Handled {
    last.set_error(scope, task);
    if let Some(code) = last.failed.failure.exit_code
        && let Some(steps) = task.step.on_exit_code.get(&code)
    {
        let prefix = format!("{}.on_exit_code.{code}", task.path);
        match run_steps(workplace, steps, &prefix, task.deadline, scope).await {
            Handler::Interrupted => return Handled::Interrupted,
            // Nothing was done about it.
            Handler::Done(done) if !done.has_success && is_item(workplace) => {}
            Handler::Done(_) => {
                last.record(workplace, task, AfterFailure::GoOn);
                return Handled::Mended { output: last.failed.output, attempt: last.attempt };
            }
            Handler::Failed(_) => {}
        }
    }
    match &task.step.on_failure {
        Some(on_failure) => mend(workplace, task, scope, on_failure, last).await,
        None if is_tolerated(task.step, &last.failed.failure) => last.go_on(workplace, task),
        None => {
            let Failed { failure, output, .. } = last.failed;
            Handled::Stop { failure, output, attempt: last.attempt }
        }
    }
}

/// Returns whether a failure means that the run was stopped; a step may also say that of
/// something of its own.
pub(super) fn is_stopped(workplace: &Workplace, failure: &Failure) -> bool {
    failure.kind == FailureKind::Cancelled && workplace.is_over()
}

/// Returns whether the run goes on because `continue_on_error` or `on_incomplete` says so.
fn is_tolerated(step: &Step, failure: &Failure) -> bool {
    let is_judged = failure.kind == FailureKind::ValidationFailed
        && step.validate.as_ref().is_some_and(|validate| !validate.fail_workflow);
    step.continue_on_error || is_judged
}

/// Runs the handler, and the original again as often as allowed.
async fn mend(
    workplace: &Workplace,
    task: Task<'_>,
    scope: &mut Scope,
    on_failure: &OnFailure,
    mut last: Last,
) -> Handled {
    let retries = matches!(on_failure.strategy, Strategy::Recovery | Strategy::Fallback);
    let mut tries_left = if retries { on_failure.max_attempts.get() - 1 } else { 0 };
    loop {
        let handled = run_handler(workplace, task, scope, on_failure).await;
        if matches!(handled, Handler::Interrupted) {
            return Handled::Interrupted;
        }
        // What may have been done already is not done a second time.
        if tries_left == 0 || !may_be_repeated(workplace, task, &last.failed.failure) {
            return verdict(workplace, task, on_failure, handled, last);
        }
        last.record(workplace, task, AfterFailure::Retry);
        tries_left -= 1;
        let (attempt, begun) = (last.attempt + 1, Instant::now());
        tell_started(workplace, task, scope, attempt);
        match once(workplace, task, scope, attempt).await {
            Ok(output) => return Handled::Mended { output, attempt },
            Err(again) if is_stopped(workplace, &again.failure) => {
                return Handled::Interrupted;
            }
            Err(again) => last = Last { failed: *again, attempt, begun },
        }
        last.set_error(scope, task);
        if tries_left == 0 {
            // The handler runs before each new try, and there is none.
            return verdict(workplace, task, on_failure, handled, last);
        }
    }
}

/// Runs the handler's steps within its time.
async fn run_handler(
    workplace: &Workplace,
    task: Task<'_>,
    scope: &mut Scope,
    on_failure: &OnFailure,
) -> Handler {
    let own = on_failure.timeout.and_then(|limit| Instant::now().checked_add(limit));
    let deadline = match (own, task.deadline) {
        (Some(own), Some(outer)) => Some(own.min(outer)),
        (own, outer) => own.or(outer),
    };
    let prefix = format!("{}.on_failure", task.path);
    let handled = run_steps(workplace, &on_failure.steps, &prefix, deadline, scope).await;
    if let Handler::Done(done) = &handled {
        for name in &on_failure.captures {
            scope.capture(name, done.printed.clone().into());
        }
    }
    handled
}

/// Runs the steps of a handler; what fails among them is not counted as a failed step.
async fn run_steps(
    workplace: &Workplace,
    steps: &[Step],
    prefix: &str,
    deadline: Option<Instant>,
    scope: &mut Scope,
) -> Handler {
    let failed = scope.failed;
    let ended = sequence(workplace, steps, prefix, deadline, scope).await;
    scope.failed = failed;
    match ended {
        Ok(done) => Handler::Done(done),
        Err(Finished::Interrupted) => Handler::Interrupted,
        Err(Finished::Stop { failure, .. }) => Handler::Failed(failure),
        // `sequence` ends early only by the two above.
        Err(Finished::Skipped { .. } | Finished::GoOn(_)) => Handler::Done(StepsDone::default()),
    }
}

/// Returns whether the step belongs to an item, which fails with a step that nothing recovers.
fn is_item(workplace: &Workplace) -> bool {
    workplace.identity.item.is_some()
}

/// Decides what the step's failure means for its phase.
fn verdict(
    workplace: &Workplace,
    task: Task<'_>,
    on_failure: &OnFailure,
    handled: Handler,
    mut last: Last,
) -> Handled {
    let (end, printed, broken) = match handled {
        Handler::Done(StepsDone { printed, has_success: true }) => {
            (HandlerEnd::Succeeded, printed, None)
        }
        Handler::Done(StepsDone { printed, has_success: false }) => {
            (HandlerEnd::Idle, printed, None)
        }
        Handler::Failed(failure) => (HandlerEnd::Failed, String::new(), Some(failure)),
        Handler::Interrupted => return Handled::Interrupted,
    };
    let is_tolerated = is_tolerated(task.step, &last.failed.failure);
    match on_failure.verdict(is_item(workplace), end, is_tolerated) {
        StepVerdict::Recovered => {
            last.record(workplace, task, AfterFailure::GoOn);
            let mut output = last.failed.output;
            if on_failure.strategy == Strategy::Fallback {
                output.instead = Some(printed);
                output.exit_code = 0;
            }
            Handled::Mended { output, attempt: last.attempt }
        }
        StepVerdict::Ignored => last.go_on(workplace, task),
        StepVerdict::Failed => {
            if let Some(broken) = broken.filter(|_| on_failure.handler_failure_fatal) {
                let message = &mut last.failed.failure.message;
                *message = format!("{message} (its handler failed: {})", broken.message);
            }
            let Failed { failure, output, .. } = last.failed;
            Handled::Stop { failure, output, attempt: last.attempt }
        }
    }
}
