//! Validation of an agent's answer: its form, and the changes in the worktree.

use prodigy_core::{
    agent::DeniedTool,
    capture::CaptureStream,
    failure::{Failure, ReasonCode},
    json_schema::OutputSchema,
    workflow::{AgentKind, Effects, Step, StepAction},
};
use serde_json::Value;

use crate::{
    agent::AgentReport,
    git::WorktreeFingerprint,
    step::{
        StepContext,
        output::{ActionOutput, CAPTURE_LIMIT},
    },
};

/// The most violations of a schema that a message names.
const VIOLATIONS: usize = 3;

/// Returns an answer as data: what the agent gave in this form, or else its text read as JSON.
pub(crate) fn answer_data(
    workplace: &StepContext,
    report: &AgentReport,
    output: &ActionOutput,
) -> Result<Value, Failure> {
    if let Some(data) = &report.structured {
        return Ok(data.clone());
    }
    if !report.is_printed {
        return parsed(&report.output);
    }
    let total = output.stdout.total;
    if total > CAPTURE_LIMIT {
        let message = format!(
            "the agent's answer for `output_schema` has {total} bytes, and at most {CAPTURE_LIMIT} are taken"
        );
        return Err(Failure::new(ReasonCode::OutputTooLarge, message));
    }
    let text = output.read_all(workplace, CaptureStream::Stdout);
    parsed(&text.map_err(|why| Failure::new(ReasonCode::OutputUnparseable, why))?)
}

fn parsed(text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text.trim()).map_err(|error| {
        let message = format!("the answer is not JSON, and `output_schema` asks for it: {error}");
        Failure::new(ReasonCode::OutputUnparseable, message)
    })
}

/// Checks an answer against the schema that was asked for, whatever the agent says of it, and
/// returns it in that form.
pub(crate) fn validate_answer(value: &Value, schema: &OutputSchema) -> Result<String, Failure> {
    schema.validate(value).map_err(|violations| {
        let shown: Vec<String> =
            violations.iter().take(VIOLATIONS).map(ToString::to_string).collect();
        let message = format!("the answer does not satisfy `output_schema`: {}", shown.join("; "));
        Failure::new(ReasonCode::SchemaInvalid, message)
    })?;
    Ok(value.to_string())
}

/// The state of the worktree before an agent worked in it.
pub(crate) struct WorktreeBaseline {
    /// The commit and the files; nothing if they could not be seen.
    seen: Option<(String, WorktreeFingerprint)>,
}

impl WorktreeBaseline {
    /// Looks at the worktree. One that the agent changed before it was cut off is not as it was.
    pub(crate) fn capture(workplace: &StepContext, action: Option<&str>) -> Self {
        let begun = action.and_then(|action| workplace.progress().begin(action));
        let is_changed = begun.is_some_and(|begun| begun.has_changes);
        Self { seen: if is_changed { None } else { worktree_state(workplace) } }
    }

    /// Notes that an agent which is cut off has changed the worktree, unless it has not.
    pub(crate) fn note_changes(&self, workplace: &StepContext, action: Option<&str>) {
        if let Some(action) = action.filter(|_| !self.is_unchanged(workplace)) {
            workplace.progress().note_changes(action);
        }
    }

    /// Returns whether it is certain that nothing was changed since.
    pub(crate) fn is_unchanged(&self, workplace: &StepContext) -> bool {
        let Some(((head, files), (head_now, files_now))) =
            self.seen.as_ref().zip(worktree_state(workplace))
        else {
            return false;
        };
        *head == head_now && files_now.matches(files)
    }
}

/// Returns the commit that a worktree is at, and what its files look like.
fn worktree_state(workplace: &StepContext) -> Option<(String, WorktreeFingerprint)> {
    Some((workplace.tree.head().ok()?, workplace.tree.fingerprint().ok()?))
}

/// Returns whether a step is there to change something, as far as one can tell.
///
/// Where the answer is what counts, it is for others to say whether it is good.
pub(crate) fn expects_change(step: &Step, path: &str) -> bool {
    let is_judge = path.rsplit('.').nth(1) == Some("validate");
    let asks_for_form = match &step.action {
        StepAction::Agent { options, .. } => options.output_schema.is_some(),
        StepAction::Shell { .. } | StepAction::WriteFile { .. } | StepAction::Foreach(_) => false,
    };
    let is_asked = is_judge || asks_for_form || !step.captures.is_empty();
    !is_asked && step.output_file.is_none() && step.effects != Effects::None
}

/// Returns what an agent was not allowed to do, for people, and the way out for its kind.
pub(crate) fn denied_tools_message(
    denied: &[DeniedTool],
    kind: AgentKind,
    is_confined: bool,
) -> Option<String> {
    let DeniedTool { tool, about } = denied.first()?;
    let about = if about.is_empty() { String::new() } else { format!(" ({about})") };
    let others = match denied.len() {
        1 => String::new(),
        count => format!(", and {} more", count - 1),
    };
    let way_out = match kind {
        // It has no sandbox but the one around it.
        AgentKind::Codex if is_confined => "`sandbox: { write: … }` of the workflow",
        AgentKind::Codex => "its `sandbox` or `permission_mode`",
        AgentKind::Claude | AgentKind::Command | AgentKind::Simulated => "`allowed_tools`",
    };
    Some(format!("it was not allowed to use `{tool}`{about}{others}; {way_out} can allow it"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(output: &str, structured: Option<Value>) -> String {
        let schema =
            json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}});
        let schema = OutputSchema::parse(&schema).unwrap();
        let value = structured.map_or_else(|| parsed(output), Ok);
        match value.and_then(|value| validate_answer(&value, &schema)) {
            Ok(answer) => answer,
            Err(failure) => format!("{}: {}", failure.kind, failure.message),
        }
    }

    #[test]
    fn an_answer_has_the_form_that_was_asked_for() {
        let answers = [
            shown("done", Some(json!({"a": "b"}))),
            shown(" {\"a\": \"c\"}\n", None),
            shown("done", None),
            shown("done", Some(json!({"a": 1}))),
            shown("{}", None),
        ];
        insta::assert_snapshot!(answers.join("\n"), @r#"
        {"a":"b"}
        {"a":"c"}
        output_unparseable: the answer is not JSON, and `output_schema` asks for it: expected value at line 1 column 1
        schema_invalid: the answer does not satisfy `output_schema`: `/a` must be `string`, found `number`
        schema_invalid: the answer does not satisfy `output_schema`: the value must have `a`
        "#);
    }

    #[test]
    fn what_was_denied_is_named_with_the_way_out() {
        let of = |about: &str| DeniedTool { tool: "Bash".to_owned(), about: about.to_owned() };
        let denied = |what: &[DeniedTool], kind| denied_tools_message(what, kind, false);
        assert_eq!(denied(&[], AgentKind::Claude), None);
        insta::assert_snapshot!(denied(&[of("")], AgentKind::Claude).unwrap(), @"it was not allowed to use `Bash`; `allowed_tools` can allow it");
        insta::assert_snapshot!(denied(&[of("git commit"), of("x")], AgentKind::Simulated).unwrap(), @"it was not allowed to use `Bash` (git commit), and 1 more; `allowed_tools` can allow it");
    }
}
