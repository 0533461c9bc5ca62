//! Killing prodigy in its final merge, and checking that the user's checkout is whole.
//!
//! A job changes, adds and removes several hundred files. Prodigy is killed while it brings
//! the user's checkout to the merge, while it resumes, and while it repairs a journal that
//! lost the records of the merge; between two starts a user works in the checkout, and in
//! some trials commits all the time. After each kill every file must be one of the job's base,
//! of its result or of the user, and whole. In the end the result is there once, the user's
//! commits hold the user's files only, and nothing else is left.

mod check;
mod trial;
mod workflow;

pub use trial::{MergeTrialReport, run_merge_trial, run_merge_without_kills};
