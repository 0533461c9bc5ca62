//! Two replays of one dead letter at once.
//!
//! A few races only, to keep the tests quick; `cargo xtask crash races` runs many.

use std::path::Path;

use prodigy_testkit::crash::races::run_races;

#[test]
fn of_two_replays_of_one_entry_one_takes_it() {
    let binary = Path::new(env!("CARGO_BIN_EXE_prodigy"));
    let done = run_races(binary, 12).unwrap_or_else(|broken| panic!("{broken}"));
    assert_eq!(done.races, 12);
}
