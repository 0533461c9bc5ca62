//! Tests of the streams of agents and of their judgement.

mod corpus;
mod limits;
mod notices;
mod outcomes;
mod speed;
mod words;

use super::{Heard, Notice, StreamDialect};

/// Hears a whole stream.
fn listen(dialect: StreamDialect, stream: &[u8]) -> (Heard, Vec<Notice>) {
    let mut heard = Heard::new(dialect);
    let notices = stream.split(|byte| *byte == b'\n').flat_map(|line| heard.hear(line)).collect();
    (heard, notices)
}
