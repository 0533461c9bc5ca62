//! Tests of the streams of agents and of their judgement.

mod claude_errors;
mod corpus;
mod outcomes;
mod quota;
mod speed;
mod stream_events;

use super::{StreamDialect, StreamEvent, StreamState};

/// Hears a whole stream.
fn listen(dialect: StreamDialect, stream: &[u8]) -> (StreamState, Vec<StreamEvent>) {
    let mut heard = StreamState::new(dialect);
    let notices =
        stream.split(|byte| *byte == b'\n').flat_map(|line| heard.handle_line(line)).collect();
    (heard, notices)
}
