//! One attempt of one item: its steps, its result.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use prodigy_core::{
    event::{AgentCompleted, AttemptStatus, WorkSuspended},
    failure::{Failure, ReasonCode},
    job::SuspensionCause,
    vars::Vars,
    workflow::{ResultConfig, Step, StepAddress, step_label},
};
use serde_json::{Value, json, value::to_raw_value};

use super::{worker::leaves_no_processes, worker_pool::WorkerContext};
use crate::{
    git::WorktreeStatus,
    queue::AttemptOutcome,
    root_dir::RootDir,
    step::{self, FailedSteps, StepContext, StepOutcome, StepScope, StepTask, millis},
    store::SpooledItem,
};

/// The most of an item's result that is kept.
const RESULT_LIMIT: u64 = 1024 * 1024;

/// An attempt that is about to be made.
pub(crate) struct AttemptRunner<'a> {
    pub(crate) crew: &'a WorkerContext,
    pub(crate) workplace: &'a StepContext,
    pub(crate) item: &'a SpooledItem,
    /// The item's place, from 0.
    pub(crate) place: u32,
}

/// The cause of an attempt's failure, for the handler of the error policy.
#[derive(Clone, Copy)]
pub(crate) struct FailedStep<'a> {
    /// The path of the step, if it was a step.
    pub(crate) step: Option<&'a str>,
    pub(crate) failure: &'a Failure,
}

/// The result of an attempt.
pub(crate) struct AttemptReport {
    took: Duration,
    cost_usd: f64,
    failed_steps: FailedSteps,
    result: Value,
    /// The step that failed, if it was a step, and the failure.
    failed: Option<(Option<String>, Failure)>,
    interrupted: bool,
    /// The limit or the budget that cut it off, and what it keeps.
    cut_off: Option<(SuspensionCause, WorkSuspended)>,
}

/// The output of an item's last step.
#[derive(Default)]
struct LastOutput {
    text: String,
    /// Set if it is JSON that satisfies the schema the step asks for.
    is_data: bool,
}

/// Runs an item's steps.
pub(crate) async fn run(attempt: AttemptRunner<'_>) -> AttemptReport {
    let begun = Instant::now();
    let AttemptRunner { crew, workplace, .. } = &attempt;
    let deadline = crew.map.agent_timeout.and_then(|limit| begun.checked_add(limit));
    let mut scope = StepScope::new(attempt.vars());
    let mut ended = AttemptReport {
        took: Duration::ZERO,
        cost_usd: 0.0,
        failed_steps: FailedSteps::default(),
        result: Value::Null,
        failed: None,
        interrupted: false,
        cut_off: None,
    };
    let mut printed = LastOutput::default();
    let list = StepAddress::named("");
    for (number, step) in crew.map.steps.iter().enumerate() {
        let address = list.step(&crew.map.steps, number);
        let task = StepTask { step, address: &address, top_level: false, deadline };
        match step::run(workplace, task, &mut scope).await {
            StepOutcome::Skipped { .. } => {}
            StepOutcome::GoOn(done) => {
                printed = LastOutput { is_data: done.is_data, text: done.output };
            }
            StepOutcome::Stop { mut failure, .. } => {
                if failure.kind == ReasonCode::Timeout
                    && let Some(limit) = crew.map.agent_timeout.filter(|_| is_past(deadline))
                {
                    // The step was given what was left, which tells nobody anything.
                    let limit = prodigy_core::duration::format(limit);
                    failure.message = format!("the attempt took longer than {limit}");
                }
                ended.failed = Some((Some(address.path().to_owned()), failure));
                break;
            }
            StepOutcome::Interrupted => {
                ended.interrupted = true;
                break;
            }
        }
    }
    // However it ended, it may have planted something.
    if let Err(failure) = workplace.check_repo_guard() {
        ended.fail(failure);
    }
    if ended.failed.is_none() && !ended.interrupted {
        match result(workplace, &crew.map.result, printed) {
            Ok(result) => ended.result = result,
            Err(failure) => ended.fail(failure),
        }
    }
    ended.failed_steps = scope.failed;
    let cut_off = workplace.interruption.take();
    ended.cut_off = cut_off.map(|cut_off| (cut_off, WorkSuspended::default()));
    ended.cost_usd = workplace.spent();
    ended.took = begun.elapsed();
    ended
}

/// Returns whether a moment is over.
fn is_past(moment: Option<Instant>) -> bool {
    moment.is_some_and(|moment| moment <= Instant::now())
}

/// Runs the steps of a handler after a failed attempt; returns why it failed, if it did.
pub(crate) async fn run_handler(
    attempt: AttemptRunner<'_>,
    steps: &[Step],
    name: &str,
    failed: FailedStep<'_>,
) -> Option<Failure> {
    let FailedStep { step, failure } = failed;
    let number = step.and_then(|path| path.parse::<usize>().ok()?.checked_sub(1));
    let step = number.and_then(|number| attempt.crew.map.steps.get(number)).map(step_label);
    let error = json!({
        "message": failure.message,
        "exit_code": failure.exit_code,
        "reason": failure.kind.code(),
        "attempt": attempt.workplace.identity.item.as_ref().map(|item| item.attempt),
        "step": step,
    });
    let mut scope = StepScope::of_handler(attempt.vars(), error, failure.output_tail.clone());
    let list = StepAddress::named(format!("handler.{name}"));
    for (number, step) in steps.iter().enumerate() {
        let address = list.step(steps, number);
        let task = StepTask { step, address: &address, top_level: false, deadline: None };
        match step::run(attempt.workplace, task, &mut scope).await {
            StepOutcome::Skipped { .. } | StepOutcome::GoOn(_) => {}
            StepOutcome::Stop { failure, .. } => return Some(failure),
            StepOutcome::Interrupted => return Some(step::cancelled_failure()),
        }
    }
    attempt.workplace.check_repo_guard().err()
}

impl AttemptRunner<'_> {
    /// Returns the variables that the item's steps see.
    pub(crate) fn vars(&self) -> Vars {
        let mut vars = item_vars(&self.crew.vars, self.item, self.place, self.crew.total);
        let agent = self.workplace.identity.item.as_ref().map(|item| item.agent.to_string());
        vars.set("agent_id", agent.unwrap_or_default());
        vars
    }
}

/// Returns what every step of an item sees of it, over what all items see.
pub(crate) fn item_vars(outer: &Arc<Vars>, item: &SpooledItem, place: u32, total: u32) -> Vars {
    let mut vars = Vars::with_base(Arc::clone(outer));
    // The text was read as JSON when it was chosen.
    vars.set("item", serde_json::from_str(item.data.get()).unwrap_or(Value::Null));
    vars.set("item_id", item.id.as_str());
    vars.set("item_index", place + 1);
    vars.set("item_total", total);
    vars
}

impl AttemptReport {
    /// Makes it a failure, unless it is one already.
    pub(crate) fn fail(&mut self, failure: Failure) {
        if self.failed.is_none() && !self.interrupted {
            self.failed = Some((None, failure));
        }
    }

    /// Returns whether it did all that it was to do.
    pub(crate) fn is_success(&self) -> bool {
        self.failed.is_none() && !self.interrupted
    }

    /// Returns whether it was cut off by a limit or a budget.
    pub(crate) fn is_suspended(&self) -> bool {
        self.interrupted && self.cut_off.is_some()
    }

    /// Stores the suspended work, if a limit or a budget cut the attempt off.
    pub(crate) fn set_suspended_work(&mut self, kept: WorkSuspended) {
        if let Some((_, work)) = &mut self.cut_off {
            *work = kept;
        }
    }

    /// Returns whether every process of it ended by itself.
    pub(crate) fn left_no_processes(&self) -> bool {
        !self.interrupted
            && self.failed.as_ref().is_none_or(|(_, failure)| leaves_no_processes(failure))
    }

    /// Returns what the job is told.
    pub(crate) fn outcome(self, base: &str, left: Option<&WorktreeStatus>) -> AttemptOutcome {
        let duration_ms = millis(self.took);
        if let Some((cut_off, work)) = self.cut_off.filter(|_| self.interrupted) {
            let (cost_usd, work) = (self.cost_usd, Box::new(work));
            return AttemptOutcome::CutOff { cut_off, work, duration_ms, cost_usd, secured: false };
        }
        if self.interrupted {
            return AttemptOutcome::Released;
        }
        if let Some((step, failure)) = self.failed {
            let cost_usd = self.cost_usd;
            return AttemptOutcome::Failed { step, failure, duration_ms, cost_usd, secured: false };
        }
        let uncommitted = left.map_or(0, |left| left.uncommitted.len());
        AttemptOutcome::Completed(Box::new(AgentCompleted {
            attempt: 0,
            duration_ms,
            base: base.to_owned(),
            head: left.map_or_else(|| base.to_owned(), |left| left.head.clone()),
            commits: left.map_or(0, |left| left.commits),
            recovered: self.failed_steps.recovered,
            ignored: self.failed_steps.ignored,
            uncommitted: u32::try_from(uncommitted).unwrap_or(u32::MAX),
            status: AttemptStatus::Success,
            cost_usd: self.cost_usd,
            result: self.result,
        }))
    }
}

/// Returns an item's result: what the workflow names, or what its last step printed.
fn result(
    workplace: &StepContext,
    config: &ResultConfig,
    printed: LastOutput,
) -> Result<Value, Failure> {
    let LastOutput { text, is_data } = printed;
    let is_wanted = is_data || config.json_path.is_some() || config.schema.is_some();
    let value = match &config.file {
        Some(file) => read_result(workplace, file)?,
        None if is_wanted => {
            serde_json::from_str(&text).map_err(|error| parse_error(&error.to_string()))?
        }
        None if text.is_empty() => return Ok(Value::Null),
        None => return Ok(Value::String(text)),
    };
    let value = match &config.json_path {
        None => value,
        Some(path) => {
            let document = to_raw_value(&value).map_err(|error| parse_error(&error.to_string()))?;
            let found =
                path.select_value(&document).map_err(|error| parse_error(&error.to_string()))?;
            found.ok_or_else(|| {
                let message = "`result.json_path` matches nothing in the item's result";
                Failure::new(ReasonCode::SchemaInvalid, message)
            })?
        }
    };
    check(config, &value)?;
    Ok(value)
}

fn parse_error(why: &str) -> Failure {
    Failure::new(ReasonCode::ParseError, format!("the item's result is not usable: {why}"))
}

/// Checks a result against its schema.
fn check(config: &ResultConfig, value: &Value) -> Result<(), Failure> {
    let Some(schema) = &config.schema else { return Ok(()) };
    schema.validate(value).map_err(|violations| {
        let first: Vec<String> = violations.iter().take(3).map(ToString::to_string).collect();
        let message = format!("the item's result does not fit its schema: {}", first.join("; "));
        Failure::new(ReasonCode::SchemaInvalid, message)
    })
}

/// Reads the file that holds an item's result.
fn read_result(workplace: &StepContext, file: &str) -> Result<Value, Failure> {
    let wrong = |why: String| {
        let message = format!("the item's result file `{file}` cannot be used: {why}");
        Failure::new(ReasonCode::ParseError, message)
    };
    let read = RootDir::open(workplace.tree.path())
        .and_then(|root| root.read_bounded(Path::new(file), RESULT_LIMIT));
    let bytes = read.map_err(|error| {
        let is_too_large = error.is_too_large();
        let failure = wrong(error.to_string());
        let kind = if is_too_large { ReasonCode::OutputTooLarge } else { failure.kind };
        Failure { kind, ..failure }
    })?;
    let bytes = bytes.ok_or_else(|| wrong("it is not there".to_owned()))?;
    serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))
}
