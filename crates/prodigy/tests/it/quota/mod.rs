//! Usage limits.

pub(crate) mod account_access;
pub(crate) mod bounds;
pub(crate) mod command_agents;
pub(crate) mod conflict;
pub(crate) mod display;
pub(crate) mod lifted;
pub(crate) mod many_items;
pub(crate) mod mentions;
pub(crate) mod step_positions;
pub(crate) mod suspended_work;
