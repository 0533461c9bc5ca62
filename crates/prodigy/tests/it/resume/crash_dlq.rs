//! Killing replays of dead letters at any moment.
//!
//! A few moments only, to keep the tests quick; `cargo xtask crash dlq` tries many.

use std::path::Path;

use prodigy_testkit::crash::dlq::{run_dlq_trial, run_dlq_without_kills};

const ITEMS: u32 = 20;
const KILLS: u32 = 6;

#[test]
fn no_dead_letter_is_lost_or_replayed_twice_if_replays_are_killed_at_any_moment() {
    let binary = Path::new(env!("CARGO_BIN_EXE_prodigy"));
    let calm = run_dlq_without_kills(binary, ITEMS).unwrap_or_else(|broken| panic!("{broken}"));
    let (mut seed, mut kills) = (0, 0);
    while kills < KILLS {
        seed += 1;
        let done = run_dlq_trial(binary, seed, calm.replay, ITEMS)
            .unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        kills += done.survived.kills;
    }
}
