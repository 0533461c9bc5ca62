//! Codex.

use std::collections::BTreeMap;

use super::AgentOptions;
use crate::agent::TokenPrices;

/// Codex, run without a terminal.
#[derive(Clone, Debug, PartialEq)]
pub struct CodexAgent {
    /// The program and its first arguments.
    pub command: Vec<String>,
    /// The default options of steps that use it.
    pub options: AgentOptions,
    /// The write access of its commands, unless a step has a permission mode.
    pub sandbox: CodexSandbox,
    /// Values of its configuration, by dotted name.
    pub config: BTreeMap<String, serde_json::Value>,
    /// More arguments.
    pub args: Vec<String>,
    /// The prices of its tokens.
    pub prices: Option<TokenPrices>,
}

/// The write access of commands that Codex runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CodexSandbox {
    /// Nothing.
    ReadOnly,
    /// The worktree.
    #[default]
    WorkspaceWrite,
    /// Everything.
    DangerFullAccess,
}

impl Default for CodexAgent {
    /// The program `codex`, as it is installed.
    fn default() -> Self {
        Self {
            command: vec!["codex".to_owned()],
            options: AgentOptions::default(),
            sandbox: CodexSandbox::default(),
            config: BTreeMap::new(),
            args: Vec::new(),
            prices: None,
        }
    }
}
