//! Workflow files from text to the checked model, through the public interface.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot set up should fail here"
)]

mod agents;
mod agreement;
mod compose;
mod damage;
mod documented;
mod effects;
mod handlers;
mod mapreduce;
mod names;
mod settings;
mod steps;
mod support;
