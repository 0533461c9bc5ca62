//! Killing `prodigy run` and `prodigy resume` at any moment.
//!
//! A few moments only, to keep the tests quick; `cargo xtask crash` tries many.

use std::path::Path;

use prodigy_testkit::crash::sequential::{run_trial, run_without_kills};

#[test]
fn a_job_that_is_killed_at_any_moment_loses_nothing_and_repeats_nothing() {
    let binary = Path::new(env!("CARGO_BIN_EXE_prodigy"));
    let span = run_without_kills(binary).unwrap_or_else(|broken| panic!("{broken}"));
    for seed in 1..=5 {
        run_trial(binary, seed, span).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
    }
}
