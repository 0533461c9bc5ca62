//! The agents that are there.

use std::{env, ffi::OsString, path::Path, time::Duration};

use prodigy_core::workflow::AgentConfig;
use prodigy_engine::process::{HelperCommand, run_helper};

use super::{CheckLevel, DoctorCheck, on_path};
use crate::{
    cli::Cli,
    commands::agents::available_agents,
    config::{Config, repo_root},
    trust::{self, RepoContent},
};

/// The timeout of an agent's version query.
const PATIENCE: Duration = Duration::from_secs(20);

/// Says which agents are there; a workflow may need none of them.
pub(super) fn check_agents(args: &Cli) -> Vec<DoctorCheck> {
    let here = env::current_dir().unwrap_or_default();
    let root = repo_root(&here);
    let config = match Config::load(args, root.as_deref()) {
        Ok(config) => config,
        Err(error) => return vec![DoctorCheck::new(CheckLevel::Fail, "agents", error.to_string())],
    };
    let mut checks = Vec::new();
    for line in root.iter().flat_map(|root| trust::lines(&RepoContent::read(root))) {
        let level = if line.starts_with("trusted") { CheckLevel::Ok } else { CheckLevel::Warn };
        checks.push(DoctorCheck::new(level, "trust", line));
    }
    let before = checks.len();
    let mut missing = Vec::new();
    for (name, agent) in available_agents(&config) {
        let Some(program) = agent.program() else {
            checks.push(DoctorCheck::new(CheckLevel::Ok, "agents", format!("{name}: built in")));
            continue;
        };
        match on_path(program) {
            Some(path) => {
                let (level, version) = version(&agent, &here);
                let detail = format!("{name}: {}{version}", path.display());
                checks.push(DoctorCheck::new(level, "agents", detail));
            }
            None if config.agents.contains_key(&name) => {
                let detail = format!("{name}: the program `{program}` is not installed");
                checks.push(DoctorCheck::new(CheckLevel::Warn, "agents", detail));
            }
            None => missing.push(name),
        }
    }
    if checks.len() == before {
        let detail = format!("none of {} found: shell steps work without", missing.join(", "));
        checks.push(DoctorCheck::new(CheckLevel::Warn, "agents", detail));
    }
    checks
}

/// Asks a program that we know for its version; others might take the question for work.
fn version(agent: &AgentConfig, here: &Path) -> (CheckLevel, String) {
    let command = match agent {
        AgentConfig::Claude(claude) => &claude.command,
        AgentConfig::Codex(codex) => &codex.command,
        AgentConfig::Command(_) | AgentConfig::Simulated(_) => {
            return (CheckLevel::Ok, String::new());
        }
    };
    let words: Vec<OsString> = command.iter().map(OsString::from).collect();
    let Some((program, args)) = words.split_first() else { return (CheckLevel::Ok, String::new()) };
    let args: Vec<OsString> = args.iter().cloned().chain(["--version".into()]).collect();
    let asked = run_helper(&HelperCommand {
        program,
        args: &args,
        cwd: here,
        env: &[("DISABLE_AUTOUPDATER".into(), Some("1".into()))],
        stdin: b"",
        timeout: PATIENCE,
    });
    match asked {
        Ok(said) if said.status == 0 => {
            let text = String::from_utf8_lossy(&said.stdout);
            let line = text.lines().next().map(str::trim).unwrap_or_default();
            let known = if line.is_empty() { "it does not say its version" } else { line };
            (CheckLevel::Ok, format!(", {known}"))
        }
        Ok(said) => (CheckLevel::Warn, format!(", `--version` exited with code {}", said.status)),
        Err(error) => (CheckLevel::Warn, format!(", its version is not known: {error}")),
    }
}
