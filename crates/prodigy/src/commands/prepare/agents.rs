//! The agents that a workflow needs: where each comes from, and whether it can do the work.

use std::ffi::OsString;

use prodigy_core::{
    diagnostic::Diagnostic,
    workflow::{
        Ability, AgentConfig, AgentKind, EnvVar, PermissionMode, Step, StepAction, Workflow,
        step_label,
    },
};

use super::fingerprint::find_program;
use crate::{config::Config, error::CliError, exit::Exit, render::console::Console};

/// Returns how an agent is run: as the workflow says, as the configuration says, or as it is
/// installed.
pub(crate) fn resolve_agent(
    workflow: &Workflow,
    config: &Config,
    name: &str,
) -> Option<AgentConfig> {
    let own = workflow.agents.get(name);
    let found = own.or_else(|| config.agents.get(name).map(|found| &found.value));
    found.cloned().or_else(|| AgentConfig::built_in(name))
}

/// Returns what the steps ask of agents that cannot do it, also of those that are configured
/// outside of the workflow.
pub(crate) fn unsupported_options(workflow: &Workflow, config: &Config) -> Vec<Diagnostic> {
    let config_of = |name: &str| resolve_agent(workflow, config, name);
    let mut found = workflow.unsupported_options(&|name| config_of(name).map(|found| found.kind()));
    found.extend(workflow.impossible_commits(&config_of));
    found
}

/// Returns the steps whose agent none of these configurations knows, each agent once.
pub(crate) fn unknown_agents(workflow: &Workflow, configs: &[&Config]) -> Vec<Diagnostic> {
    let is_known =
        |name| configs.iter().any(|config| resolve_agent(workflow, config, name).is_some());
    let needed = workflow.required_agents().into_iter();
    needed
        .filter(|(name, _)| !is_known(name))
        .map(|(name, step)| {
            let message = format!("no agent named `{name}` is configured");
            Diagnostic::error(step.span, message).help(to_configure(name))
        })
        .collect()
}

/// Returns how an agent is made known.
fn to_configure(name: &str) -> String {
    format!(
        "add `agents: {{ {name}: {{ type: command, command: [PROGRAM] }} }}` to the workflow or to `.prodigy/config.yml`"
    )
}

/// Returns warnings of agents that do not reach their model.
pub(crate) fn agents_without_network(workflow: &Workflow, config: &Config) -> Vec<Diagnostic> {
    workflow.agents_without_network(&|name| {
        resolve_agent(workflow, config, name).map(|found| found.kind())
    })
}

/// Says for which agents a budget cannot hold.
pub(crate) fn warn_unpriced_agents(
    workflow: &Workflow,
    configured: &[(&str, AgentConfig)],
    out: &mut Console,
) {
    if workflow.budget.is_unlimited() {
        return;
    }
    for (name, config) in configured {
        if !config.kind().supports(Ability::Cost) && !config.has_prices() {
            let help =
                if config.kind().supports(Ability::Tokens) { "; set `prices` for it" } else { "" };
            out.note(format_args!(
                "warning: agent `{name}` does not say what it costs, so `budget` does not hold for it{help}"
            ));
        }
    }
}

/// Returns the agents that the steps name; all of them must be there before anything starts.
pub(crate) fn required_agents<'w>(
    workflow: &'w Workflow,
    config: &Config,
    env: &[(OsString, OsString)],
) -> Result<Vec<(&'w str, AgentConfig)>, CliError> {
    let mut agents = Vec::new();
    for (name, step) in workflow.required_agents() {
        let label = step_label(step);
        let Some(found) = resolve_agent(workflow, config, name) else {
            let message = format!("no agent named `{name}` is configured, and `{label}` needs it");
            return Err(CliError::new(Exit::Invalid, message).with_hint(to_configure(name)));
        };
        if let Some(program) = found.program()
            && find_program(program, env).is_none()
        {
            let message = format!(
                "the program `{program}` of agent `{name}` is not installed, and `{label}` needs it"
            );
            return Err(CliError::new(Exit::Invalid, message)
                .with_hint("install it, or name another one under `agents`"));
        }
        agents.push((name, found));
    }
    Ok(agents)
}

/// Refuses steps that Claude Code would refuse to root, before anything starts.
pub(crate) fn reject_bypass_as_root(
    workflow: &Workflow,
    agents: &[(&str, AgentConfig)],
    env: &[(OsString, OsString)],
    workflow_env: &[EnvVar],
) -> Result<(), CliError> {
    let is_set = |vars: &[EnvVar]| vars.iter().any(|var| var.name == "IS_SANDBOX");
    // In the sandbox of the workflow it is set for every agent.
    let is_sandbox = workflow.sandbox.is_some()
        || env.iter().any(|(name, value)| name == "IS_SANDBOX" && value == "1");
    if !rustix::process::geteuid().is_root() || is_sandbox || is_set(workflow_env) {
        return Ok(());
    }
    let mut refused: Option<&Step> = None;
    workflow.visit_steps(&mut |step| {
        if refused.is_none() && is_bypassed(step, agents) && !is_set(&step.env) {
            refused = Some(step);
        }
    });
    let Some(step) = refused else { return Ok(()) };
    let message = format!(
        "Claude Code refuses `permission_mode: bypass` to root, and `{}` asks for it",
        step_label(step)
    );
    Err(CliError::new(Exit::Invalid, message).with_hint(
        "run prodigy as another user, add `sandbox: bubblewrap`, or set `IS_SANDBOX=1` where nothing can be harmed",
    ))
}

/// Returns whether a step has Claude Code do everything without asking.
fn is_bypassed(step: &Step, agents: &[(&str, AgentConfig)]) -> bool {
    let StepAction::Agent { agent, options, .. } = &step.action else { return false };
    let found = agents.iter().find(|(name, _)| name == agent).map(|(_, found)| found);
    let Some(AgentConfig::Claude(claude)) = found else { return false };
    options.permission_mode.or(claude.options.permission_mode) == Some(PermissionMode::Bypass)
}

/// Returns every agent that is there without a workflow, with the kind that it is.
pub(crate) fn available_agents(config: &Config) -> Vec<(String, AgentConfig)> {
    let built_in = AgentKind::ALL.iter().map(|kind| kind.as_str());
    let built_in = built_in.filter(|name| !config.agents.contains_key(*name));
    let built_in =
        built_in.filter_map(|name| Some((name.to_owned(), AgentConfig::built_in(name)?)));
    let own = config.agents.iter().map(|(name, found)| (name.clone(), found.value.clone()));
    let mut all: Vec<_> = built_in.chain(own).collect();
    all.sort_by(|(one, _), (other, _)| one.cmp(other));
    all
}
