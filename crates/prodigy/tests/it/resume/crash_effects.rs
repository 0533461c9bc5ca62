//! Killing jobs that change something outside at any moment.
//!
//! A few moments only, to keep the tests quick; `cargo xtask crash effects` tries many.

use std::path::Path;

use prodigy_testkit::crash::effects::{run_effects_trial, run_effects_without_kills};

const ITEMS: u32 = 9;
const KILLS: u32 = 5;

#[test]
fn nothing_outside_is_changed_twice_if_jobs_are_killed_at_any_moment() {
    let binary = Path::new(env!("CARGO_BIN_EXE_prodigy"));
    let calm = run_effects_without_kills(binary, ITEMS).unwrap_or_else(|broken| panic!("{broken}"));
    let (mut seed, mut kills) = (0, 0);
    while kills < KILLS {
        seed += 1;
        let done = run_effects_trial(binary, seed, calm.run, ITEMS)
            .unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        kills += done.survived.kills;
    }
}
