//! Which reason code a failure gets.
//!
//! Facts come first: who ended the process, its exit code, its signal, what the operating
//! system said. What a program printed is read last, and only if nothing else is known; all
//! that is looked for there stands in one table.

mod facts;
mod rows;
mod text;

pub(crate) use self::facts::last_agent_lines;
pub use self::{
    facts::{FailureFacts, ProcessEnd, classify, reason_from_io_error},
    text::reason_from_output,
};
