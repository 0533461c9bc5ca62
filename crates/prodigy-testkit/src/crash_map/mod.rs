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

pub use scale::{ScaleReport, scale};
pub use trial::{MapTrialReport, map_trial, map_undisturbed};
