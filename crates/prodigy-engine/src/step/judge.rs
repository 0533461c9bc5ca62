//! `validate`: a judge decides whether a step is done.

use std::path::Path;

use prodigy_core::{
    agent::{done_share, judgement, printed_judgement, written_judgement},
    classify::of_text,
    event::StepStatus,
    failure::{Failure, ReasonCode},
    workflow::{Step, StepAction, Validate},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    StepContext, StepOutcome, StepScope,
    action::template,
    flow::{StepTask, stopped},
    output::{ActionOutput, logged},
    sequence::{SequenceCompletion, SequenceStop, sequence},
};
use crate::root_dir::{Error, RootDir};

/// The most that a judge may say.
const RESULT_LIMIT: u64 = 1024 * 1024;

/// The result of the evaluator.
#[derive(Serialize, Deserialize)]
struct ValidationResult {
    /// The whole verdict, for `${validation.…}`.
    fields: Map<String, Value>,
    /// Set if the evaluator stated the verdict; otherwise it follows from the evaluator's end.
    is_said: bool,
    /// The evaluator's failure, if any. A failed evaluator is not satisfied, whatever it stated.
    failed: Option<String>,
}

impl ValidationResult {
    /// Returns why the work is not done, if it is not.
    fn objection(&self, threshold: f64) -> Option<String> {
        let percentage = done_share(&self.fields);
        if percentage < threshold {
            let message =
                format!("validation found {percentage} % done, and {threshold} % is wanted");
            return Some(message);
        }
        let how = self.failed.as_ref()?;
        Some(if self.is_said {
            format!("the judge found {percentage} % done, but it failed: {how}")
        } else {
            format!("the judge failed: {how}")
        })
    }

    /// Returns the fields of the verdict, those included that it does not have.
    fn shown(self) -> Value {
        let mut fields = self.fields;
        // A whole number: commands compare it as one.
        let by_status = if done_share(&fields) > 0.0 { 100 } else { 0 };
        for (name, usual) in [
            ("completion_percentage", json!(by_status)),
            ("status", json!("")),
            ("missing", json!([])),
            ("gaps", json!({})),
        ] {
            fields.entry(name).or_insert(usual);
        }
        Value::Object(fields)
    }
}

/// The output of the evaluator's steps.
struct ValidatorOutput {
    /// The text that its verdict is in, unless that is in a file.
    text: String,
    /// The evaluator's failure, if any.
    failed: Option<String>,
}

/// Asks the judge, and mends and asks again as often as allowed.
pub(super) async fn satisfied(
    workplace: &StepContext,
    task: StepTask<'_>,
    validate: &Validate,
    scope: &mut StepScope,
    output: &ActionOutput,
) -> Result<(), Failure> {
    let mut attempt = 0;
    loop {
        let judgement = judge(workplace, task, validate, scope).await?;
        let objection = judgement.objection(validate.threshold);
        // Later steps may ask for it, too, also after a resume.
        scope.capture("validation", judgement.shown());
        let Some(message) = objection else { return Ok(()) };
        attempt += 1;
        if validate.on_incomplete.is_empty() || attempt > validate.max_attempts.get() {
            return Err(output.failure(ReasonCode::ValidationFailed, message));
        }
        let list = task.address.part("on_incomplete").part(&attempt.to_string());
        sequence(workplace, &validate.on_incomplete, &list, task.deadline, scope)
            .await
            .map_err(|early| ended(early.end, "on_incomplete"))?;
    }
}

/// Runs the judge's steps and reads the verdict.
///
/// The verdict is JSON in `result_file` or in the output. A command that leaves no JSON judges
/// by its exit code. An agent ends well whatever it thinks of the work, so that one judges by
/// what it says and by nothing else.
async fn judge(
    workplace: &StepContext,
    task: StepTask<'_>,
    validate: &Validate,
    scope: &mut StepScope,
) -> Result<ValidationResult, Failure> {
    let file = match &validate.result_file {
        Some(path) => Some(path.render(&scope.vars).map_err(|error| template(&error))?),
        None => None,
    };
    let root = workplace.tree.path();
    let progress = workplace.progress();
    let key = progress.reach("verdict", task.path(), 1);
    let is_begun = progress.begin(&key).is_some();
    let known = progress.recall::<ValidationResult>(&key);
    if let Some(shown) = file.as_ref().filter(|_| known.is_none() && !is_begun) {
        clear(root, shown)?;
    }
    let is_agent = validate.steps.last().is_some_and(is_agent);
    let list = task.address.part("validate");
    let asked = sequence(workplace, &validate.steps, &list, task.deadline, scope).await;
    let ValidatorOutput { text, failed } = heard(workplace, asked, is_agent)?;
    if let Some(known) = known {
        return Ok(known);
    }
    let unusable = |what: &str, why: &str| {
        let message = format!("the judge's {what} cannot be used: {why}");
        Failure::new(ReasonCode::ValidationFailed, message)
    };
    let fields = match &file {
        Some(shown) => {
            let text = result(root, shown, failed.as_deref())?;
            Some(written_judgement(&text).map_err(|why| unusable(&format!("`{shown}`"), &why))?)
        }
        None if is_agent => Some(judgement(&text).map_err(|why| unusable("answer", &why))?),
        None => printed_judgement(&text).map_err(|why| unusable("output", &why))?,
    };
    let is_said = fields.is_some();
    let fields = fields.unwrap_or_else(|| {
        let status = if failed.is_none() { "complete" } else { "incomplete" };
        Map::from_iter([("status".to_owned(), json!(status))])
    });
    let judgement = ValidationResult { fields, is_said, failed };
    progress.remember(key, &judgement);
    Ok(judgement)
}

/// Returns what the judge's steps left, if they judged at all.
fn heard(
    workplace: &StepContext,
    asked: Result<SequenceCompletion, SequenceStop>,
    is_agent: bool,
) -> Result<ValidatorOutput, Failure> {
    match asked {
        Ok(SequenceCompletion { printed, last, .. }) => {
            let failed = last.as_ref().filter(|last| last.status == StepStatus::Failed);
            let failed = failed.map(|last| match last.exit_code {
                0 => "its step counts as failed".to_owned(),
                code => format!("exit code {code}"),
            });
            // What commands before it printed is for the agent to judge, and no verdict.
            let own = last.filter(|last| last.agent).map(|last| last.output);
            let text = if is_agent { own.unwrap_or_default() } else { printed };
            Ok(ValidatorOutput { text, failed })
        }
        Err(SequenceStop { end: StepOutcome::Stop { failure, log, .. }, .. })
            if !is_agent && is_judgement(&failure) =>
        {
            // The failure keeps only the end of the output, and that of standard error first.
            let printed = log.as_ref().and_then(|range| logged(workplace, range));
            let text = printed.unwrap_or(failure.output_tail);
            Ok(ValidatorOutput { text, failed: Some(failure.message) })
        }
        Err(early) => Err(ended(early.end, "validate")),
    }
}

fn is_agent(step: &Step) -> bool {
    match step.action {
        StepAction::Agent { .. } => true,
        StepAction::Shell { .. } | StepAction::WriteFile { .. } | StepAction::Foreach(_) => false,
    }
}

/// Returns whether a failed judge judged: its command failed, and if that has another reason
/// code then only because of what it printed, which is about the work.
fn is_judgement(failure: &Failure) -> bool {
    let exited = failure.exit_code.map(|code| format!("exit code {code}"));
    failure.kind == ReasonCode::CommandFailed
        || exited.as_ref() == Some(&failure.message)
            && of_text(&failure.output_tail) == Some(failure.kind)
}

/// Removes what is where the judge leaves its verdict: an older one, or one that those wrote
/// whose work is judged.
fn clear(root: &Path, shown: &str) -> Result<(), Failure> {
    match RootDir::open(root).and_then(|root| root.remove_file(Path::new(shown))) {
        Ok(()) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) if error.io().is_some() => {
            let message = format!("`{shown}` cannot be removed before the judge starts: {error}");
            Err(Failure::new(ReasonCode::ValidationFailed, message))
        }
        Err(error) => Err(led_out(&error)),
    }
}

/// Reads the file that the judge left, which may be anything: also a link or a pipe.
fn result(root: &Path, shown: &str, failed: Option<&str>) -> Result<String, Failure> {
    let unread = |message: String| Failure::new(ReasonCode::ValidationFailed, message);
    let read =
        RootDir::open(root).and_then(|root| root.read_bounded(Path::new(shown), RESULT_LIMIT));
    match (read, failed) {
        (Ok(Some(bytes)), _) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        (Ok(None), None) => Err(unread(format!("the judge left no `{shown}`"))),
        (Ok(None), Some(how)) => {
            Err(unread(format!("the judge failed and left no `{shown}`: {how}")))
        }
        (Err(error), _) if error.io().is_some() => {
            Err(unread(format!("the judge's `{shown}` cannot be read: {error}")))
        }
        (Err(error), _) => Err(led_out(&error)),
    }
}

/// Makes a failure of a path that is not one inside the worktree.
fn led_out(error: &Error) -> Failure {
    Failure::new(ReasonCode::WorktreeError, format!("result_file: {error}"))
}

/// Makes a failure of a sequence of steps that ended early.
fn ended(end: StepOutcome, what: &str) -> Failure {
    match end {
        StepOutcome::Stop { mut failure, .. } => {
            failure.message = format!("{what}: {}", failure.message);
            failure
        }
        StepOutcome::Interrupted | StepOutcome::Skipped { .. } | StepOutcome::GoOn(_) => stopped(),
    }
}
