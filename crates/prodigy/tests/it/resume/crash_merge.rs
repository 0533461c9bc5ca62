//! Killing the final merge at any moment.
//!
//! A few moments only, to keep the tests quick; `cargo xtask crash merge` tries many.

use std::path::Path;

use prodigy_testkit::crash::merge::{run_merge_trial, run_merge_without_kills};

const FILES: u32 = 120;
const KILLS: u32 = 6;

#[test]
fn the_checkout_is_whole_if_the_final_merge_is_killed_at_any_moment() {
    let binary = Path::new(env!("CARGO_BIN_EXE_prodigy"));
    let calm = run_merge_without_kills(binary, FILES).unwrap_or_else(|broken| panic!("{broken}"));
    let (mut seed, mut kills) = (0, 0);
    while kills < KILLS {
        seed += 1;
        let done = run_merge_trial(binary, seed, calm.update, FILES)
            .unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        kills += done.in_update;
    }
}
