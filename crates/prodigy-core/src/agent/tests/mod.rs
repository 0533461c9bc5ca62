//! Tests of the streams of agents and of their judgement.

mod corpus;
mod limits;
mod notices;
mod outcomes;
mod speed;
mod words;

use super::{StreamDialect, StreamEvent, StreamState};

/// Hears a whole stream.
fn listen(dialect: StreamDialect, stream: &[u8]) -> (StreamState, Vec<StreamEvent>) {
    let mut heard = StreamState::new(dialect);
    let notices =
        stream.split(|byte| *byte == b'\n').flat_map(|line| heard.handle_line(line)).collect();
    (heard, notices)
}
