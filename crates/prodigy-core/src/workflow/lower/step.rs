//! One step: its action and everything that goes with it.

use std::{collections::BTreeMap, num::NonZeroU32};

use super::{context::Lower, fields::Fields, scope::Scope};
use crate::{
    capture::{CaptureFormat, CaptureStream},
    diagnostic::{Diagnostic, Span},
    expr::ExprContext,
    template::TemplateKind,
    workflow::{AutoCommit, Capture, Step, StepAction},
    yaml::{YamlNode, YamlValue},
};

/// The formats in which captured output may be read.
pub(super) const FORMATS: &[(&str, CaptureFormat)] = &[
    ("string", CaptureFormat::String),
    ("number", CaptureFormat::Number),
    ("json", CaptureFormat::Json),
    ("lines", CaptureFormat::Lines),
    ("boolean", CaptureFormat::Boolean),
];

const STREAMS: &[(&str, CaptureStream)] = &[
    ("stdout", CaptureStream::Stdout),
    ("stderr", CaptureStream::Stderr),
    ("both", CaptureStream::Both),
];

/// A step with nothing but an action.
pub(super) fn bare(span: Span, action: StepAction, scope: &Scope) -> Step {
    let auto_commit = commits_by_default(&action, false, scope);
    Step { span, auto_commit, ..Step::with_action(action) }
}

/// Returns which changes are committed after a step if its author does not say: those that
/// agents make, unless the step demands that they commit them themselves.
///
/// The rounds of a loop that run side by side share a worktree, so that the loop as a whole
/// commits what its agents leave.
pub(super) fn commits_by_default(
    action: &StepAction,
    commit_required: bool,
    scope: &Scope,
) -> AutoCommit {
    let is_work = match action {
        StepAction::Agent { .. } => true,
        StepAction::Foreach(each) => {
            each.parallel > NonZeroU32::MIN && each.steps.iter().any(leaves_work)
        }
        StepAction::Shell { .. } | StepAction::WriteFile { .. } => false,
    };
    let is_agent = matches!(action, StepAction::Agent { .. });
    match (commit_required, scope.leaves_uncommitted) {
        (false, false) if is_work => AutoCommit::StepChanges,
        (true, false) if is_agent => AutoCommit::ForAgent,
        (false | true, false | true) => AutoCommit::Never,
    }
}

/// Returns whether a step of a loop asks an agent that need not commit its work.
fn leaves_work(step: &Step) -> bool {
    match &step.action {
        StepAction::Agent { .. } => !step.commit_required,
        StepAction::Foreach(each) => each.steps.iter().any(leaves_work),
        StepAction::Shell { .. } | StepAction::WriteFile { .. } => false,
    }
}

impl Lower<'_> {
    /// Reads a list of steps.
    pub(super) fn steps(&mut self, node: &YamlNode, scope: &Scope) -> Vec<Step> {
        self.list(node).iter().filter_map(|entry| self.step(entry, scope)).collect()
    }

    /// Reads one step.
    pub(super) fn step(&mut self, node: &YamlNode, scope: &Scope) -> Option<Step> {
        let fields = self.fields(node)?;
        self.step_of(fields, scope)
    }

    /// Reads one step from the keys that are left of a mapping.
    pub(super) fn step_of(&mut self, mut fields: Fields<'_>, scope: &Scope) -> Option<Step> {
        let action = self.action(&mut fields, scope);
        let step = self.modifiers(&mut fields, scope, action);
        self.finish(fields);
        step
    }

    /// Reads everything but the action. It is read even if the action is broken, so that
    /// nothing wrong in it waits for the next look.
    fn modifiers(
        &mut self,
        fields: &mut Fields<'_>,
        scope: &Scope,
        action: Option<StepAction>,
    ) -> Option<Step> {
        let span = fields.span;
        let mut take = |name| fields.take(name);
        let id = take("id").and_then(|node| self.id(node));
        let name = take("name").and_then(|node| self.filled(node));
        let when = take("when").and_then(|node| self.expression(node, ExprContext::When));
        let timeout = take("timeout").and_then(|node| self.limit(node));
        let idle_timeout = take("idle_timeout").and_then(|node| self.limit(node));
        let env = take("env").map(|node| self.env(node, scope)).unwrap_or_default();
        let working_dir =
            take("working_dir").and_then(|node| self.template(node, scope, TemplateKind::Path));
        let output_file =
            take("output_file").and_then(|node| self.template(node, scope, TemplateKind::Path));
        let mut flag = |name| take(name).and_then(|node| self.boolean(node));
        let commit_required = flag("commit_required").unwrap_or_default();
        let auto_commit = flag("auto_commit");
        let continue_on_error = flag("continue_on_error").unwrap_or_default();
        let auto_commit = match auto_commit {
            Some(true) => AutoCommit::Everything,
            Some(false) => AutoCommit::Never,
            None => action
                .as_ref()
                .map(|action| commits_by_default(action, commit_required, scope))
                .unwrap_or_default(),
        };
        let captures = self.captures(fields);
        let on_failure = self.on_failure(fields, scope);
        let on_success =
            fields.take("on_success").map(|node| self.commands(node, scope)).unwrap_or_default();
        let on_exit_code = fields
            .take("on_exit_code")
            .map(|node| self.on_exit_code(node, scope))
            .unwrap_or_default();
        let retry = fields.take("retry").and_then(|node| self.retry(node, "attempts"));
        let validate =
            fields.take("validate").and_then(|node| self.validate(node, scope)).map(Box::new);
        let effects = self.effects(fields, scope, action.as_ref());
        Some(Step {
            span,
            id,
            name,
            action: action?,
            when,
            timeout,
            idle_timeout,
            env,
            working_dir,
            captures,
            output_file,
            commit_required,
            auto_commit,
            on_failure,
            on_success,
            on_exit_code,
            retry,
            continue_on_error,
            validate,
            effects,
        })
    }

    fn id(&mut self, node: &YamlNode) -> Option<String> {
        let text = self.text(node)?;
        let good = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
        if text.is_empty() || !text.chars().all(good) {
            let message = format!("`{text}` cannot be the id of a step");
            let help = "an id has letters, digits, `_` and `-`";
            self.report(Diagnostic::error(node.span, message).help(help));
            return None;
        }
        Some(text)
    }

    fn captures(&mut self, fields: &mut Fields<'_>) -> Vec<Capture> {
        let mut captures = Vec::new();
        let mut plain = None;
        if let Some(node) = fields.take("capture") {
            match &node.value {
                YamlValue::Mapping(_) => captures = self.capture_table(node),
                YamlValue::Null
                | YamlValue::Bool(_)
                | YamlValue::Integer(_)
                | YamlValue::Float(_)
                | YamlValue::String(_)
                | YamlValue::Sequence(_) => plain = self.identifier(node),
            }
        }
        let legacy = fields.take("capture_output").filter(|node| node.as_bool().is_none());
        let legacy = legacy.and_then(|node| self.identifier(node));
        let names: Vec<_> = plain.into_iter().chain(legacy).collect();
        // Without a plain name the key is left for `finish`, which says that it has no effect.
        let format = if names.is_empty() { None } else { fields.take("capture_format") };
        let format = format.and_then(|node| self.word(node, FORMATS)).unwrap_or_default();
        let stream = CaptureStream::Stdout;
        captures.extend(names.into_iter().map(|name| Capture { name, format, stream }));
        captures
    }

    fn capture_table(&mut self, node: &YamlNode) -> Vec<Capture> {
        let mut captures = Vec::new();
        for (key, value) in node.as_mapping().unwrap_or_default() {
            let Some(mut fields) = self.fields(value) else { continue };
            let format = fields.take("format").and_then(|node| self.word(node, FORMATS));
            let stream = fields.take("stream").and_then(|node| self.word(node, STREAMS));
            self.finish(fields);
            captures.push(Capture {
                name: key.text.clone(),
                format: format.unwrap_or_default(),
                stream: stream.unwrap_or_default(),
            });
        }
        captures
    }

    fn on_exit_code(&mut self, node: &YamlNode, scope: &Scope) -> BTreeMap<i32, Vec<Step>> {
        let mut codes = BTreeMap::new();
        let Some(entries) = node.as_mapping() else {
            self.wrong_kind(node, "a mapping from exit codes to steps");
            return codes;
        };
        for (key, value) in entries {
            let steps = self.commands(value, scope);
            match key.text.parse::<i32>() {
                Ok(code) => {
                    codes.insert(code, steps);
                }
                Err(_) => self.unusable(key.span, format!("`{}` is not an exit code", key.text)),
            }
        }
        codes
    }
}
