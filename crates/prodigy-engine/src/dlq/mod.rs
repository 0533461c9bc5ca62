//! The dead letters of a job, on the disk.
//!
//! The journal says which items were given up and why; here is a view of it that people and
//! programs can read without reading the journal: one file for each item, and a list of them
//! that is only ever appended to. What is missing here is made again from the journal.

mod amend;
mod asking;
mod bench;
mod catch_up;
mod error;
mod fsck;
mod heading;
mod index;
mod letters;
mod listing;
mod projection;
mod queue;
mod scan;
#[cfg(test)]
mod tests;
mod wanted;
mod writer;
mod writing;

pub use amend::{AmendError, Amending, Amendment, Trail, item_data};
pub use asking::{Answer, AnswerError, Answered, Asking, Requested};
pub use bench::{Agreement, Bench};
pub use error::Error;
pub use fsck::{Report, fsck};
pub use heading::{Heading, Standing};
pub use queue::Queue;
pub use wanted::Wanted;
pub use writer::DeadLetters;
