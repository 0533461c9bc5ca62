//! The sandbox: access of steps to the machine.

use super::{AgentKind, Workflow};
use crate::diagnostic::{Diagnostic, Span};

/// The sandbox that steps run in: bubblewrap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxConfig {
    /// Where the network is taken from them, if it is.
    pub without_network: Option<Span>,
    /// Paths that they may write to, besides their worktree.
    pub write: Vec<String>,
    /// Paths that they may read although they would be hidden.
    pub read: Vec<String>,
}

impl Workflow {
    /// Returns warnings of agents whose model is out of reach: in a sandbox without a network.
    ///
    /// `kind_of` returns the kind of an agent, or nothing if that is not known.
    pub fn agents_without_network(
        &self,
        kind_of: &dyn Fn(&str) -> Option<AgentKind>,
    ) -> Vec<Diagnostic> {
        let Some(span) = self.sandbox.as_ref().and_then(|sandbox| sandbox.without_network) else {
            return Vec::new();
        };
        let needed = self.required_agents().into_iter();
        let warned = needed.filter_map(|(name, _)| {
            let program = match kind_of(name)? {
                AgentKind::Claude => "Claude Code",
                AgentKind::Codex => "Codex",
                AgentKind::Command | AgentKind::Simulated => return None,
            };
            let message =
                format!("without a network, agent `{name}` ({program}) does not reach its model");
            let help =
                "take `network: off` out, unless the `command` of the agent needs no network";
            Some(Diagnostic::warning(span, message).help(help))
        });
        warned.collect()
    }
}
