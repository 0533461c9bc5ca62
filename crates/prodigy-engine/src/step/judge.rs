//! `validate`: a judge decides whether a step is done.

use std::{io::Read as _, os::unix::fs::MetadataExt as _, path::Path};

use prodigy_core::{
    agent::judgement,
    classify::of_text,
    failure::{Failure, FailureKind},
    workflow::{StepAction, Validate},
};
use serde_json::{Map, Value, json};

use super::{
    Finished, Scope, Workplace,
    action::template,
    flow::{Task, stopped},
    output::{Output, logged},
    sequence::{EarlyEnd, sequence},
};
use crate::root_dir::RootDir;

/// The most that a judge may say.
const RESULT_LIMIT: u64 = 1024 * 1024;

/// What the judge said.
struct Judgement {
    /// How much is done, from 0 to 100.
    percentage: f64,
    /// The whole result, for `${validation.…}`.
    fields: Map<String, Value>,
}

/// Asks the judge, and mends and asks again as often as allowed.
pub(super) async fn satisfied(
    workplace: &Workplace,
    task: Task<'_>,
    validate: &Validate,
    scope: &mut Scope,
    output: &Output,
) -> Result<(), Failure> {
    let mut attempt = 0;
    loop {
        let judgement = judge(workplace, task, validate, scope).await?;
        let percentage = judgement.percentage;
        // Later steps may ask for it, too, also after a resume.
        scope.capture("validation", Value::Object(judgement.fields));
        if percentage >= validate.threshold {
            return Ok(());
        }
        attempt += 1;
        if validate.on_incomplete.is_empty() || attempt > validate.max_attempts.get() {
            let message = format!(
                "validation found {percentage} % done, and {} % is wanted",
                validate.threshold
            );
            return Err(output.failure(FailureKind::ValidationFailed, message));
        }
        let list = task.address.part("on_incomplete").part(&attempt.to_string());
        sequence(workplace, &validate.on_incomplete, &list, task.deadline, scope)
            .await
            .map_err(|early| ended(early.end, "on_incomplete"))?;
    }
}

/// Runs the judge's steps and reads the result.
///
/// The result is JSON in `result_file` or in the output. A command that leaves no JSON judges
/// by its exit code. An agent ends well whatever it thinks of the work, so that one judges by
/// what it says and by nothing else.
async fn judge(
    workplace: &Workplace,
    task: Task<'_>,
    validate: &Validate,
    scope: &mut Scope,
) -> Result<Judgement, Failure> {
    let file = match &validate.result_file {
        Some(path) => Some(path.render(&scope.vars).map_err(|error| template(&error))?),
        None => None,
    };
    let root = workplace.tree.path();
    let before = file.as_ref().map(|shown| last_change(root, shown));
    let is_agent = validate.steps.last().is_some_and(|step| match step.action {
        StepAction::Agent { .. } => true,
        StepAction::Shell { .. } | StepAction::WriteFile { .. } | StepAction::Foreach(_) => false,
    });
    let list = task.address.part("validate");
    let asked = sequence(workplace, &validate.steps, &list, task.deadline, scope).await;
    let (succeeded, printed) = match asked {
        Ok(done) => (true, done.printed),
        Err(EarlyEnd { end: Finished::Stop { failure, log, .. }, .. })
            if !is_agent && is_judgement(&failure) =>
        {
            // The failure keeps only the end of the output, and that of standard error first.
            let printed = log.as_ref().and_then(|range| logged(workplace, range));
            (false, printed.unwrap_or(failure.output_tail))
        }
        Err(early) => return Err(ended(early.end, "validate")),
    };
    if let (false, Some(shown)) = (succeeded, &file)
        && before == Some(last_change(root, shown))
    {
        // What the file says is an older judgement, and perhaps about something else.
        let message = format!("the judge failed and left no new `{shown}`");
        return Err(Failure::new(FailureKind::ValidationFailed, message));
    }
    let text = match &file {
        Some(shown) => result(workplace.tree.path(), shown)?,
        None => printed,
    };
    if is_agent && file.is_none() {
        return judgement(&text).map(judged).map_err(|why| {
            let message = format!("the judge's answer cannot be used: {why}");
            Failure::new(FailureKind::ValidationFailed, message)
        });
    }
    match serde_json::from_str(&text) {
        Ok(Value::Object(fields)) => Ok(judged(fields)),
        Ok(_) | Err(_) if file.is_none() => {
            let status = if succeeded { "complete" } else { "incomplete" };
            Ok(judged(Map::from_iter([("status".to_owned(), json!(status))])))
        }
        Ok(_) | Err(_) => {
            let message = "the judge's result file does not hold a JSON object";
            Err(Failure::new(FailureKind::ValidationFailed, message))
        }
    }
}

/// Returns whether a failed judge judged: its command failed, and if that has another reason
/// code then only because of what it printed, which is about the work.
fn is_judgement(failure: &Failure) -> bool {
    let exited = failure.exit_code.map(|code| format!("exit code {code}"));
    failure.kind == FailureKind::CommandFailed
        || exited.as_ref() == Some(&failure.message)
            && of_text(&failure.output_tail) == Some(failure.kind)
}

/// Returns what tells whether a file was written in the meantime.
fn last_change(root: &Path, shown: &str) -> Option<(u64, i64, i64, Vec<u8>)> {
    let file = RootDir::open(root).and_then(|root| root.read(Path::new(shown))).ok()?;
    let metadata = file.metadata().ok()?;
    // The clock of a file system is coarse, so the content counts too.
    let mut content = Vec::new();
    file.take(RESULT_LIMIT + 1).read_to_end(&mut content).ok()?;
    Some((metadata.ino(), metadata.ctime(), metadata.ctime_nsec(), content))
}

/// Reads the file that the judge left, which may be anything: also a link or a pipe.
fn result(root: &Path, shown: &str) -> Result<String, Failure> {
    let failed = |message: String| Failure::new(FailureKind::ValidationFailed, message);
    let read =
        RootDir::open(root).and_then(|root| root.read_bounded(Path::new(shown), RESULT_LIMIT));
    match read {
        Ok(Some(bytes)) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Ok(None) => Err(failed(format!("the judge left no `{shown}`"))),
        Err(error) if error.io().is_some() => {
            Err(failed(format!("the judge's `{shown}` cannot be read: {error}")))
        }
        Err(error) => {
            Err(Failure::new(FailureKind::WorktreeError, format!("result_file: {error}")))
        }
    }
}

/// Reads the judge's result; without a percentage the status decides.
fn judged(mut fields: Map<String, Value>) -> Judgement {
    let complete = fields
        .get("status")
        .and_then(Value::as_str)
        .is_some_and(|status| matches!(status, "complete" | "completed" | "passed" | "success"));
    let by_status = if complete { 100 } else { 0 };
    let percentage = fields.get("completion_percentage").and_then(Value::as_f64);
    let percentage = percentage.unwrap_or(f64::from(by_status));
    for (name, usual) in [
        // A whole number: commands compare it as one.
        ("completion_percentage", json!(by_status)),
        ("status", json!("")),
        ("missing", json!([])),
        ("gaps", json!({})),
    ] {
        fields.entry(name).or_insert(usual);
    }
    Judgement { percentage, fields }
}

/// Makes a failure of a sequence of steps that ended early.
fn ended(end: Finished, what: &str) -> Failure {
    match end {
        Finished::Stop { mut failure, .. } => {
            failure.message = format!("{what}: {}", failure.message);
            failure
        }
        Finished::Interrupted | Finished::Skipped { .. } | Finished::GoOn(_) => stopped(),
    }
}
