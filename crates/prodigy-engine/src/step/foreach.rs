//! Steps for each of some values.

use std::time::Instant;

use prodigy_core::{
    failure::ReasonCode,
    workflow::{Foreach, ForeachInput, ForeachValue, Step},
};
use serde_json::Value;

use super::{
    StepContext, StepOutcome, StepScope,
    action::{StepAttempt, bind_script, run_shell, template_failure},
    output::{ActionFailure, ActionOutput},
    runner::cancelled_failure,
    sequence::{SequenceCompletion, SequenceStop, run_sequence},
};

/// The index, the scope and the result of one round of a loop.
type IterationResult = (usize, StepScope, Result<SequenceCompletion, SequenceStop>);

/// Runs a loop; its output is what its rounds printed, in the order of the values.
pub(super) async fn run(
    workplace: &StepContext,
    step: &Step,
    each: &Foreach,
    scope: &mut StepScope,
    which: StepAttempt<'_>,
) -> Result<ActionOutput, Box<ActionFailure>> {
    // Listing the values takes its share of the time.
    let limit = step.timeout.into_iter().chain(which.within).min();
    let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    let values = values(workplace, step, each, scope, which).await?;
    let total = values.len();
    let names = each.round_names(&values);
    let mut waiting = values.into_iter().enumerate();
    let mut running = Iterations::default();
    let mut ended: Vec<IterationResult> = Vec::with_capacity(total);
    let mut failed = false;
    loop {
        while running.len() < each.parallel.get() as usize && (each.continue_on_error || !failed) {
            let Some((index, value)) = waiting.next() else { break };
            let mut inner = scope.nested();
            inner.vars.set("item", value);
            inner.vars.set("index", index + 1);
            inner.vars.set("total", total);
            let name = names.get(index).map(String::as_str).unwrap_or_default();
            let list = which.address.round(index, name);
            running.push(async move {
                let steps = &each.steps;
                let result = run_sequence(workplace, steps, &list, deadline, &mut inner).await;
                (index, inner, result)
            });
        }
        let Some(round) = running.next().await else { break };
        failed |= round.2.is_err();
        ended.push(round);
    }
    collect(scope, ended, total)
}

/// Puts the rounds together, in the order of the values.
fn collect(
    scope: &mut StepScope,
    mut ended: Vec<IterationResult>,
    total: usize,
) -> Result<ActionOutput, Box<ActionFailure>> {
    ended.sort_by_key(|(index, ..)| *index);
    let mut printed = Vec::new();
    let mut first = None;
    let mut failures = 0;
    for (index, inner, result) in ended {
        scope.absorb(inner);
        let (end, text) = match result {
            Ok(done) => (None, done.printed),
            Err(SequenceStop { end, printed }) => (Some(end), printed),
        };
        printed.push(text);
        match end {
            Some(StepOutcome::Stop { failure, .. }) => {
                failures += 1;
                first.get_or_insert((index, failure));
            }
            Some(StepOutcome::Interrupted) => {
                return Err(ActionFailure::with_output(
                    cancelled_failure(),
                    ActionOutput::text(printed.join("\n")),
                ));
            }
            // A sequence of steps ends early only by the two above.
            None | Some(StepOutcome::Skipped { .. } | StepOutcome::GoOn(_)) => {}
        }
    }
    let output = ActionOutput::text(printed.join("\n"));
    match first {
        None => Ok(output),
        Some((index, mut failure)) => {
            let at = index + 1;
            failure.message =
                format!("{failures} of {total} failed; the first is {at}: {}", failure.message);
            Err(ActionFailure::with_output(failure, output))
        }
    }
}

/// Returns the values of a loop.
async fn values(
    workplace: &StepContext,
    step: &Step,
    each: &Foreach,
    scope: &StepScope,
    which: StepAttempt<'_>,
) -> Result<Vec<Value>, Box<ActionFailure>> {
    let mut values = match &each.input {
        ForeachInput::Values(values) => values
            .iter()
            .map(|value| match value {
                ForeachValue::Text(text) => text.render(&scope.vars).map(Value::String),
                ForeachValue::Value(value) => Ok(value.clone()),
            })
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| ActionFailure::without_output(template_failure(&error)))?,
        ForeachInput::Command(script) => {
            let bound = bind_script(script, &scope.vars).map_err(ActionFailure::without_output)?;
            let progress = workplace.progress();
            let key = progress.next_key("values", which.path(), which.attempt);
            if let Some(values) = progress.restore_result(&key) {
                return Ok(values);
            }
            let output = run_shell(workplace, step, &scope.vars, which, "sh", &bound).await?;
            let text = output
                .read_all(workplace, prodigy_core::capture::CaptureStream::Stdout)
                .map_err(|message| {
                    ActionFailure::without_output(output.failure(ReasonCode::ParseError, message))
                })?;
            let lines = text.lines().filter(|line| !line.trim().is_empty());
            let lines = lines.take(each.max_items.unwrap_or(usize::MAX));
            let values = lines.map(|line| Value::String(line.to_owned())).collect();
            progress.save_result(key, &values);
            values
        }
    };
    if let Some(most) = each.max_items {
        values.truncate(most);
    }
    Ok(values)
}

/// The rounds that are under way.
///
/// Rounds borrow the workplace, so they are polled here instead of being spawned.
struct Iterations<F> {
    running: Vec<std::pin::Pin<Box<F>>>,
}

impl<F> Default for Iterations<F> {
    fn default() -> Self {
        Self { running: Vec::new() }
    }
}

impl<F: Future> Iterations<F> {
    fn push(&mut self, round: F) {
        self.running.push(Box::pin(round));
    }

    fn len(&self) -> usize {
        self.running.len()
    }

    /// Waits for the next round to end.
    async fn next(&mut self) -> Option<F::Output> {
        if self.running.is_empty() {
            return None;
        }
        let (number, output) = std::future::poll_fn(|context| {
            for (number, round) in self.running.iter_mut().enumerate() {
                if let std::task::Poll::Ready(output) = round.as_mut().poll(context) {
                    return std::task::Poll::Ready((number, output));
                }
            }
            std::task::Poll::Pending
        })
        .await;
        drop(self.running.remove(number));
        Some(output)
    }
}
