//! Workflow files from text to the checked model, through the public interface.

mod agreement;
mod compose;
mod damage;
mod documented;
mod handlers;
mod mapreduce;
mod names;
mod settings;
mod steps;
mod support;
