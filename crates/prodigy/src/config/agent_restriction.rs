//! The stricter of what the user and a repository say about an agent.

use prodigy_core::workflow::{
    AgentConfig, AgentOptions, ClaudeAgent, CodexAgent, CodexSandbox, PermissionMode,
};

use super::ConfigValue;

/// Returns an agent as a repository configures it, where that is no less strict than the user's own.
///
/// Programs and arguments can loosen whatever the user restricted, and a program of another kind
/// cannot be compared, so those stay the user's if the user restricted the agent.
pub(crate) fn restrict_agent(
    own: Option<&ConfigValue<AgentConfig>>,
    theirs: ConfigValue<AgentConfig>,
) -> ConfigValue<AgentConfig> {
    let Some(own) = own else { return theirs };
    if !is_restricted(&own.value) {
        return ConfigValue { value: with_prices(theirs.value, &own.value), ..theirs };
    }
    let value = match (&own.value, theirs.value) {
        (AgentConfig::Claude(own), AgentConfig::Claude(theirs)) => {
            AgentConfig::Claude(Box::new(restrict_claude(own, &theirs)))
        }
        (AgentConfig::Codex(own), AgentConfig::Codex(theirs)) => {
            AgentConfig::Codex(Box::new(restrict_codex(own, &theirs)))
        }
        (
            AgentConfig::Claude(_)
            | AgentConfig::Codex(_)
            | AgentConfig::Command(_)
            | AgentConfig::Simulated(_),
            _,
        ) => return own.clone(),
    };
    ConfigValue { value, origin: theirs.origin }
}

/// Returns an agent with the prices that the user gave it, if any: budgets are kept by them.
fn with_prices(theirs: AgentConfig, own: &AgentConfig) -> AgentConfig {
    match (theirs, own) {
        (AgentConfig::Claude(mut theirs), AgentConfig::Claude(own)) => {
            theirs.prices = own.prices.or(theirs.prices);
            AgentConfig::Claude(theirs)
        }
        (AgentConfig::Codex(mut theirs), AgentConfig::Codex(own)) => {
            theirs.prices = own.prices.or(theirs.prices);
            AgentConfig::Codex(theirs)
        }
        (theirs, _) => theirs,
    }
}

/// Returns whether the user restricts an agent, by permissions or by the program around it.
fn is_restricted(own: &AgentConfig) -> bool {
    let restricts = |options: &AgentOptions| {
        options.permission_mode.is_some()
            || options.allowed_tools.is_some()
            || options.disallowed_tools.is_some()
    };
    match own {
        AgentConfig::Claude(own) => {
            restricts(&own.options) || own.command != ClaudeAgent::default().command
        }
        AgentConfig::Codex(own) => {
            restricts(&own.options)
                || own.command != CodexAgent::default().command
                || own.sandbox != CodexSandbox::default()
        }
        AgentConfig::Command(_) | AgentConfig::Simulated(_) => false,
    }
}

fn restrict_claude(own: &ClaudeAgent, theirs: &ClaudeAgent) -> ClaudeAgent {
    let (first, second) = (own.options.permission_mode, theirs.options.permission_mode);
    let mode = if permission_rank(second) < permission_rank(first) { second } else { first };
    let prices = own.prices.or(theirs.prices);
    ClaudeAgent {
        options: restrict_options(&own.options, &theirs.options, mode),
        prices,
        ..own.clone()
    }
}

fn restrict_codex(own: &CodexAgent, theirs: &CodexAgent) -> CodexAgent {
    let stricter = if codex_rank(theirs) < codex_rank(own) { theirs } else { own };
    let mode = stricter.options.permission_mode;
    CodexAgent {
        options: restrict_options(&own.options, &theirs.options, mode),
        sandbox: stricter.sandbox,
        prices: own.prices.or(theirs.prices),
        ..own.clone()
    }
}

/// Returns what the repository asks of an agent, with the tools that both allow.
fn restrict_options(
    own: &AgentOptions,
    theirs: &AgentOptions,
    permission_mode: Option<PermissionMode>,
) -> AgentOptions {
    let allowed = own.allowed_tools.iter().flatten();
    let is_allowed = |tool: &&String| theirs.allowed_tools.iter().flatten().any(|it| it == *tool);
    let allowed: Vec<String> = allowed.filter(is_allowed).cloned().collect();
    let denied = [&own.disallowed_tools, &theirs.disallowed_tools];
    let denied: Vec<String> = denied.into_iter().flatten().flatten().cloned().collect();
    AgentOptions {
        permission_mode,
        allowed_tools: Some(allowed).filter(|tools| !tools.is_empty()),
        disallowed_tools: Some(denied).filter(|tools| !tools.is_empty()),
        ..theirs.with_defaults(own)
    }
}

/// Returns how much a mode allows; without one, changes of files are accepted.
fn permission_rank(mode: Option<PermissionMode>) -> u8 {
    match mode {
        Some(PermissionMode::Plan) => 0,
        Some(PermissionMode::Default) => 1,
        Some(PermissionMode::AcceptEdits) | None => 2,
        Some(PermissionMode::Bypass) => 3,
    }
}

/// Returns how much Codex may do; without a mode, its sandbox says so.
fn codex_rank(agent: &CodexAgent) -> u8 {
    match (agent.options.permission_mode, agent.sandbox) {
        (None, CodexSandbox::ReadOnly) => 0,
        (None, CodexSandbox::DangerFullAccess) => 3,
        (mode, _) => permission_rank(mode),
    }
}
