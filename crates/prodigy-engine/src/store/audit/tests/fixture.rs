//! A home and a repository for the tests of the audit trail.

use std::{
    fmt, fs,
    path::Path,
    process::{Command, Stdio},
};

use prodigy_core::{
    Timestamp,
    audit::{AuditAction, AuditRecord, AuditVerification, IdentityKind, NewAuditRecord},
};
use tempfile::TempDir;

use crate::{
    git::{Git, Repo},
    store::{
        Layout,
        audit::{AuditTrail, anchor_ref, read_trail, verify_trail},
    },
};

/// A home and a repository.
pub(crate) struct Ground<D = TempDir> {
    pub(crate) directory: D,
    pub(crate) layout: Layout,
    pub(crate) repo: Repo,
}

/// Returns a moment, in seconds after the first.
pub(crate) fn at(seconds: i64) -> Timestamp {
    crate::store::fixture::at(seconds)
}

/// Returns what a record says about an item.
pub(crate) fn said(number: u64) -> NewAuditRecord {
    let job = "job-1".parse().unwrap();
    NewAuditRecord {
        entry: format!("item-{number:03}"),
        ..NewAuditRecord::new("ada", IdentityKind::Asserted, AuditAction::Replay, job)
    }
}

impl Ground {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("repo")).unwrap();
        fs::create_dir(directory.path().join("home")).unwrap();
        git(directory.path(), &["init", "--quiet"]);
        git(directory.path(), &["commit", "--quiet", "--allow-empty", "--message", "first"]);
        let Ground { layout, repo, .. } = Ground::at(directory.path());
        Self { directory, layout, repo }
    }
}

impl<'a> Ground<&'a Path> {
    /// Returns the ground that another process made.
    pub(crate) fn at(directory: &'a Path) -> Self {
        let home = directory.join("home");
        let repo = Repo::discover_with(Git::with_env(environment()), &directory.join("repo"));
        let layout = Layout::new(home, "repo".parse().unwrap());
        Self { directory, layout, repo: repo.unwrap() }
    }
}

impl<D: AsRef<Path>> Ground<D> {
    pub(crate) fn audit(&self) -> AuditTrail {
        AuditTrail::open(&self.layout, &self.repo).unwrap()
    }

    /// Appends the record of one item.
    pub(crate) fn append(&self, number: u64) {
        self.audit().append(vec![said(number)], at(0)).unwrap();
    }

    pub(crate) fn records(&self) -> Vec<AuditRecord> {
        read_trail(&self.layout).unwrap().map(Result::unwrap).collect()
    }

    pub(crate) fn verified(&self) -> AuditVerification {
        verify_trail(&self.layout, &self.repo).unwrap()
    }

    /// Returns what stands in the file.
    pub(crate) fn text(&self) -> Vec<u8> {
        fs::read(self.layout.audit_file()).unwrap()
    }

    /// Puts something else into the file.
    pub(crate) fn put(&self, text: &[u8]) {
        crate::store::write_atomic(&self.layout.audit_file(), text).unwrap();
    }

    /// Returns what the anchor holds.
    pub(crate) fn anchored(&self) -> String {
        git(self.directory.as_ref(), &["cat-file", "blob", &anchor_ref(&self.layout)])
    }

    /// Runs git in the repository.
    pub(crate) fn git(&self, args: &[&str]) -> String {
        git(self.directory.as_ref(), args)
    }

    /// Returns the same repository with another home.
    pub(crate) fn other_home(&self) -> Ground<&Path> {
        let directory = self.directory.as_ref();
        let home = directory.join("other-home");
        fs::create_dir(&home).unwrap();
        let layout = Layout::new(home, "repo".parse().unwrap());
        Ground { directory, layout, repo: self.repo.clone() }
    }

    /// Shows an error without the directory, which is different every time.
    pub(crate) fn show(&self, what: impl fmt::Display) -> String {
        let reference = anchor_ref(&self.layout);
        let directory = self.directory.as_ref().to_str().unwrap();
        what.to_string().replace(directory, "$ROOT").replace(&reference, "$REFERENCE")
    }
}

fn environment() -> Vec<(std::ffi::OsString, Option<std::ffi::OsString>)> {
    let set = [("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null")];
    set.map(|(name, value)| (name.into(), Some(value.into()))).into()
}

fn git(directory: &Path, args: &[&str]) -> String {
    #[expect(clippy::disallowed_methods, reason = "the test plays the user")]
    let mut command = Command::new("git");
    command
        .current_dir(directory.join("repo"))
        .args(["-c", "user.name=Test", "-c", "user.email=test@example.com"])
        .args(args)
        .envs(environment().into_iter().filter_map(|(name, value)| Some((name, value?))))
        .stdin(Stdio::null());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}
