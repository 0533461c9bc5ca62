//! Which reason code a failure gets.
//!
//! Facts come first: who ended the process, its exit code, its signal, what the operating
//! system said. What a program printed is read last, and only if nothing else is known; all
//! that is looked for there stands in one table.

mod facts;
mod output;
mod output_patterns;

pub(crate) use facts::last_agent_lines;
pub use facts::{FailureFacts, ProcessEnd, classify, reason_from_io_error};
pub use output::reason_from_output;
