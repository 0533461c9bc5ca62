//! Lowering of `on_failure` in all its shapes.

use std::num::NonZeroU32;

use super::{
    action::SHELL,
    context::Lower,
    fields::Fields,
    scope::Scope,
    step::{bare, commits_by_default},
};
use crate::{
    diagnostic::Diagnostic,
    template::ShellDialect,
    workflow::{OnFailure, Step, StepAction, Strategy, Unrecovered},
    yaml::{YamlNode, YamlValue},
};

const STRATEGIES: &[(&str, Strategy)] = &[
    ("recovery", Strategy::Recovery),
    ("fallback", Strategy::Fallback),
    ("cleanup", Strategy::Cleanup),
    ("custom", Strategy::Custom),
];

/// Keys that may go with `shell` and `claude` together, because they can hold for both or
/// can only be meant for one of them.
const SHARED: &[&str] = &[
    "shell",
    "claude",
    "when",
    "timeout",
    "idle_timeout",
    "env",
    "working_dir",
    "continue_on_error",
    "shell_program",
    "allow_raw",
    "allowed_tools",
    "disallowed_tools",
    "max_budget_usd",
    "max_turns",
    "model",
    "output_schema",
    "permission_mode",
    "system_prompt",
];

/// A handler with these steps and nothing else.
fn plain(steps: Vec<Step>) -> OnFailure {
    OnFailure {
        steps,
        strategy: Strategy::Recovery,
        max_attempts: NonZeroU32::MIN,
        timeout: None,
        handler_failure_fatal: false,
        unrecovered: Unrecovered::FailItem,
        captures: Vec::new(),
    }
}

/// Returns the meaning of `fail_workflow`.
fn unrecovered(fail_workflow: bool) -> Unrecovered {
    if fail_workflow { Unrecovered::Fail } else { Unrecovered::GoOn }
}

impl Lower<'_> {
    /// Reads `on_failure` and the keys beside it that mean the same as inside it.
    pub(super) fn on_failure(
        &mut self,
        fields: &mut Fields<'_>,
        scope: &Scope,
    ) -> Option<OnFailure> {
        // Without a handler the keys beside it are left, and so reported.
        let node = fields.take("on_failure").filter(|node| node.as_bool() != Some(false))?;
        let mut handler = match &node.value {
            YamlValue::Bool(_) => OnFailure { unrecovered: Unrecovered::GoOn, ..plain(Vec::new()) },
            YamlValue::Mapping(_) => self.handler(node, scope)?,
            YamlValue::Null
            | YamlValue::Integer(_)
            | YamlValue::Float(_)
            | YamlValue::String(_)
            | YamlValue::Sequence(_) => plain(self.commands(node, scope)),
        };
        let attempts = fields.take_either("max_attempts", "max_retries");
        let attempts = attempts.and_then(|node| self.count(node));
        handler.max_attempts = attempts.unwrap_or(handler.max_attempts);
        let fail = fields.take("fail_workflow").and_then(|node| self.boolean(node));
        handler.unrecovered = fail.map_or(handler.unrecovered, unrecovered);
        let word = match handler.strategy {
            Strategy::Cleanup => Some("cleanup"),
            Strategy::Custom => Some("custom"),
            Strategy::Recovery | Strategy::Fallback => None,
        };
        if let Some(word) = word.filter(|_| handler.max_attempts > NonZeroU32::MIN) {
            let message = format!("a handler with `strategy: {word}` never tries the step again");
            let help = "use `strategy: recovery`, or remove `max_attempts`";
            self.report(Diagnostic::error(node.span, message).help(help));
        }
        Some(handler)
    }

    fn handler(&mut self, node: &YamlNode, scope: &Scope) -> Option<OnFailure> {
        let mut fields = self.fields(node)?;
        let steps = self.handler_steps(&mut fields, scope);
        let mut handler = plain(steps);
        let attempts = fields.take_either("max_attempts", "max_retries");
        let attempts = attempts.and_then(|node| self.count(node));
        handler.max_attempts = attempts.unwrap_or(handler.max_attempts);
        let fail = fields.take("fail_workflow").and_then(|node| self.boolean(node));
        handler.unrecovered = fail.map(unrecovered).unwrap_or_default();
        let strategy = fields.take("strategy").and_then(|node| self.word(node, STRATEGIES));
        handler.strategy = strategy.unwrap_or_default();
        handler.timeout = fields.take("timeout").and_then(|node| self.limit(node));
        let fatal = fields.take("handler_failure_fatal");
        handler.handler_failure_fatal = fatal.is_some_and(|node| self.boolean(node) == Some(true));
        if let Some(node) = fields.take("capture") {
            handler.captures = self.handler_captures(node);
        }
        // The structural check warns about this one; trying again is what `max_attempts` says.
        fields.take("retry_original").and_then(|node| self.boolean(node));
        self.finish(fields);
        Some(handler)
    }

    /// Reads the steps of a handler: `commands`, or `shell` and `claude` beside the settings.
    fn handler_steps(&mut self, fields: &mut Fields<'_>, scope: &Scope) -> Vec<Step> {
        let commands = fields.take("commands");
        let direct: Vec<_> =
            ["shell", "claude"].into_iter().filter_map(|name| fields.take_entry(name)).collect();
        let mut steps = commands.map(|node| self.commands(node, scope)).unwrap_or_default();
        for (key, node) in direct {
            let action = match key.text.as_str() {
                "shell" => self.posix(node, scope),
                _ => self.prompt(node, "claude", Box::default(), scope),
            };
            steps.extend(action.map(|action| bare(node.span, action, scope)));
        }
        steps
    }

    fn handler_captures(&mut self, node: &YamlNode) -> Vec<String> {
        let Some(entries) = node.as_mapping() else {
            return self.identifier(node).into_iter().collect();
        };
        // The sources are names without a meaning: what is captured is always the whole output.
        entries.iter().map(|(key, _)| key.text.clone()).collect()
    }

    /// Reads commands in any of their shapes: text, a step, or a list of both.
    pub(super) fn commands(&mut self, node: &YamlNode, scope: &Scope) -> Vec<Step> {
        match &node.value {
            YamlValue::Sequence(entries) => {
                entries.iter().flat_map(|entry| self.command(entry, scope)).collect()
            }
            YamlValue::Null
            | YamlValue::Bool(_)
            | YamlValue::Integer(_)
            | YamlValue::Float(_)
            | YamlValue::String(_)
            | YamlValue::Mapping(_) => self.command(node, scope),
        }
    }

    fn command(&mut self, node: &YamlNode, scope: &Scope) -> Vec<Step> {
        if node.as_mapping().is_some() {
            return self.one_or_two(node, scope);
        }
        let Some(text) = self.filled(node) else { return Vec::new() };
        let action = if text.starts_with('/') {
            self.prompt(node, "claude", Box::default(), scope)
        } else {
            self.posix(node, scope)
        };
        action.map(|action| bare(node.span, action, scope)).into_iter().collect()
    }

    /// Reads a step in a place where `shell` and `claude` may stand together.
    fn one_or_two(&mut self, node: &YamlNode, scope: &Scope) -> Vec<Step> {
        self.fields(node).map(|fields| self.one_or_two_of(fields, scope)).unwrap_or_default()
    }

    /// Reads one or two steps from the keys that are left of a mapping.
    pub(super) fn one_or_two_of(&mut self, mut fields: Fields<'_>, scope: &Scope) -> Vec<Step> {
        if !fields.has("shell") || !fields.has("claude") {
            return self.step_of(fields, scope).into_iter().collect();
        }
        for key in fields.keys().filter(|key| !SHARED.contains(&key.text.as_str())) {
            let message = format!("`{}` cannot belong to both `shell` and `claude`", key.text);
            self.report(Diagnostic::error(key.span, message).help("write two commands"));
        }
        let options = self.agent_options(&mut fields, scope);
        let prompt = fields.take("claude");
        let prompt = prompt.and_then(|node| self.prompt(node, "claude", options, scope));
        let shell = self.step_of(fields, scope);
        let claude = prompt.zip(shell.clone()).map(|(action, step)| {
            let auto_commit = commits_by_default(&action, false, scope);
            Step { action, auto_commit, ..step }
        });
        shell.into_iter().chain(claude).collect()
    }

    fn posix(&mut self, node: &YamlNode, scope: &Scope) -> Option<StepAction> {
        let script = self.script(node, scope, ShellDialect::Posix, false)?;
        self.warn_of_effects(node, &script);
        Some(StepAction::Shell { script, program: SHELL.to_owned() })
    }
}
