//! Files that a job committed, and that count only once a person has confirmed them.

use prodigy_core::{
    audit::{AuditAction, AuditOutcome, AuditVerification, IdentityKind, NewAuditRecord},
    ids::{JobId, hex},
};
use sha2::{Digest as _, Sha256};

use super::PolicyError;
use crate::{
    git::Repo,
    store::{Layout, audit},
};

/// A file that a job committed, and that no person has confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnconfirmedFile {
    /// The file, from the root of the repository.
    pub path: String,
    /// Its content.
    pub content: Vec<u8>,
    /// The job that changed it last.
    pub job: JobId,
    /// The commit by which it did.
    pub commit: String,
    /// The branch, unless it is the one that is checked out.
    pub branch: Option<String>,
}

impl UnconfirmedFile {
    /// Returns what a person passes back: `sha256:` and the SHA-256 of the content.
    pub fn digest(&self) -> String {
        digest(&self.content)
    }
}

/// Returns the record by which a person confirms a file.
pub fn confirmation(file: &UnconfirmedFile, actor: &str) -> NewAuditRecord {
    let (job, action) = (file.job.clone(), AuditAction::ConfirmPolicy);
    let mut record = NewAuditRecord::new(actor, IdentityKind::Asserted, action, job);
    record.entry.clone_from(&file.path);
    record.digest = Some(file.digest());
    record.with_outcome(AuditOutcome::Done)
}

/// Returns whether a person has confirmed a content of a file.
///
/// The trail has to be whole: a record that somebody wrote into the file by hand confirms nothing.
pub(crate) fn is_confirmed(
    layout: &Layout,
    repo: &Repo,
    path: &str,
    content: &[u8],
) -> Result<bool, PolicyError> {
    let digest = digest(content);
    let mut found = None;
    for record in audit::read_trail(layout).map_err(PolicyError::Audit)? {
        let record = record.map_err(PolicyError::Audit)?;
        let said = &record.said;
        let confirms = said.action == AuditAction::ConfirmPolicy
            && said.outcome == AuditOutcome::Done
            && said.entry == path
            && said.digest.as_ref() == Some(&digest);
        if confirms {
            found.get_or_insert(record.seq);
        }
    }
    let Some(seq) = found else { return Ok(false) };
    let verified = audit::verify_trail(layout, repo).map_err(PolicyError::Audit)?;
    let AuditVerification::Whole { head, unanchored, .. } = verified else {
        return Err(PolicyError::Trail);
    };
    Ok(seq <= head.seq.saturating_sub(unanchored))
}

fn digest(content: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(content)))
}
