//! Killing replays of dead letters at any moment, and checking that none is lost or done twice.
//!
//! The items of a job succeed only from some attempt on and die of different reasons until then.
//! Their dead letters are replayed again and again, all at once or a few, by `dlq retry` or by
//! `resume`, and prodigy is killed on the way. Whenever that happens, the dead letters must be
//! those that the journal tells of, and in the end each item must be merged exactly once.

mod check;
mod entry_snapshot;
mod journal;
#[cfg(test)]
mod tests;
mod trial;
mod workflow;

pub use trial::{DlqTrialReport, run_dlq_trial, run_dlq_without_kills};
