//! Resuming jobs after a stop, a crash or a kill.

pub(crate) mod copied_home;
pub(crate) mod crash_dlq;
pub(crate) mod crash_effects;
pub(crate) mod crash_map;
pub(crate) mod crash_merge;
pub(crate) mod crash_sequential;
pub(crate) mod durable_artifacts;
pub(crate) mod full_disk;
pub(crate) mod ignored_signals;
pub(crate) mod interrupted;
pub(crate) mod interrupted_checkout_update;
pub(crate) mod interrupted_handlers;
pub(crate) mod kept_flags;
pub(crate) mod killed_items;
pub(crate) mod map_phases;
pub(crate) mod moved_repository;
pub(crate) mod replaced_repository;
pub(crate) mod signals;
pub(crate) mod stop_pause;
pub(crate) mod unstarted_jobs;
