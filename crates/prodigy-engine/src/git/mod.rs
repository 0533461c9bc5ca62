//! Git, by its command line.
//!
//! Everything we ask of git goes through [`Git`], which keeps the repository's
//! own code (hooks, file system monitors, ssh commands) from running and hides
//! the caller's `GIT_*` variables. What git has no switch for, filters and
//! included configuration, is watched by [`Guard`]: all worktrees of a
//! repository share its configuration, so a worktree is no security boundary.

mod aside;
mod checkout;
mod command;
mod error;
mod fingerprint;
mod guard;
mod list;
mod lock;
mod merge;
mod repo;
mod settings;
mod snapshot;
mod stale;
mod tree;
mod worktree;

pub use command::Git;
pub use error::Error;
pub use fingerprint::Fingerprint;
pub use guard::{Guard, Tampering};
pub use list::Worktree;
pub use merge::{MergeOutcome, MergeRequest};
pub use repo::{CommitLine, Head, Repo};
pub use tree::JobTree;
