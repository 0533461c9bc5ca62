//! Reading the policy from the branch that a job merges into.

use std::{collections::BTreeMap, fs, io, path::Path};

use prodigy_core::{
    diagnostic::{Diagnostic, Sources},
    ids::hex,
    replay::{LoadedPolicy, ReplayPolicy},
};
use sha2::{Digest as _, Sha256};

use super::{OTHER_ENDING, POLICY_FILE, PolicyError, SignerFiles, UnconfirmedFile, confirmation};
use crate::{
    git::{CommittedState, Repo},
    store::{self, Layout},
};

/// The branch whose tip says what decides.
#[derive(Clone, Debug)]
pub struct PolicySource {
    repo: Repo,
    layout: Layout,
    branch: Option<String>,
}

/// The policy as it is committed.
#[derive(Clone, Debug)]
pub struct CommittedPolicy {
    /// The policy; the built-in one if there is no file.
    pub policy: ReplayPolicy,
    /// True if a policy file is committed.
    pub is_file: bool,
    /// The files that groups name with the keys of people.
    pub signers: SignerFiles,
    /// The text that the warnings are about.
    pub sources: Sources,
    /// The warnings about the policy file.
    pub warnings: Vec<Diagnostic>,
    /// Notes to the user, one sentence each.
    pub notes: Vec<String>,
    /// The fingerprint of the files that were read.
    pub(crate) look: PolicyFingerprint,
}

/// The commit and the files that were read: while they are the same, so is the policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PolicyFingerprint {
    tip: String,
    /// The files in the checkout, by path; `None` for one that is not there.
    checkout: BTreeMap<String, Option<Vec<u8>>>,
}

impl PolicySource {
    /// Names the branch that a job merges into; without one, or if it is gone, the commit that is
    /// checked out takes its place.
    pub fn new(repo: Repo, layout: Layout, branch: Option<String>) -> Self {
        Self { repo, layout, branch }
    }

    /// Reads the policy, if it may decide.
    pub fn read(&self) -> Result<CommittedPolicy, PolicyError> {
        let committed = self.read_unconfirmed()?;
        if let Some(file) = self.unconfirmed(&committed)?.into_iter().next() {
            return Err(PolicyError::Unconfirmed(Box::new(file)));
        }
        Ok(committed)
    }

    /// Reads the policy, whoever changed it last.
    pub fn read_unconfirmed(&self) -> Result<CommittedPolicy, PolicyError> {
        let mut look = PolicyFingerprint { tip: self.tip()?, checkout: BTreeMap::new() };
        let mut notes = Vec::new();
        let content = self.repo.read_file_at(&look.tip, POLICY_FILE)?;
        self.compare(POLICY_FILE, content.as_deref(), &mut look, &mut notes)?;
        let has_other = self.repo.read_file_at(&look.tip, OTHER_ENDING)?.is_some()
            || self.read_from_checkout(OTHER_ENDING)?.is_some();
        if has_other && content.is_none() {
            return Err(PolicyError::OtherEnding);
        }
        if has_other {
            notes.push(format!("`{OTHER_ENDING}` is not read: the policy is `{POLICY_FILE}`"));
        }
        let is_file = content.is_some();
        let (policy, sources, warnings) = match content {
            None => (ReplayPolicy::builtin().clone(), Sources::default(), Vec::new()),
            Some(content) => {
                let text = String::from_utf8(content).map_err(|_| PolicyError::NotText)?;
                let loaded =
                    ReplayPolicy::read(POLICY_FILE, &text).map_err(PolicyError::Rejected)?;
                let LoadedPolicy { policy, sources, warnings, .. } = loaded;
                (policy, sources, warnings)
            }
        };
        let mut signers = BTreeMap::new();
        for path in policy.signers_files() {
            let content = self.repo.read_file_at(&look.tip, path)?;
            self.compare(path, content.as_deref(), &mut look, &mut notes)?;
            signers.extend(content.map(|content| (path.to_owned(), content)));
        }
        let policy = policy.with_signers(|path| Some(hex(&Sha256::digest(signers.get(path)?))));
        let signers = SignerFiles::new(signers, self.display_branch());
        Ok(CommittedPolicy { policy, is_file, signers, sources, warnings, notes, look })
    }

    /// Returns the files that a job changed last, and that no person has confirmed.
    pub fn unconfirmed(
        &self,
        committed: &CommittedPolicy,
    ) -> Result<Vec<UnconfirmedFile>, PolicyError> {
        let tip = &committed.look.tip;
        let mut found = Vec::new();
        let signers = committed.signers.paths();
        for path in committed.is_file.then_some(POLICY_FILE).into_iter().chain(signers) {
            let Some(change) = self.repo.changed_by_job(tip, path)? else { continue };
            let content = self.repo.read_file_at(tip, path)?.unwrap_or_default();
            if confirmation::is_confirmed(&self.layout, &self.repo, path, &content)? {
                continue;
            }
            let here = self.repo.head()?.branch;
            found.push(UnconfirmedFile {
                path: path.to_owned(),
                content,
                job: change.job,
                commit: change.commit,
                branch: self.branch.clone().filter(|branch| here.as_ref() != Some(branch)),
            });
        }
        Ok(found)
    }

    /// Looks again at what a policy was read from.
    pub(crate) fn fingerprint_now(
        &self,
        before: &PolicyFingerprint,
    ) -> Result<PolicyFingerprint, PolicyError> {
        let mut look = PolicyFingerprint { tip: self.tip()?, checkout: BTreeMap::new() };
        for path in before.checkout.keys() {
            look.checkout.insert(path.clone(), self.read_from_checkout(path)?);
        }
        Ok(look)
    }

    /// Returns the commit whose files decide.
    fn tip(&self) -> Result<String, PolicyError> {
        let tip = self.branch.as_ref().map(|branch| self.repo.branch_tip(branch)).transpose()?;
        match tip.flatten() {
            Some(tip) => Ok(tip),
            None => Ok(self.repo.head()?.commit),
        }
    }

    /// Compares a file of the checkout with the one that is committed.
    fn compare(
        &self,
        path: &str,
        committed: Option<&[u8]>,
        look: &mut PolicyFingerprint,
        notes: &mut Vec<String>,
    ) -> Result<(), PolicyError> {
        let here = self.read_from_checkout(path)?;
        let is_same = here.as_deref() == committed;
        let is_missing = here.is_none();
        look.checkout.insert(path.to_owned(), here);
        if is_same {
            return Ok(());
        }
        let branch = self.display_branch();
        if is_missing {
            notes.push(format!(
                "`{path}` is missing in the checkout; the one that is committed on {branch} decides"
            ));
            return Ok(());
        }
        match self.repo.committed_state(path)? {
            // Another branch is checked out, and has another version.
            CommittedState::Committed | CommittedState::Missing => Ok(()),
            CommittedState::Modified | CommittedState::Untracked => {
                Err(PolicyError::Uncommitted { path: path.to_owned(), branch })
            }
        }
    }

    /// Returns the content of a file of the checkout; `None` if it is not there.
    fn read_from_checkout(&self, path: &str) -> Result<Option<Vec<u8>>, PolicyError> {
        read(&self.repo.checkout().join(path))
    }

    /// Returns the branch, for people.
    fn display_branch(&self) -> String {
        match &self.branch {
            Some(branch) => format!("`{branch}`"),
            None => "the commit that is checked out".to_owned(),
        }
    }
}

/// Returns the content of a file; `None` if there is none.
fn read(path: &Path) -> Result<Option<Vec<u8>>, PolicyError> {
    let is_gone = |kind| matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
    match fs::metadata(path) {
        // What is no file has no content, and is not what is committed.
        Ok(found) if !found.is_file() => return Ok(Some(Vec::new())),
        Ok(_) => {}
        Err(error) if is_gone(error.kind()) => {
            // A link that leads nowhere is there.
            return Ok(path.symlink_metadata().is_ok().then(Vec::new));
        }
        Err(error) => return Err(store::Error::io("read", path, error).into()),
    }
    fs::read(path).map(Some).map_err(|error| store::Error::io("read", path, error).into())
}

/// Returns the files of a branch that decide over replays: the policy, and those that it names
/// with the keys of people.
pub fn guarded_files(repo: &Repo, branch: &str) -> Vec<String> {
    let mut files = vec![POLICY_FILE.to_owned(), OTHER_ENDING.to_owned()];
    // A policy that cannot be read names no files, and decides nothing either.
    let content = repo.read_file_at(branch, POLICY_FILE).ok().flatten().unwrap_or_default();
    if let Ok(loaded) = ReplayPolicy::read(POLICY_FILE, &String::from_utf8_lossy(&content)) {
        files.extend(loaded.policy.signers_files().into_iter().map(str::to_owned));
    }
    files
}
