//! Commands about jobs: list, events, logs, integrity.

pub(crate) mod events;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod progress;
pub(crate) mod purge;
pub(crate) mod remove;
pub(crate) mod repair;
pub(crate) mod truncated_journal;
pub(crate) mod verify;
pub(crate) mod verify_items;
