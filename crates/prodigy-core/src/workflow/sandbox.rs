//! What steps may reach of the machine.

/// The sandbox that steps run in: bubblewrap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxConfig {
    /// Whether they have a network.
    pub network: bool,
    /// Paths that they may write to, besides their worktree.
    pub write: Vec<String>,
    /// Paths that they may read although they would be hidden.
    pub read: Vec<String>,
}
