//! The policy in force, and the files of signers that it names.

use std::{collections::BTreeMap, sync::Arc};

use prodigy_core::replay::ReplayPolicy;

use super::{CommittedPolicy, PolicyError, PolicySource, policy_source::PolicyFingerprint};

/// The policy in force, and the way to see that it still is.
#[derive(Clone, Debug)]
pub struct ActivePolicy {
    /// The policy.
    pub policy: Arc<ReplayPolicy>,
    /// The files of signers that its groups name.
    pub signers: SignerFiles,
    source: PolicySource,
    look: PolicyFingerprint,
}

/// The content of files with the keys of people, as they are committed.
#[derive(Clone, Debug, Default)]
pub struct SignerFiles {
    files: Arc<BTreeMap<String, Vec<u8>>>,
    /// The branch that they are committed on, for people.
    branch: String,
}

impl ActivePolicy {
    /// Names the policy that was read from a branch.
    pub fn new(committed: CommittedPolicy, source: PolicySource) -> Self {
        let CommittedPolicy { policy, signers, look, .. } = committed;
        Self { policy: Arc::new(policy), signers, source, look }
    }

    /// Returns whether the policy is still in force.
    pub fn is_current(&self) -> Result<bool, PolicyError> {
        if self.source.fingerprint_now(&self.look)? == self.look {
            return Ok(true);
        }
        Ok(self.source.read()?.policy.snapshot() == self.policy.snapshot())
    }
}

impl SignerFiles {
    /// Takes the content of files, and the branch that they are committed on.
    pub fn new(files: BTreeMap<String, Vec<u8>>, branch: String) -> Self {
        Self { files: Arc::new(files), branch }
    }

    /// Returns the content of a file, or why it cannot be had.
    pub fn content(&self, path: &str) -> Result<&[u8], String> {
        let content = self.files.get(path).map(Vec::as_slice);
        content.ok_or_else(|| format!("it is not committed on {}", self.branch))
    }

    /// Returns the files that there are.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }
}
