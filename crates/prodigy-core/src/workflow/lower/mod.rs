//! From the tree as written to the checked model.
//!
//! Every shape, alias, shorthand and default of a workflow file ends here. A broken
//! part is reported and left out, so that one look shows all that is wrong.

mod action;
mod agents;
mod collect;
mod context;
mod effects;
mod error_policy;
mod fields;
mod handler;
mod map;
mod mentions;
mod options;
mod parameters;
mod programs;
mod read;
mod retry;
mod root;
mod sandbox;
mod scope;
mod settings;
mod setup;
mod simulated;
mod spending;
mod step;
mod text;
mod validate;

pub use agents::read_agents;
pub(super) use root::lower;
pub use simulated::{LoadedFaults, read_faults};
