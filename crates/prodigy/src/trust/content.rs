//! The content of a repository that brings in programs or permissions.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use prodigy_core::replay::ReplayPolicy;
use prodigy_engine::{
    governance::POLICY_FILE,
    trust::{self, CONFIG_FILE, TrustFile, claude_files, combined_hash},
};
use serde_json::{Value, json};

use super::store::{main_root, trusted_among};
use crate::config::{repo_root, trust_claims};

/// The content of a repository that needs trust.
pub(crate) struct RepoContent {
    /// The root of the repository.
    pub(crate) root: PathBuf,
    /// The files, in the order of their paths.
    pub(crate) files: Vec<ContentFile>,
}

/// A file that brings in programs or permissions.
pub(crate) struct ContentFile {
    /// The path and the hash.
    pub(crate) file: TrustFile,
    /// The reader of the file.
    pub(crate) source: ContentSource,
    /// The programs and permissions, one line each.
    pub(crate) brings: Vec<String>,
    /// The user has trusted this content.
    pub(crate) is_trusted: bool,
}

/// The readers of files that bring in programs or permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentSource {
    /// The configuration, which says what agents are.
    Config,
    /// The replay policy, which says what is run with an alert.
    Policy,
    /// Claude Code.
    Claude,
}

impl RepoContent {
    /// Reads the content of a repository, and finds out what of it is trusted.
    pub(crate) fn read(root: &Path) -> Self {
        let found = find_content(root);
        let files: BTreeSet<TrustFile> = found.iter().map(|(file, ..)| file.clone()).collect();
        let trusted = trusted_among(root, &files);
        let files = found.into_iter().map(|(file, source, brings)| {
            let is_trusted = trusted.contains(&file);
            ContentFile { file, source, brings, is_trusted }
        });
        let mut files: Vec<ContentFile> = files.collect();
        files.sort_by(|one, other| one.file.cmp(&other.file));
        files.dedup_by(|one, other| one.file == other.file);
        Self { root: root.to_owned(), files }
    }

    /// Returns the files of a repository that need trust.
    pub(super) fn files_of(root: &Path) -> BTreeSet<TrustFile> {
        find_content(root).into_iter().map(|(file, ..)| file).collect()
    }

    /// Returns the hash of all of it.
    pub(crate) fn hash(&self) -> String {
        combined_hash(self.files.iter().map(|file| &file.file))
    }

    /// Returns the files of a reader that are not trusted.
    pub(crate) fn untrusted(&self, source: ContentSource) -> Vec<&ContentFile> {
        let is_meant = |file: &&ContentFile| file.source == source && !file.is_trusted;
        self.files.iter().filter(is_meant).collect()
    }

    /// Returns whether all of it is trusted.
    pub(crate) fn is_trusted(&self) -> bool {
        self.files.iter().all(|file| file.is_trusted)
    }

    /// Returns it for programs.
    pub(crate) fn document(&self) -> Value {
        let files = self.files.iter().map(|one| {
            json!({
                "path": one.file.path,
                "sha256": one.file.sha256,
                "trusted": one.is_trusted,
                "brings": one.brings,
            })
        });
        json!({
            "repository": main_root(&self.root),
            "hash": self.hash(),
            "trusted": self.is_trusted(),
            "files": files.collect::<Vec<_>>(),
        })
    }
}

impl ContentFile {
    /// Returns the path, with what the file brings in if that is told.
    pub(crate) fn line(&self) -> String {
        let brings = self.brings.join(", ");
        let path = &self.file.path;
        if brings.is_empty() { format!("`{path}`") } else { format!("`{path}`: {brings}") }
    }
}

/// Returns the files that need trust, the readers of them, and what they bring in.
fn find_content(root: &Path) -> Vec<(TrustFile, ContentSource, Vec<String>)> {
    let mut files = Vec::new();
    if let Ok(content) = trust::content(&root.join(CONFIG_FILE)) {
        let brings = trust_claims(&String::from_utf8_lossy(&content));
        if !brings.is_empty() {
            files.push((TrustFile::new(CONFIG_FILE, &content), ContentSource::Config, brings));
        }
    }
    if let Ok(content) = trust::content(&root.join(POLICY_FILE))
        && let Some(hook) = alert_hook(&content)
    {
        let brings = vec![format!("alerts.hook: {hook}")];
        files.push((TrustFile::new(POLICY_FILE, &content), ContentSource::Policy, brings));
    }
    let checkouts = [Some(root.to_owned()), linked_checkout(root)];
    let claude = checkouts.iter().flatten().flat_map(|checkout| claude_files(checkout, true));
    files.extend(claude.map(|file| (file, ContentSource::Claude, Vec::new())));
    files
}

/// Returns the command of a policy that is run with an alert. A policy that cannot be used decides
/// nothing, and its command is not run.
fn alert_hook(content: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(content);
    ReplayPolicy::read(POLICY_FILE, &text).ok()?.policy.alerts.hook
}

/// Returns the linked working tree of a repository that prodigy was started in.
fn linked_checkout(root: &Path) -> Option<PathBuf> {
    let here = repo_root(&std::env::current_dir().ok()?)?;
    let here = here.canonicalize().ok()?;
    let root = root.canonicalize().ok()?;
    (here != root && main_root(&here) == root).then_some(here)
}
