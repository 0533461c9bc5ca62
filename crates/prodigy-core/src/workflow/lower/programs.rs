//! Agents that are programs: Claude Code, Codex, and any other.

use std::{
    collections::BTreeMap,
    path::{Component, Path},
};

use super::{context::Lower, fields::Fields, scope::Scope};
use crate::{
    agent::TokenPrices,
    diagnostic::Diagnostic,
    failure::ReasonCode,
    workflow::{ClaudeAgent, CodexAgent, CodexSandbox, CommandAgent, ExitMeaning, PromptBy},
    yaml::{YamlNode, YamlValue},
};

const PROMPTS: &[(&str, PromptBy)] =
    &[("stdin", PromptBy::Stdin), ("argument", PromptBy::Argument)];

const SANDBOXES: &[(&str, CodexSandbox)] = &[
    ("read-only", CodexSandbox::ReadOnly),
    ("workspace-write", CodexSandbox::WorkspaceWrite),
    ("danger-full-access", CodexSandbox::DangerFullAccess),
];

/// Arguments of Claude Code that have a key, or none because prodigy needs them itself.
const CLAUDE_OWN: &[(&str, &str)] = &[
    ("--allow-dangerously-skip-permissions", "permission_mode: bypass"),
    ("--allowed-tools", "allowed_tools: …"),
    ("--allowedTools", "allowed_tools: …"),
    ("--append-system-prompt", "system_prompt: …"),
    ("--append-system-prompt-file", "system_prompt: …"),
    ("--background", ""),
    ("--bg", ""),
    ("--continue", ""),
    ("--dangerously-skip-permissions", "permission_mode: bypass"),
    ("--disallowed-tools", "disallowed_tools: …"),
    ("--disallowedTools", "disallowed_tools: …"),
    ("--fallback-model", "fallback_model: …"),
    ("--fork-session", ""),
    ("--input-format", ""),
    ("--json-schema", "output_schema: …"),
    ("--max-budget-usd", "max_budget_usd: …"),
    ("--max-turns", "max_turns: …"),
    ("--model", "model: …"),
    ("--output-format", ""),
    ("--permission-mode", "permission_mode: …"),
    ("--print", ""),
    ("--resume", ""),
    ("--session-id", ""),
    ("--verbose", ""),
    ("--worktree", ""),
    ("-c", ""),
    ("-p", ""),
    ("-r", ""),
    ("-w", ""),
];

/// The same for Codex.
const CODEX_OWN: &[(&str, &str)] = &[
    ("--cd", ""),
    ("--config", "config: …"),
    ("--dangerously-bypass-approvals-and-sandbox", "sandbox: danger-full-access"),
    ("--json", ""),
    ("--model", "model: …"),
    ("--output-schema", "output_schema: …"),
    ("--sandbox", "sandbox: …"),
    ("--worktree", ""),
    ("--yolo", "sandbox: danger-full-access"),
    ("-C", ""),
    ("-c", "config: …"),
    ("-m", "model: …"),
    ("-s", "sandbox: …"),
];

impl Lower<'_> {
    /// Reads an agent that is Claude Code.
    pub(super) fn claude(&mut self, fields: &mut Fields<'_>) -> ClaudeAgent {
        let options = *self.agent_options(fields, &Scope::settings());
        let config_dir = fields.take("config_dir").and_then(|node| self.own_directory(node));
        let command = fields.take("command").map(|node| self.own_command(node, CLAUDE_OWN));
        let args = fields.take("args").map(|node| self.arguments(node, CLAUDE_OWN));
        let prices = fields.take("prices").and_then(|node| self.prices(node));
        let default = ClaudeAgent::default();
        ClaudeAgent {
            command: command.unwrap_or(default.command),
            options,
            config_dir,
            args: args.unwrap_or_default(),
            prices,
        }
    }

    /// Reads an agent that is Codex.
    pub(super) fn codex(&mut self, fields: &mut Fields<'_>) -> CodexAgent {
        let options = *self.agent_options(fields, &Scope::settings());
        let sandbox = fields.take("sandbox").and_then(|node| self.word(node, SANDBOXES));
        let config = fields.take("config").map(|node| self.codex_config(node));
        let command = fields.take("command").map(|node| self.own_command(node, CODEX_OWN));
        let args = fields.take("args").map(|node| self.arguments(node, CODEX_OWN));
        let prices = fields.take("prices").and_then(|node| self.prices(node));
        let default = CodexAgent::default();
        CodexAgent {
            command: command.unwrap_or(default.command),
            options,
            sandbox: sandbox.unwrap_or_default(),
            config: config.unwrap_or_default(),
            args: args.unwrap_or_default(),
            prices,
        }
    }

    /// Reads the prices of an agent's tokens. What is put into a cache or read from it costs as
    /// much as what is read, unless they say otherwise.
    fn prices(&mut self, node: &YamlNode) -> Option<TokenPrices> {
        let mut fields = self.fields(node)?;
        let input = self.required(&mut fields, "input");
        let output = self.required(&mut fields, "output");
        let (cache_read, cache_write) = (fields.take("cache_read"), fields.take("cache_write"));
        self.finish(fields);
        let mut price = |node: &YamlNode| self.number(node, 0.0, f64::MAX);
        let (input, output) = (input.and_then(&mut price), output.and_then(&mut price));
        let (cache_read, cache_write) =
            (cache_read.and_then(&mut price), cache_write.and_then(&mut price));
        let (input, output) = input.zip(output)?;
        Some(TokenPrices {
            input,
            output,
            cache_read: cache_read.unwrap_or(input),
            cache_write: cache_write.unwrap_or(input),
        })
    }

    /// Reads an agent that is any program.
    pub(super) fn program(&mut self, fields: &mut Fields<'_>) -> Option<CommandAgent> {
        let prompt = fields.take("prompt").and_then(|node| self.word(node, PROMPTS));
        let exit_codes = fields.take("exit_codes").map(|node| self.exit_codes(node));
        let result_file = fields.take("result_file").and_then(|node| self.path_inside(node));
        let node = self.required(fields, "command")?;
        let command = self.words_of(node)?;
        Some(CommandAgent {
            command,
            prompt: prompt.unwrap_or(PromptBy::Stdin),
            exit_codes: exit_codes.unwrap_or_default(),
            result_file,
        })
    }

    /// Reads a program with its arguments.
    fn words_of(&mut self, node: &YamlNode) -> Option<Vec<String>> {
        let words = self.list(node).iter();
        let command: Vec<String> = words.filter_map(|word| self.text(word)).collect();
        if command.first().is_none_or(|program| program.trim().is_empty()) {
            self.report(Diagnostic::error(node.span, "there is no program to run"));
            return None;
        }
        Some(command)
    }

    fn own_command(&mut self, node: &YamlNode, own: &[(&str, &str)]) -> Vec<String> {
        let command = self.words_of(node).unwrap_or_default();
        for word in self.list(node).iter().skip(1) {
            self.refuse_own(word, own);
        }
        command
    }

    fn arguments(&mut self, node: &YamlNode, own: &[(&str, &str)]) -> Vec<String> {
        let words = self.list(node);
        for word in words {
            self.refuse_own(word, own);
        }
        words.iter().filter_map(|word| self.text(word)).collect()
    }

    /// Reports an argument that prodigy gives itself: one of the two would not count.
    fn refuse_own(&mut self, node: &YamlNode, own: &[(&str, &str)]) {
        let Some(word) = node.scalar_text() else { return };
        let is_it = |flag: &str| match word.strip_prefix(flag) {
            Some(rest) if flag.starts_with("--") => rest.is_empty() || rest.starts_with('='),
            Some(_) => true,
            None => false,
        };
        let Some((flag, key)) = own.iter().find(|(flag, _)| is_it(flag)) else { return };
        let message = format!("`{flag}` is an argument that prodigy gives the agent itself");
        let help = if key.is_empty() {
            "leave it out".to_owned()
        } else {
            format!("write `{key}` instead")
        };
        self.report(Diagnostic::error(node.span, message).help(help));
    }

    fn own_directory(&mut self, node: &YamlNode) -> Option<String> {
        let path = self.filled(node)?;
        if !path.starts_with('/') && !path.starts_with("~/") {
            let message = format!("`{path}` is not the same directory in every worktree");
            let help = "write an absolute path, or one that begins with `~/`";
            self.report(Diagnostic::error(node.span, message).help(help));
            return None;
        }
        Some(path)
    }

    fn path_inside(&mut self, node: &YamlNode) -> Option<String> {
        let path = self.filled(node)?;
        let is_inside = |part: Component<'_>| matches!(part, Component::Normal(_));
        if !Path::new(&path).components().all(is_inside) {
            let message = format!("`{path}` is not a path inside the worktree");
            self.report(Diagnostic::error(node.span, message));
            return None;
        }
        Some(path)
    }

    fn exit_codes(&mut self, node: &YamlNode) -> BTreeMap<i32, ExitMeaning> {
        let mut codes = BTreeMap::new();
        for (key, value) in self.table(node) {
            let code = key.text.parse::<i32>().ok();
            if code.is_none() {
                self.unusable(key.span, format!("`{}` is not an exit code", key.text));
            }
            let meaning = self.text(value).map(|word| match word.as_str() {
                "success" => Ok(ExitMeaning::Success),
                word => ReasonCode::parse(word).map(ExitMeaning::Failure),
            });
            match (code, meaning) {
                (Some(code), Some(Ok(meaning))) => {
                    codes.insert(code, meaning);
                }
                (_, Some(Err(problem))) => self.unusable(value.span, problem),
                (None, Some(Ok(_))) | (_, None) => {}
            }
        }
        codes
    }

    fn codex_config(&mut self, node: &YamlNode) -> BTreeMap<String, serde_json::Value> {
        let mut config = BTreeMap::new();
        for (key, value) in self.table(node) {
            let good =
                |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.');
            if !key.text.chars().all(good) {
                let message = format!("`{}` is not a dotted name", key.text);
                self.report(Diagnostic::error(key.span, message));
            }
            if has_null(value) {
                let message = format!("`{}` has no value", key.text);
                let help = "leave the key out: the configuration has no empty values";
                self.report(Diagnostic::error(key.span, message).help(help));
            }
            config.insert(key.text.clone(), value.to_json());
        }
        config
    }
}

/// Returns true if a value is null or contains null, which TOML cannot express.
fn has_null(node: &YamlNode) -> bool {
    match &node.value {
        YamlValue::Null => true,
        YamlValue::Sequence(elements) => elements.iter().any(has_null),
        YamlValue::Mapping(entries) => entries.iter().any(|(_, value)| has_null(value)),
        YamlValue::Bool(_) | YamlValue::Integer(_) | YamlValue::Float(_) | YamlValue::String(_) => {
            false
        }
    }
}
