//! The audit trail: who did what to which dead letter, and by which rule.
//!
//! Records form a chain: each holds the hash of the one before it, so that a record which is
//! changed, removed, added or moved shows. The end of the chain is anchored outside of the
//! file, so that a tail which is cut off shows as well. This makes tampering evident, not
//! impossible: who may write both the file and the anchor can make both anew.

mod chain;
mod record;
#[cfg(test)]
mod tests;

pub use crate::event::IdentityKind;
pub use chain::{AuditVerification, ChainError, ChainHead, ChainVerifier, verify};
pub use record::{AuditAction, AuditOutcome, AuditRecord, NewAuditRecord, RecordOrigin};
