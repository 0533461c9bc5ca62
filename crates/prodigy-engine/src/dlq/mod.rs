//! The dead letters of a job, on the disk.
//!
//! The journal says which items were given up and why; here is a view of it that people and
//! programs can read without reading the journal: one file for each item, a log of their changes
//! that is only ever appended to, and an index with counts and ids. What is missing here is made
//! again from the journal.

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
mod old_layout;
mod projection;
mod queue;
mod replay_base;
mod scan;
mod summary;
#[cfg(test)]
mod tests;
mod wanted;
mod writer;
mod writing;

pub use amend::{AuditSink, DeadLetterAction, DeadLetterEditor, EditorError, current_item_data};
pub use asking::{ApprovalService, PendingApproval, VoteError, VoteOutcome, VoteRequest};
pub use bench::{ApprovalProgress, ReplayEvaluator};
pub use error::Error;
pub use fsck::{FsckReport, fsck};
pub use heading::{DeadLetterSummary, EvaluationFacts};
pub use queue::{DeadLetterStore, entry_file, known_seq};
pub use replay_base::{MergeHistory, ReplayBase};
pub use wanted::ReplayBatch;
pub use writer::DeadLetterProjector;
