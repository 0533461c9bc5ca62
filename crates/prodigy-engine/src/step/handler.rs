//! What a workflow wants done about a failed step.
//!
//! ```text
//! failed ─▶ on_exit_code? ─▶ handler ─▶ try again ─▶ … ─▶ verdict
//! ```

use std::time::Instant;

use prodigy_core::{
    event::AfterFailure,
    failure::{Failure, FailureKind},
    workflow::{OnFailure, Strategy, step_label},
};
use serde_json::json;

use super::{
    Finished, Scope, Workplace,
    flow::{Task, once, sequence, tell_failed, tell_started},
    output::Output,
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
    Succeeded(String),
    Failed(Failure),
    Interrupted,
}

/// Handles a failed step.
pub(super) async fn handle(
    workplace: &Workplace,
    task: Task<'_>,
    scope: &mut Scope,
    failure: Failure,
    output: Output,
    attempt: u32,
) -> Handled {
    set_error(scope, task, &failure, &output, attempt);
    if let Some(code) = failure.exit_code
        && let Some(steps) = task.step.on_exit_code.get(&code)
    {
        let prefix = format!("{}.on_exit_code.{code}", task.path);
        match sequence(workplace, steps, &prefix, task.deadline, scope).await {
            Ok(_) => {
                record(workplace, task, &failure, &output, attempt);
                return Handled::Mended { output, attempt };
            }
            Err(Finished::Interrupted) => return Handled::Interrupted,
            Err(Finished::Stop { .. } | Finished::Skipped { .. } | Finished::GoOn(_)) => {}
        }
    }
    match &task.step.on_failure {
        Some(on_failure) => {
            mend(workplace, task, scope, on_failure, (failure, output, attempt)).await
        }
        None if task.step.continue_on_error => {
            record(workplace, task, &failure, &output, attempt);
            Handled::GoOn { output, attempt }
        }
        None => Handled::Stop { failure, output, attempt },
    }
}

/// Runs the handler, and the original again as often as allowed.
async fn mend(
    workplace: &Workplace,
    task: Task<'_>,
    scope: &mut Scope,
    on_failure: &OnFailure,
    (mut failure, mut output, mut attempt): (Failure, Output, u32),
) -> Handled {
    let retries = matches!(on_failure.strategy, Strategy::Recovery | Strategy::Fallback);
    let mut tries_left = if retries { on_failure.max_attempts.get() - 1 } else { 0 };
    loop {
        let handled = run_handler(workplace, task, scope, on_failure).await;
        if matches!(handled, Handler::Interrupted) {
            return Handled::Interrupted;
        }
        if tries_left == 0 {
            return verdict(workplace, task, on_failure, handled, (failure, output, attempt));
        }
        record_retry(workplace, task, &failure, &output, attempt);
        tries_left -= 1;
        attempt += 1;
        tell_started(workplace, task, scope, attempt);
        match once(workplace, task, scope, attempt).await {
            Ok(output) => return Handled::Mended { output, attempt },
            Err(again) if again.failure.kind == FailureKind::Cancelled => {
                return Handled::Interrupted;
            }
            Err(again) => {
                set_error(scope, task, &again.failure, &again.output, attempt);
                (failure, output) = (again.failure, again.output);
                if tries_left == 0 {
                    // The handler runs before each new try, and there is none.
                    return verdict(
                        workplace,
                        task,
                        on_failure,
                        handled,
                        (failure, output, attempt),
                    );
                }
            }
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
    match sequence(workplace, &on_failure.steps, &prefix, deadline, scope).await {
        Ok(printed) => {
            for name in &on_failure.captures {
                scope.capture(name, printed.clone().into());
            }
            Handler::Succeeded(printed)
        }
        Err(Finished::Interrupted) => Handler::Interrupted,
        Err(Finished::Stop { failure, .. }) => Handler::Failed(failure),
        // `sequence` ends early only by the two above.
        Err(Finished::Skipped { .. } | Finished::GoOn(_)) => Handler::Succeeded(String::new()),
    }
}

/// Decides what the step's failure means for its phase.
fn verdict(
    workplace: &Workplace,
    task: Task<'_>,
    on_failure: &OnFailure,
    handled: Handler,
    (failure, mut output, attempt): (Failure, Output, u32),
) -> Handled {
    let handler_failed = match handled {
        Handler::Succeeded(printed) => {
            if on_failure.strategy == Strategy::Fallback {
                record(workplace, task, &failure, &output, attempt);
                output.instead = Some(printed);
                output.exit_code = 0;
                return Handled::Mended { output, attempt };
            }
            None
        }
        Handler::Failed(failure) => Some(failure),
        Handler::Interrupted => return Handled::Interrupted,
    };
    // A clean-up never changes the verdict.
    let fatal = on_failure.handler_failure_fatal && on_failure.strategy != Strategy::Cleanup;
    let stops = on_failure.fail_workflow || (fatal && handler_failed.is_some());
    if stops {
        let mut failure = failure;
        if let (true, Some(handler)) = (fatal, handler_failed) {
            failure.message =
                format!("{} (its handler failed: {})", failure.message, handler.message);
        }
        return Handled::Stop { failure, output, attempt };
    }
    record(workplace, task, &failure, &output, attempt);
    Handled::GoOn { output, attempt }
}

/// Puts a failure that does not end the phase on record.
fn record(workplace: &Workplace, task: Task<'_>, failure: &Failure, output: &Output, attempt: u32) {
    let took = std::time::Duration::ZERO;
    tell_failed(workplace, task.path, attempt, failure, AfterFailure::GoOn, took, output.log());
}

/// Puts a failure on record after which the step is tried again.
fn record_retry(
    workplace: &Workplace,
    task: Task<'_>,
    failure: &Failure,
    output: &Output,
    attempt: u32,
) {
    let took = std::time::Duration::ZERO;
    tell_failed(workplace, task.path, attempt, failure, AfterFailure::Retry, took, output.log());
}

/// Sets `${error.…}` and `${shell.output}` for the handler.
fn set_error(scope: &mut Scope, task: Task<'_>, failure: &Failure, output: &Output, attempt: u32) {
    scope.vars.set(
        "error",
        json!({
            "message": failure.message,
            "exit_code": failure.exit_code,
            "reason": failure.kind.code(),
            "step": step_label(task.step),
            "attempt": attempt,
        }),
    );
    let printed = output.both();
    scope.vars.set_field("shell", "output", printed.clone());
    scope.vars.set_field("last", "output", printed);
}
