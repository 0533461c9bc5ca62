//! Claude Code.

use super::AgentOptions;
use crate::agent::TokenPrices;

/// Claude Code, run without a terminal.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaudeAgent {
    /// The program and its first arguments.
    pub command: Vec<String>,
    /// The default options of steps that use it.
    pub options: AgentOptions,
    /// The directory of its settings and sessions, absolute or with `~/`.
    pub config_dir: Option<String>,
    /// More arguments.
    pub args: Vec<String>,
    /// The prices of its tokens.
    pub prices: Option<TokenPrices>,
}

impl Default for ClaudeAgent {
    /// The program `claude`, as it is installed.
    fn default() -> Self {
        Self {
            command: vec!["claude".to_owned()],
            options: AgentOptions::default(),
            config_dir: None,
            args: Vec::new(),
            prices: None,
        }
    }
}
