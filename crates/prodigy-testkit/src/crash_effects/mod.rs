//! Killing jobs that change something outside, and checking that nothing is changed twice.
//!
//! The steps add a line with their key to a file that no worktree holds. Prodigy is killed
//! while the job runs, while its dead letters are checked and while they are replayed. Whenever
//! that happens, no key may stand in the file twice, and none without a record that came
//! before. What can be checked must come to exactly one line in the end; of what cannot, the
//! dead letter must say that it is not known.

mod check;
mod trial;
mod workflow;

pub use trial::{EffectsSurvived, effects_trial, effects_undisturbed};
