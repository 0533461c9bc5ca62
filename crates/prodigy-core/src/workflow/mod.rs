//! Workflow files: from text to a checked [`Workflow`].

mod agents;
mod compose;
pub mod grammar;
mod label;
mod load;
mod lower;
mod merge;
mod model;
mod paths;
mod walk;

pub use agents::*;
pub use label::{filled_label, step_label};
pub use load::{Loaded, Rejected, load};
pub use lower::read_agents;
pub use model::*;
