//! `validate`: a judge decides whether a step is done.

use std::path::Path;

use prodigy_core::{
    agent::{
        completion_percentage, parse_completion, parse_completion_file, parse_printed_completion,
    },
    event::StepStatus,
    failure::{Failure, ReasonCode, classify::reason_from_output},
    workflow::{Step, StepAction, Validate},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    StepContext, StepOutcome, StepScope,
    action::template_failure,
    output::{ActionOutput, read_logged_output},
    runner::{StepTask, cancelled_failure},
    sequence::{SequenceCompletion, SequenceStop, run_sequence},
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
    fn rejection_reason(&self, threshold: f64) -> Option<String> {
        let percentage = completion_percentage(&self.fields);
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
    fn into_value(self) -> Value {
        let mut fields = self.fields;
        // A whole number: commands compare it as one.
        let by_status = if completion_percentage(&fields) > 0.0 { 100 } else { 0 };
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
pub(crate) async fn validate_step(
    workplace: &StepContext,
    task: StepTask<'_>,
    validate: &Validate,
    scope: &mut StepScope,
    output: &ActionOutput,
) -> Result<(), Failure> {
    let mut attempt = 0;
    loop {
        let judgement = run_validator(workplace, task, validate, scope).await?;
        let objection = judgement.rejection_reason(validate.threshold);
        // Later steps may ask for it, too, also after a resume.
        scope.capture("validation", judgement.into_value());
        let Some(message) = objection else { return Ok(()) };
        attempt += 1;
        if validate.on_incomplete.is_empty() || attempt > validate.max_attempts.get() {
            return Err(output.failure(ReasonCode::ValidationFailed, message));
        }
        let list = task.address.part("on_incomplete").part(&attempt.to_string());
        run_sequence(workplace, &validate.on_incomplete, &list, task.deadline, scope)
            .await
            .map_err(|early| ended(early.end, "on_incomplete"))?;
    }
}

/// Runs the judge's steps and reads the verdict.
///
/// The verdict is JSON in `result_file` or in the output. A command that leaves no JSON judges
/// by its exit code. An agent ends well whatever it thinks of the work, so that one judges by
/// what it says and by nothing else.
async fn run_validator(
    workplace: &StepContext,
    task: StepTask<'_>,
    validate: &Validate,
    scope: &mut StepScope,
) -> Result<ValidationResult, Failure> {
    let file = match &validate.result_file {
        Some(path) => Some(path.render(&scope.vars).map_err(|error| template_failure(&error))?),
        None => None,
    };
    let root = workplace.tree.path();
    let progress = workplace.progress();
    let key = progress.next_key("verdict", task.path(), 1);
    let is_begun = progress.begin(&key).is_some();
    let known = progress.restore_result::<ValidationResult>(&key);
    if let Some(shown) = file.as_ref().filter(|_| known.is_none() && !is_begun) {
        remove_old_verdict(root, shown)?;
    }
    let is_agent = validate.steps.last().is_some_and(is_agent);
    let list = task.address.part("validate");
    let asked = run_sequence(workplace, &validate.steps, &list, task.deadline, scope).await;
    let ValidatorOutput { text, failed } = read_verdict(workplace, asked, is_agent)?;
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
            Some(
                parse_completion_file(&text)
                    .map_err(|why| unusable(&format!("`{shown}`"), &why))?,
            )
        }
        None if is_agent => Some(parse_completion(&text).map_err(|why| unusable("answer", &why))?),
        None => parse_printed_completion(&text).map_err(|why| unusable("output", &why))?,
    };
    let is_said = fields.is_some();
    let fields = fields.unwrap_or_else(|| {
        let status = if failed.is_none() { "complete" } else { "incomplete" };
        Map::from_iter([("status".to_owned(), json!(status))])
    });
    let judgement = ValidationResult { fields, is_said, failed };
    progress.save_result(key, &judgement);
    Ok(judgement)
}

/// Returns what the judge's steps left, if they judged at all.
fn read_verdict(
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
            if !is_agent && is_validation_failure(&failure) =>
        {
            // The failure keeps only the end of the output, and that of standard error first.
            let printed = log.as_ref().and_then(|range| read_logged_output(workplace, range));
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
fn is_validation_failure(failure: &Failure) -> bool {
    let exited = failure.exit_code.map(|code| format!("exit code {code}"));
    failure.kind == ReasonCode::CommandFailed
        || exited.as_ref() == Some(&failure.message)
            && reason_from_output(&failure.output_tail) == Some(failure.kind)
}

/// Removes what is where the judge leaves its verdict: an older one, or one that those wrote
/// whose work is judged.
fn remove_old_verdict(root: &Path, shown: &str) -> Result<(), Failure> {
    match RootDir::open(root).and_then(|root| root.remove_file(Path::new(shown))) {
        Ok(()) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) if error.io().is_some() => {
            let message = format!("`{shown}` cannot be removed before the judge starts: {error}");
            Err(Failure::new(ReasonCode::ValidationFailed, message))
        }
        Err(error) => Err(outside_path_failure(&error)),
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
        (Err(error), _) => Err(outside_path_failure(&error)),
    }
}

/// Makes a failure of a path that is not one inside the worktree.
fn outside_path_failure(error: &Error) -> Failure {
    Failure::new(ReasonCode::WorktreeError, format!("result_file: {error}"))
}

/// Makes a failure of a sequence of steps that ended early.
fn ended(end: StepOutcome, what: &str) -> Failure {
    match end {
        StepOutcome::Stop { mut failure, .. } => {
            failure.message = format!("{what}: {}", failure.message);
            failure
        }
        StepOutcome::Interrupted | StepOutcome::Skipped { .. } | StepOutcome::GoOn(_) => {
            cancelled_failure()
        }
    }
}
