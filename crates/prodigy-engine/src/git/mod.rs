//! Git, by its command line.
//!
//! Everything we ask of git goes through [`Git`], which keeps the repository's
//! own code (hooks, file system monitors, ssh commands) from running and hides
//! the caller's `GIT_*` variables. What git has no switch for, filters and
//! included configuration, is watched by [`RepoGuard`]: all worktrees of a
//! repository share its configuration, so a worktree is no security boundary.
//!
//! Items are many and run at once, so that nobody can check between them. [`WorktreeSlot`] and
//! [`ItemMerger`] therefore believe nothing that an agent can write to: see `shelter`.

mod anchor;
mod aside;
mod belongs;
mod branch_move;
mod branches;
mod checkout;
mod command;
mod commit;
mod commit_paths;
mod committed;
mod copy;
mod disk;
mod error;
mod file_moves;
mod fingerprint;
mod guard;
mod hooks;
mod identity;
mod in_flight;
mod index;
mod index_lock;
mod keep;
mod kept;
mod lease;
mod list;
mod lock;
mod markers;
mod merge;
mod merge_settings;
mod merge_sides;
mod merger;
mod nested;
mod patch;
mod plumbing;
mod provenance;
mod record;
mod refs;
mod repo;
mod repo_id;
mod resolve;
mod restore_result;
mod settings;
mod shelter;
mod slot;
mod snapshot;
mod staging;
mod stale;
mod tree;
mod tripwire;
mod update;
mod worktree;

pub use anchor::AuditAnchor;
pub use branches::JobReference;
pub use command::Git;
pub use commit::{CommitResult, CommitScope, UncommittedFile};
pub use commit_paths::CommitPaths;
pub use committed::CommittedState;
pub use error::Error;
pub use fingerprint::WorktreeFingerprint;
pub use guard::{RepoGuard, Tampering};
pub use in_flight::InFlightRecord;
pub use kept::{KeepRequest, KeptFiles};
pub use list::WorktreeInfo;
pub use merge::{MergeOutcome, MergeRequest};
pub use merger::{ItemMergeOutcome, ItemMergeRequest, ItemMerger};
pub use patch::Patch;
pub use provenance::JobChange;
pub use repo::{CommitLine, Head, Repo};
pub use resolve::{MergeResolution, MergeStart, OpenMerge};
pub use restore_result::RestoredResult;
pub use slot::{ChangeKind, ChangedFile, WorktreeSlot, WorktreeStatus};
pub use tree::Worktree;
pub use tripwire::CheckoutBaseline;
pub use update::CheckoutRecovery;
