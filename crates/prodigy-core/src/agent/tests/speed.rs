//! The time that handling an event takes.

use std::{hint::black_box, time::Instant};

use super::{
    super::{StreamDialect, StreamState},
    corpus::{names, recorded},
};

/// The number of times each stream is read.
const ROUNDS: u32 = 200;

#[test]
#[expect(clippy::disallowed_methods, reason = "only a clock can measure")]
#[ignore = "a measurement: run it with --release and --nocapture"]
fn an_event_of_a_kilobyte_takes_a_few_microseconds() {
    for (prefix, dialect) in [("claude/", StreamDialect::Claude), ("codex/", StreamDialect::Codex)]
    {
        let streams: Vec<u8> = names()
            .filter(|name| name.starts_with(prefix))
            .flat_map(|name| recorded(name).1)
            .collect();
        let lines: Vec<&[u8]> = streams.split(|byte| *byte == b'\n').collect();
        let start = Instant::now();
        for _ in 0..ROUNDS {
            let mut heard = StreamState::new(dialect);
            for line in &lines {
                black_box(heard.handle_line(black_box(line)));
            }
        }
        let nanoseconds = start.elapsed().as_nanos() / u128::from(ROUNDS);
        let per_kilobyte = nanoseconds * 1024 / u128::try_from(streams.len()).unwrap();
        println!("{prefix} {per_kilobyte} ns for each KiB of {}", lines.len());
    }
}
