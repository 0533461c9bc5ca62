//! Killing a MapReduce job at any moment, resuming it, and checking every item.
//!
//! The items leave traces outside of their worktrees, edit a file of their own and
//! commit it. Some fail once, some always, and failures come together so that the
//! circuit breaker opens. Whenever prodigy is killed, each item must in the end be
//! merged exactly once or be dead-lettered, and nothing may be left behind.

mod check;
mod checkout;
mod journal;
mod scale;
#[cfg(test)]
mod tests;
mod trial;
mod workflow;

pub use scale::{ScaleReport, run_scale_trial};
pub use trial::{MapTrialReport, run_map_trial, run_map_without_kills};
