//! The course of one step: condition, tries, checks, handlers.

use std::{
    io,
    path::Path,
    time::{Duration, Instant},
};

use prodigy_core::{
    capture::CaptureStream,
    event::{Event, StepFailureDecision, StepStatus},
    failure::{Failure, ReasonClass, ReasonCode},
    workflow::{Step, StepAction, StepAddress, step_label},
};

use super::{
    OUTPUTS, StepCompletion, StepContext, StepOutcome, StepScope,
    action::{StepAttempt, run_action, template_failure},
    handler::{self, HandlerOutcome},
    output::{ActionFailure, ActionOutput, file_failure, infrastructure_failure},
    progress::FinishedAction,
    retry::run_with_retries,
    step_events::{emit_completed, emit_failed, emit_started},
    validate,
};
use crate::root_dir::{MissingDirs, RootDir};

/// One step, where it stands and how long it may take.
#[derive(Clone, Copy)]
pub struct StepTask<'a> {
    /// The step.
    pub step: &'a Step,
    /// The place where it stands.
    pub address: &'a StepAddress,
    /// Set if the job itself records the step's start and end.
    pub top_level: bool,
    /// When an enclosing limit ends.
    pub deadline: Option<Instant>,
}

impl<'a> StepTask<'a> {
    /// Returns the path of the step.
    pub(crate) fn path(self) -> &'a str {
        self.address.path()
    }
}

/// Runs a step to its end: retries, handlers and checks included.
///
/// The events of a top-level step's beginning and end are the job's to write; what
/// happens in between, and everything about the steps inside it, is told here.
pub async fn run(
    workplace: &StepContext,
    task: StepTask<'_>,
    scope: &mut StepScope,
) -> StepOutcome {
    let (step, path) = (task.step, task.path());
    if let Some(when) = &step.when
        && !when.is_true(&scope.vars)
    {
        let when = when.source().to_owned();
        if !task.top_level {
            let (id, name, when) = (step.id.clone(), step_label(step), when.clone());
            workplace.emit(Event::StepSkipped { step: path.to_owned(), id, name, when });
            scope.skipped(step.id.as_deref());
        }
        return StepOutcome::Skipped { when };
    }
    let begun = Instant::now();
    if !task.top_level {
        emit_started(workplace, task, scope, 1);
    }
    let mut attempt = 1;
    let tried = run_with_retries(workplace, task, scope, &mut attempt).await;
    let finished = finish(workplace, task, scope, tried, attempt, begun).await;
    if !matches!(finished, StepOutcome::Interrupted) {
        workplace.forget_uncommitted(task);
    }
    if let (false, StepOutcome::GoOn(done)) = (task.top_level, &finished) {
        emit_completed(workplace, task, done, begun.elapsed());
    }
    if let (false, StepOutcome::Stop { failure, attempt, log, .. }) = (task.top_level, &finished) {
        let log = log.clone();
        emit_failed(
            workplace,
            path,
            *attempt,
            failure,
            StepFailureDecision::Stop,
            begun.elapsed(),
            log,
        );
    }
    if let StepOutcome::GoOn(done) = &finished {
        scope.failed.count(done.status);
        scope.finished(step.id.as_deref(), done.agent, &done.result());
    }
    finished
}

/// Tries the step once, and remembers why it failed for the next try.
pub(crate) async fn run_once(
    workplace: &StepContext,
    task: StepTask<'_>,
    scope: &mut StepScope,
    attempt: u32,
) -> Result<ActionOutput, Box<ActionFailure>> {
    // The steps of a judge have outputs, too.
    let before = task.step.validate.is_some().then(|| scope.vars.save(OUTPUTS));
    let tried = run_attempt(workplace, task, scope, attempt).await;
    if let Err(failed) = &tried {
        workplace.past.add(task.path(), attempt, &failed.failure);
        if let Some(before) = before {
            scope.vars.restore(before);
        }
    }
    tried
}

/// Carries out the action, unless it finished before the work was cut off, then has it judged.
async fn run_attempt(
    workplace: &StepContext,
    task: StepTask<'_>,
    scope: &mut StepScope,
    attempt: u32,
) -> Result<ActionOutput, Box<ActionFailure>> {
    if workplace.is_cancelled() {
        return Err(ActionFailure::without_output(cancelled_failure()));
    }
    let progress = workplace.progress();
    let key = progress.next_key("act", task.path(), attempt);
    let acted = match progress.restore_result::<FinishedAction>(&key) {
        Some(finished) => {
            if let StepAction::Foreach(_) = task.step.action {
                // Everything in it has finished, too: only the variables are made once more.
                let which = StepAttempt::new(task.address, attempt, None);
                run_action(workplace, task.step, scope, which).await.ok();
            }
            finished.restore(scope)
        }
        None => run_recorded_action(workplace, task, scope, attempt, key).await,
    };
    let output = acted?;
    if let Some(validate) = &task.step.validate {
        let judged = validate::validate_step(workplace, task, validate, scope, &output).await;
        match judged {
            Err(failure)
                if failure.kind == ReasonCode::ValidationFailed && !validate.fail_workflow =>
            {
                workplace.warn(task, format!("{}; it counts as done", failure.message));
            }
            judged => {
                judged.map_err(|failure| ActionFailure::with_output(failure, output.clone()))?;
            }
        }
    }
    Ok(output)
}

/// Carries out the action, and remembers how it ended if it was not cut off.
async fn run_recorded_action(
    workplace: &StepContext,
    task: StepTask<'_>,
    scope: &mut StepScope,
    attempt: u32,
    key: String,
) -> Result<ActionOutput, Box<ActionFailure>> {
    let acted = Box::pin(run_action_once(workplace, task, scope, attempt, &key)).await;
    // A failure that comes while everything ends may come of that.
    if acted.is_ok() || !workplace.is_cancelled() {
        let names = task.step.captures.iter().map(|capture| &capture.name);
        let value = |name: &String| Some((name.clone(), scope.captures.get(name)?.clone()));
        let finished = FinishedAction::of(&acted, names.filter_map(value).collect());
        workplace.progress().save_result(key, &finished);
    }
    acted
}

/// Carries out the action, then looks for everything that must hold after it.
async fn run_action_once(
    workplace: &StepContext,
    task: StepTask<'_>,
    scope: &mut StepScope,
    attempt: u32,
    key: &str,
) -> Result<ActionOutput, Box<ActionFailure>> {
    let StepTask { step, address, deadline, .. } = task;
    let within = match deadline.map(|at| at.saturating_duration_since(Instant::now())) {
        Some(Duration::ZERO) => {
            let failure = Failure::new(ReasonCode::Timeout, "no time is left for this step");
            return Err(ActionFailure::without_output(failure));
        }
        rest => rest,
    };
    workplace.note_uncommitted(task).await.map_err(ActionFailure::without_output)?;
    let before = head_before(workplace, step, key)?;
    let which = StepAttempt { action: Some(key), ..StepAttempt::new(address, attempt, within) };
    let output = run_action(workplace, step, scope, which).await?;
    let fail = |failure: Failure| ActionFailure::with_output(failure, output.clone());
    write_copy(workplace, step, scope, &output).map_err(fail)?;
    for capture in &step.captures {
        let is_data = output.is_data && capture.stream == CaptureStream::Stdout;
        let value = output
            .read_all(workplace, capture.stream)
            .and_then(|text| capture.format.for_output(is_data).read(&text))
            .map_err(|message| {
                let message = format!("cannot capture `{}`: {message}", capture.name);
                fail(output.failure(ReasonCode::ParseError, message))
            })?;
        scope.capture(&capture.name, value);
    }
    workplace.commit_uncommitted(task, scope).await.map_err(|failure| {
        let Failure { kind, message, .. } = failure;
        fail(output.failure(kind, message))
    })?;
    if step.commit_required && head(workplace)? == before {
        let message = "the step made no commit, and `commit_required` is set";
        return Err(fail(output.failure(ReasonCode::NoCommit, message)));
    }
    Ok(output)
}

/// Returns the commit that was checked out when an action first began, if its step has to commit.
///
/// Commits that an agent made before a limit cut it off count.
fn head_before(
    workplace: &StepContext,
    step: &Step,
    key: &str,
) -> Result<String, Box<ActionFailure>> {
    let progress = workplace.progress();
    let begun = progress.begin(key);
    if !step.commit_required {
        return Ok(String::new());
    }
    if let Some(head) = begun.and_then(|begun| begun.head) {
        return Ok(head);
    }
    let head = head(workplace)?;
    progress.note_head(key, &head);
    Ok(head)
}

/// Returns whether a failed step may be tried again: nothing outside can have been changed,
/// or it does no harm to change it again.
pub(crate) fn is_safe_to_retry(
    workplace: &StepContext,
    task: StepTask<'_>,
    failure: &Failure,
) -> bool {
    failure.kind.class() != ReasonClass::Commit && !workplace.effects.is_uncertain(task.address)
}

/// Returns the commit that the worktree is at.
fn head(workplace: &StepContext) -> Result<String, Box<ActionFailure>> {
    workplace
        .tree
        .head()
        .map_err(|error| ActionFailure::without_output(infrastructure_failure(&error)))
}

/// Writes the copy of standard output that `output_file` asks for.
fn write_copy(
    workplace: &StepContext,
    step: &Step,
    scope: &StepScope,
    output: &ActionOutput,
) -> Result<(), Failure> {
    let Some(file) = &step.output_file else { return Ok(()) };
    let shown = file.render(&scope.vars).map_err(|error| template_failure(&error))?;
    let words = |error: &io::Error| format!("output_file `{shown}`: {error}");
    let created = RootDir::open(workplace.tree.path())
        .and_then(|root| root.create(Path::new(&shown), 0o644, MissingDirs::Create));
    let mut file = created.map_err(|error| match error.io() {
        Some(error) => file_failure(error, &words(error)),
        None => Failure::new(ReasonCode::WorktreeError, format!("output_file: {error}")),
    })?;
    output.copy_to(workplace, &mut file).map_err(|error| file_failure(&error, &words(&error)))
}

/// Draws what follows from how the tries went.
async fn finish(
    workplace: &StepContext,
    task: StepTask<'_>,
    scope: &mut StepScope,
    tried: Result<ActionOutput, Box<ActionFailure>>,
    attempt: u32,
    begun: Instant,
) -> StepOutcome {
    let done = |output: &ActionOutput, status| StepCompletion {
        status,
        attempt,
        exit_code: output.exit_code,
        output: output.stdout_text(),
        is_data: output.is_data,
        agent: output.agent,
        log: output.log(),
        adopted: output.adopted,
    };
    let failed = match tried {
        Ok(output) => {
            let step_done = done(&output, StepStatus::Success);
            return succeed(workplace, task, scope, step_done).await;
        }
        Err(failed) => failed,
    };
    if handler::is_cancelled(workplace, &failed.failure) {
        return StepOutcome::Interrupted;
    }
    let last = handler::LastFailure { failed: *failed, attempt, begun };
    match handler::handle(workplace, task, scope, last).await {
        HandlerOutcome::Mended { output, attempt } => {
            let mut mended = done(&output, StepStatus::Recovered);
            mended.attempt = attempt;
            succeed(workplace, task, scope, mended).await
        }
        HandlerOutcome::GoOn { output, attempt } => {
            let mut failed = done(&output, StepStatus::Failed);
            failed.attempt = attempt;
            StepOutcome::GoOn(failed)
        }
        HandlerOutcome::Stop { failure, output, attempt } => {
            StepOutcome::Stop { failure, attempt, output: output.stdout_text(), log: output.log() }
        }
        HandlerOutcome::Interrupted => StepOutcome::Interrupted,
    }
}

/// Runs what the workflow wants done after success.
async fn succeed(
    workplace: &StepContext,
    task: StepTask<'_>,
    scope: &mut StepScope,
    done: StepCompletion,
) -> StepOutcome {
    scope.finished(task.step.id.as_deref(), done.agent, &done.result());
    let (steps, list) = (&task.step.on_success, task.address.part("on_success"));
    for (number, step) in steps.iter().enumerate() {
        let address = list.step(steps, number);
        let inner = StepTask { step, address: &address, top_level: false, deadline: task.deadline };
        match Box::pin(run(workplace, inner, scope)).await {
            StepOutcome::Skipped { .. } | StepOutcome::GoOn(_) => {}
            StepOutcome::Stop { mut failure, log, .. } => {
                failure.message = format!("on_success: {}", failure.message);
                let StepCompletion { attempt, output, .. } = done;
                return StepOutcome::Stop { failure, attempt, output, log };
            }
            StepOutcome::Interrupted => return StepOutcome::Interrupted,
        }
    }
    StepOutcome::GoOn(done)
}

/// Returns the failure of a step that was not let finish.
pub fn cancelled_failure() -> Failure {
    Failure::new(ReasonCode::Cancelled, "the run was stopped")
}

/// Returns a duration in whole milliseconds.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
