//! Codex, without a terminal.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use prodigy_core::{
    agent::{StreamDialect, TokenPrices, VERDICT_SCHEMA},
    failure::Failure,
    workflow::{AgentKind, AgentOptions, CodexAgent, CodexSandbox, PermissionMode},
};
use serde_json::Value;

use super::{
    Agent, AgentExit, AgentLaunch, AgentReport, AgentRequest, outcome, scratch_file, variable,
};

/// Codex.
pub(super) struct CodexDriver {
    config: CodexAgent,
}

impl CodexDriver {
    pub(super) fn new(config: CodexAgent) -> Self {
        Self { config }
    }

    /// Returns what the commands of the agent may touch; nothing if its own settings say it.
    fn sandbox(&self, mode: Option<PermissionMode>) -> Option<CodexSandbox> {
        match mode {
            None => Some(self.config.sandbox),
            Some(PermissionMode::Default) => None,
            Some(PermissionMode::AcceptEdits) => Some(CodexSandbox::WorkspaceWrite),
            Some(PermissionMode::Plan) => Some(CodexSandbox::ReadOnly),
            Some(PermissionMode::Bypass) => Some(CodexSandbox::DangerFullAccess),
        }
    }

    fn arguments(&self, request: &AgentRequest<'_>) -> Result<Vec<OsString>, Failure> {
        let mut argv: Vec<OsString> = vec!["exec".into(), "--json".into()];
        // A value that is joined to its flag can never be taken for a flag itself.
        // Inside another sandbox it cannot make its own, and could run no command.
        let sandbox = if request.is_confined {
            Some(CodexSandbox::DangerFullAccess)
        } else {
            self.sandbox(request.options.permission_mode)
        };
        if let Some(sandbox) = sandbox {
            argv.push(format!("--sandbox={}", spelled(sandbox)).into());
        }
        if let Some(model) = &request.options.model {
            argv.push(format!("--model={model}").into());
        }
        let AgentOptions { output_schema, is_judge, .. } = request.options;
        let schema = output_schema.as_ref().map(|schema| schema.source().to_string());
        if let Some(schema) = schema.or_else(|| is_judge.then(|| VERDICT_SCHEMA.to_owned())) {
            let file = scratch_file(request, "output-schema.json", &schema)?;
            let mut word = OsString::from("--output-schema=");
            word.push(file);
            argv.push(word);
        }
        let system_prompt = request.system_prompt.map(Value::from);
        let system_prompt = system_prompt.iter().map(|text| ("developer_instructions", text));
        let config = self.config.config.iter().map(|(name, value)| (name.as_str(), value));
        for (name, value) in config.chain(system_prompt) {
            argv.push(format!("--config={name}={}", toml(value)).into());
        }
        argv.extend(self.config.args.iter().map(OsString::from));
        if request.session.resume {
            argv.extend(["resume".into(), request.session.id.into()]);
        }
        // The prompt is on standard input.
        argv.push("-".into());
        Ok(argv)
    }
}

impl Agent for CodexDriver {
    fn launch(&self, request: &AgentRequest<'_>) -> Result<AgentLaunch, Failure> {
        let mut argv: Vec<OsString> = self.config.command.iter().map(OsString::from).collect();
        argv.extend(self.arguments(request)?);
        let stdin = request.prompt.as_bytes().to_vec();
        Ok(AgentLaunch { argv, stdin, env: Vec::new(), dialect: Some(StreamDialect::Codex) })
    }

    fn evaluate(&self, traces: &AgentExit<'_>) -> AgentReport {
        outcome::evaluate_stream(traces)
    }

    fn program(&self) -> Option<&str> {
        self.config.command.first().map(String::as_str)
    }

    fn kind(&self) -> AgentKind {
        AgentKind::Codex
    }

    fn access_hint(&self) -> String {
        "run `codex login`, or set the API key of its provider to a valid one".to_owned()
    }

    fn prices(&self) -> Option<&TokenPrices> {
        self.config.prices.as_ref()
    }

    fn options(&self) -> Option<&AgentOptions> {
        Some(&self.config.options)
    }

    fn is_read_only(&self, options: &AgentOptions) -> bool {
        self.sandbox(options.permission_mode) == Some(CodexSandbox::ReadOnly)
    }

    fn config_dir(&self, env: &[(OsString, OsString)]) -> Option<PathBuf> {
        let set = variable(env, "CODEX_HOME").filter(|set| !set.is_empty()).map(PathBuf::from);
        set.or_else(|| variable(env, "HOME").map(|home| Path::new(home).join(".codex")))
    }

    /// Looks for the file of the session, which is below the day that it was begun on.
    fn restore_session(&self, session: &str, _: &Path, directory: &Path) -> bool {
        let end = format!("-{session}.jsonl");
        holds(&directory.join("sessions"), &end, DAYS)
    }
}

/// Returns the program's word for a sandbox.
fn spelled(sandbox: CodexSandbox) -> &'static str {
    match sandbox {
        CodexSandbox::ReadOnly => "read-only",
        CodexSandbox::WorkspaceWrite => "workspace-write",
        CodexSandbox::DangerFullAccess => "danger-full-access",
    }
}

/// The depth of the directories of session files: year, month, day.
const DAYS: u32 = 3;

/// Returns whether a file whose name ends so lies below a directory.
fn holds(directory: &Path, end: &str, depth: u32) -> bool {
    let mut entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.any(|entry| match depth {
        0 => entry.file_name().to_string_lossy().ends_with(end),
        depth => holds(&entry.path(), end, depth - 1),
    })
}

/// Writes a value in the notation of the program's configuration.
fn toml(value: &Value) -> String {
    let joined = |parts: Vec<String>| parts.join(", ");
    match value {
        // There is no word for it; a workflow that holds one is refused.
        Value::Null => "\"\"".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        // The escapes of JSON are those of TOML, but for one letter.
        Value::String(_) => value.to_string().replace('\u{7f}', "\\u007f"),
        Value::Array(values) => format!("[{}]", joined(values.iter().map(toml).collect())),
        Value::Object(entries) => {
            let entry = |(name, value): (&String, &Value)| {
                format!("{} = {}", toml(&Value::from(name.as_str())), toml(value))
            };
            format!("{{{}}}", joined(entries.iter().map(entry).collect()))
        }
    }
}

#[cfg(test)]
mod tests;
