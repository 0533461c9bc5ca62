//! Lowering of a step's action.

use std::num::NonZeroU32;

use super::{context::Lower, fields::Fields, scope::Scope};
use crate::{
    diagnostic::Diagnostic,
    template::{ShellDialect, TemplateKind},
    workflow::{AgentOptions, FileFormat, Foreach, ForeachInput, ForeachValue, StepAction},
    yaml::{YamlKey, YamlNode},
};

/// The keys that are actions.
const ACTIONS: &[&str] = &["shell", "claude", "codex", "agent", "write_file", "foreach"];

const FILE_FORMATS: &[(&str, FileFormat)] =
    &[("text", FileFormat::Text), ("json", FileFormat::Json), ("yaml", FileFormat::Yaml)];

/// The shell that runs a script unless the step names another.
pub(super) const SHELL: &str = "sh";

impl Lower<'_> {
    /// Reads the action of a step.
    pub(super) fn action(&mut self, fields: &mut Fields<'_>, scope: &Scope) -> Option<StepAction> {
        let given: Vec<&(YamlKey, YamlNode)> =
            ACTIONS.iter().filter_map(|name| fields.take_entry(name)).collect();
        let Some((key, node)) = given.first() else {
            self.unusable(fields.span, "a step needs an action");
            return None;
        };
        match key.text.as_str() {
            "shell" => self.shell(node, fields, scope),
            "agent" => {
                let options = self.agent_options(fields, scope);
                self.agent(node, options, scope)
            }
            "write_file" => self.write_file(node, scope),
            "foreach" => self.foreach(node, scope),
            name => {
                let options = self.agent_options(fields, scope);
                self.prompt(node, name, options, scope)
            }
        }
    }

    fn shell(
        &mut self,
        node: &YamlNode,
        fields: &mut Fields<'_>,
        scope: &Scope,
    ) -> Option<StepAction> {
        let program = fields.take("shell_program").and_then(|node| self.filled(node));
        let program = program.unwrap_or_else(|| SHELL.to_owned());
        let allow_raw = fields.take("allow_raw").and_then(|node| self.boolean(node));
        let allow_raw = allow_raw.unwrap_or_default();
        let script = self.script(node, scope, dialect(&program), allow_raw)?;
        if !fields.has("effects") {
            self.warn_of_effects(node, &script);
        }
        Some(StepAction::Shell { script, program })
    }

    /// Reads the prompt for the named agent.
    pub(super) fn prompt(
        &mut self,
        node: &YamlNode,
        agent: &str,
        options: Box<AgentOptions>,
        scope: &Scope,
    ) -> Option<StepAction> {
        self.filled(node)?;
        let prompt = self.template(node, scope, TemplateKind::Text)?;
        Some(StepAction::Agent { agent: agent.to_owned(), prompt, options })
    }

    fn agent(
        &mut self,
        node: &YamlNode,
        options: Box<AgentOptions>,
        scope: &Scope,
    ) -> Option<StepAction> {
        let mut fields = self.fields(node)?;
        let name = self.required(&mut fields, "use");
        let name = name.and_then(|node| self.filled(node));
        let prompt = self.required(&mut fields, "prompt");
        let prompt = prompt.and_then(|node| self.prompt(node, name.as_deref()?, options, scope));
        self.finish(fields);
        prompt
    }

    fn write_file(&mut self, node: &YamlNode, scope: &Scope) -> Option<StepAction> {
        let mut fields = self.fields(node)?;
        let format = fields.take("format").and_then(|node| self.word(node, FILE_FORMATS));
        let format = format.unwrap_or(FileFormat::Text);
        let sink = match format {
            FileFormat::Text => TemplateKind::Text,
            FileFormat::Json => TemplateKind::Json,
            FileFormat::Yaml => TemplateKind::Yaml,
        };
        let path = self.required(&mut fields, "path");
        let path = path.and_then(|node| self.template(node, scope, TemplateKind::Path));
        let content = self.required(&mut fields, "content");
        let content = content.and_then(|node| self.template(node, scope, sink));
        let mode = fields.take("mode").and_then(|node| self.mode(node));
        let create_dirs = fields.take("create_dirs").and_then(|node| self.boolean(node));
        self.finish(fields);
        Some(StepAction::WriteFile {
            path: path?,
            content: content?,
            format,
            mode,
            create_dirs: create_dirs.unwrap_or_default(),
        })
    }

    /// Reads permissions, always as octal digits.
    fn mode(&mut self, node: &YamlNode) -> Option<u32> {
        // `0644` is a decimal number to YAML 1.2; nobody who writes it means that.
        let written = self.text(node)?;
        let digits = written.strip_prefix("0o").unwrap_or(&written);
        let mode = u32::from_str_radix(digits, 8).ok().filter(|mode| *mode <= 0o7777);
        if mode.is_none() {
            let message = format!("`{written}` are not permissions");
            let help = "write octal digits, such as `0644` or `0755`";
            self.report(Diagnostic::error(node.span, message).help(help));
        }
        mode
    }

    fn foreach(&mut self, node: &YamlNode, scope: &Scope) -> Option<StepAction> {
        let mut fields = self.fields(node)?;
        let input = self.required(&mut fields, "input");
        let input = input.and_then(|node| self.foreach_input(node, scope));
        let parallel = fields.take("parallel").and_then(|node| self.count(node));
        let parallel = parallel.unwrap_or(NonZeroU32::MIN);
        let inner = scope.with_loop();
        // One round would commit what another has half done.
        let inner = if parallel > NonZeroU32::MIN { inner.uncommitted() } else { inner };
        let steps = self.required(&mut fields, "do");
        let steps = steps.map(|node| self.steps(node, &inner));
        let continue_on_error =
            fields.take("continue_on_error").and_then(|node| self.boolean(node));
        let max_items = fields.take("max_items").and_then(|node| self.whole(node));
        self.finish(fields);
        Some(StepAction::Foreach(Foreach {
            input: input?,
            parallel,
            steps: steps?,
            continue_on_error: continue_on_error.unwrap_or_default(),
            max_items,
        }))
    }

    fn foreach_input(&mut self, node: &YamlNode, scope: &Scope) -> Option<ForeachInput> {
        let Some(values) = node.as_sequence() else {
            let script = self.script(node, scope, ShellDialect::Posix, false)?;
            return Some(ForeachInput::Command(script));
        };
        let values = values.iter().filter_map(|value| {
            if value.as_str().is_some() {
                return self.template(value, scope, TemplateKind::Text).map(ForeachValue::Text);
            }
            Some(ForeachValue::Value(value.to_json()))
        });
        Some(ForeachInput::Values(values.collect()))
    }
}

/// Returns how a shell reads its scripts.
pub(super) fn dialect(program: &str) -> ShellDialect {
    match program.rsplit('/').next() {
        Some("bash" | "zsh" | "ksh" | "mksh") => ShellDialect::Bash,
        Some(_) | None => ShellDialect::Posix,
    }
}
