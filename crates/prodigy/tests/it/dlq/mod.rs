//! The dead letter queue.

pub(crate) mod artifacts;
pub(crate) mod drill;
pub(crate) mod entry_files;
pub(crate) mod failure_paths;
pub(crate) mod interrupted_retry;
pub(crate) mod killed_retry;
pub(crate) mod lifecycle;
pub(crate) mod list;
pub(crate) mod reason_codes;
pub(crate) mod retry;
pub(crate) mod retry_flags;
pub(crate) mod show;
pub(crate) mod status;
pub(crate) mod unwritable;
