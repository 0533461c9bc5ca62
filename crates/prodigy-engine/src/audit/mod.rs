//! The audit trail of a repository: one file that is only ever appended to.
//!
//! The head of the chain is anchored in a reference of the repository, so that records which
//! are gone from the end of the file are missed. A record counts once it is anchored: who
//! cannot append does not act.

mod error;
mod read;
mod review;
mod tail;
#[cfg(test)]
mod tests;
mod trail;
mod verify;

pub use error::Error;
pub use read::{AuditReader, read_trail};
pub use review::{TrailReview, review};
pub use trail::{ArchivedTrail, AuditTrail, anchor_ref};
pub use verify::verify_trail;

/// The longest a record may be.
///
/// Readers hold one line in memory, so this bounds what a damaged file can cost.
const MAX_LINE: usize = 1024 * 1024;
