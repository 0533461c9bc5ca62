//! The agents that steps may name.

mod abilities;
mod claude;
mod codex;
mod command;
mod options;

pub use self::{
    claude::ClaudeAgent,
    codex::{CodexAgent, CodexSandbox},
    command::{CommandAgent, ExitMeaning, PromptBy},
    options::{Ability, AgentOptions, GivenOption, PermissionMode},
};
use super::SimulatedAgent;

/// The configuration of an agent.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a workflow has a few of them")]
pub enum AgentConfig {
    /// Claude Code.
    Claude(Box<ClaudeAgent>),
    /// Codex.
    Codex(Box<CodexAgent>),
    /// Any program.
    Command(CommandAgent),
    /// The agent that is built in.
    Simulated(SimulatedAgent),
}

/// The kinds of agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AgentKind {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Any program.
    Command,
    /// The agent that is built in.
    Simulated,
}
