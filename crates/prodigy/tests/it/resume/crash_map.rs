//! Killing a MapReduce job at any moment.
//!
//! A few moments only, to keep the tests quick; `cargo xtask crash map` tries many.

use std::path::Path;

use prodigy_testkit::crash::map::{run_map_trial, run_map_without_kills};

const ITEMS: u32 = 40;
const KILLS: u32 = 6;

#[test]
fn every_item_of_a_job_that_is_killed_at_any_moment_ends_exactly_once() {
    let binary = Path::new(env!("CARGO_BIN_EXE_prodigy"));
    let calm = run_map_without_kills(binary, ITEMS).unwrap_or_else(|broken| panic!("{broken}"));
    let (mut seed, mut kills) = (0, 0);
    while kills < KILLS {
        seed += 1;
        let done = run_map_trial(binary, seed, calm.survived.duration, ITEMS)
            .unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        kills += done.survived.kills;
    }
}
