//! Worktrees and the work that they hold.

pub(crate) mod command;
pub(crate) mod command_items;
pub(crate) mod deleted_branch;
pub(crate) mod kept;
pub(crate) mod kept_work;
pub(crate) mod linked;
pub(crate) mod replayed;
pub(crate) mod slots;
pub(crate) mod stale_locks;
