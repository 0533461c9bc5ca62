//! Git, by its command line.
//!
//! Everything we ask of git goes through [`Git`], which keeps the repository's
//! own code (hooks, file system monitors, ssh commands) from running and hides
//! the caller's `GIT_*` variables. What git has no switch for, filters and
//! included configuration, is watched by [`RepoGuard`]: all worktrees of a
//! repository share its configuration, so a worktree is no security boundary.
//!
//! Items are many and run at once, so that nobody can check between them. [`WorktreeSlot`] and
//! [`ItemMerger`] therefore believe nothing that an agent can write to: see `isolation`.

mod command;
mod committed_state;
mod disk_error;
mod error;
mod hooks;
mod in_flight;
mod index;
mod index_lock;
mod isolation;
mod locks;
pub(crate) mod merge;
mod provenance;
mod refs;
mod repo;
mod repo_copy;
mod repo_id;
mod worktree;

pub use command::Git;
pub use committed_state::CommittedState;
pub use error::Error;
pub use in_flight::InFlightRecord;
pub use isolation::{
    CommitPaths,
    checkout_baseline::CheckoutBaseline,
    repo_guard::{RepoGuard, Tampering},
};
pub use merge::{
    checkout_session::CheckoutRecovery,
    conflict::{MergeResolution, MergeStart, OpenMerge},
    item_merger::{ItemMergeOutcome, ItemMergeRequest, ItemMerger},
    job_merge::{MergeOutcome, MergeRequest},
    restore_result::RestoredResult,
};
pub use provenance::JobChange;
pub use refs::{AuditAnchor, JobReference};
pub use repo::{CommitLine, Head, Repo};
pub use worktree::{
    Worktree,
    commit::{CommitResult, CommitScope, UncommittedFile},
    fingerprint::WorktreeFingerprint,
    kept_files::{KeepRequest, KeptFiles},
    lifecycle::WorktreeInfo,
    patch::Patch,
    slot::{ChangeKind, ChangedFile, WorktreeSlot, WorktreeStatus},
};
