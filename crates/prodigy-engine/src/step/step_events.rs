//! The records of a step's course: that a try begins, ends or fails.

use std::time::Duration;

use prodigy_core::{
    event::{Event, LogRange, StepCompleted, StepFailureDecision},
    failure::Failure,
    workflow::rendered_label,
};

use super::{
    StepCompletion, StepContext, StepScope,
    runner::{StepTask, millis},
};

/// Tells that a try begins.
pub(crate) fn emit_started(
    workplace: &StepContext,
    task: StepTask<'_>,
    scope: &StepScope,
    attempt: u32,
) {
    let (step, name) = (task.path().to_owned(), rendered_label(task.step, &scope.vars));
    workplace.emit(Event::StepStarted { step, name, attempt, identity: None });
}

/// Tells that a step ended well, or that the run goes on without it.
pub(crate) fn emit_completed(
    workplace: &StepContext,
    task: StepTask<'_>,
    done: &StepCompletion,
    took: Duration,
) {
    workplace.emit(Event::StepCompleted(Box::new(StepCompleted {
        step: task.path().to_owned(),
        id: task.step.id.clone(),
        attempt: done.attempt,
        status: done.status,
        exit_code: done.exit_code,
        duration_ms: millis(took),
        // The output of inner steps is in the log; the job keeps that of its own steps.
        output: String::new(),
        agent: done.agent,
        captures: std::collections::BTreeMap::new(),
        inner: std::collections::BTreeMap::new(),
        snapshot: None,
        log: done.log.clone(),
        adopted: done.adopted,
    })));
}

/// Tells that a try failed.
pub(crate) fn emit_failed(
    workplace: &StepContext,
    step: &str,
    attempt: u32,
    failure: &Failure,
    then: StepFailureDecision,
    took: Duration,
    log: Option<LogRange>,
) {
    let (step, failure) = (step.to_owned(), failure.clone());
    let duration_ms = millis(took);
    workplace.emit(Event::StepFailed { step, attempt, failure, then, duration_ms, log });
}
