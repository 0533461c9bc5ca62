//! Killing jobs that change something outside, and checking that nothing is changed twice.
//!
//! The steps add a line with their name and key to a file that no worktree holds. Prodigy is
//! killed while the job runs, while its dead letters are checked and while they are replayed, at
//! any moment and right after the records of effects. In between steps are inserted into the
//! workflow, moved and removed. Whenever that happens, no change may stand in the file twice,
//! none without a record that came before, and whoever came to the end of its steps must have
//! made all of them. What can be checked must come to exactly one line in the end; of what cannot, the
//! dead letter must say that it is not known.

mod check;
mod trial;
mod workflow;

pub use trial::{EffectTrialReport, run_effects_trial, run_effects_without_kills};
