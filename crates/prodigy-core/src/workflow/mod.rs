//! Workflow files: from text to a checked [`Workflow`].

pub mod grammar;
mod model;

pub use model::*;
