//! Checking the audit trail of a repository.

use prodigy_core::audit::{AuditVerification, ChainError, ChainVerifier};

use super::{
    Error, MAX_LINE,
    read::{AuditLine, AuditLines},
    trail::{anchor_ref, lock_trail, parse_anchor},
};
use crate::{git::Repo, store::Layout};

/// Checks every record of a repository's audit trail, and its anchor.
pub fn verify_trail(layout: &Layout, repo: &Repo) -> Result<AuditVerification, Error> {
    let reference = anchor_ref(layout);
    let (anchor, mut lines) = {
        // The file and its anchor are looked at together: an append changes both.
        let lock = layout.audit_lock();
        let _lock = if lock.exists() { Some(lock_trail(&lock)?) } else { None };
        let anchor = repo.read_anchor(&reference).map_err(Error::Anchor)?;
        (anchor, AuditLines::open(&layout.audit_file())?)
    };
    let anchor = anchor.map(|anchor| parse_anchor(&reference, &anchor)).transpose()?;
    let mut verifier = ChainVerifier::new(anchor);
    while let Some(line) = lines.next_line()? {
        let goes_on = match line {
            AuditLine::Whole(line) => verifier.check_line(line),
            AuditLine::Torn(bytes) => {
                verifier.set_torn_tail(bytes);
                false
            }
            AuditLine::TooLong => {
                let reason = format!("it is longer than {MAX_LINE} bytes");
                verifier.reject_line(ChainError::NoRecord(reason));
                false
            }
        };
        if !goes_on {
            break;
        }
    }
    Ok(verifier.finish())
}
