//! Workflow files: from text to a checked [`Workflow`].

mod agents;
pub mod grammar;
mod model;

pub use agents::*;
pub use model::*;
