//! Content of a repository that brings in programs or permissions, and the content that the user
//! trusts.
//!
//! A file is trusted by its path and the hash of its content: a file that changes is another one,
//! whoever changed it. Where that is kept is the caller's business, and never the repository.

mod claude_files;
mod front_matter;

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, Read as _},
    path::Path,
    sync::Arc,
};

use prodigy_core::ids::hex;
use sha2::{Digest as _, Sha256};

pub use self::claude_files::{claude_files, is_active_in_commit, is_claude_file, is_command};

/// The configuration of a repository, from its root.
pub const CONFIG_FILE: &str = ".prodigy/config.yml";

/// The largest file that can be trusted, in bytes.
const LARGEST: u64 = 16 << 20;

/// A file of a repository that brings in programs or permissions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TrustFile {
    /// The path from the root of the repository.
    pub path: String,
    /// The hash of its content; `None` for one that cannot be read, and so cannot be trusted.
    pub sha256: Option<String>,
}

/// The content that the user trusts.
#[derive(Clone, Debug, Default)]
pub struct TrustedFiles {
    trusted: Arc<BTreeSet<TrustFile>>,
    announced: Arc<BTreeSet<TrustFile>>,
}

impl TrustFile {
    /// Names a file with the content that it has.
    pub fn new(path: impl Into<String>, content: &[u8]) -> Self {
        Self { path: path.into(), sha256: Some(hex(&Sha256::digest(content))) }
    }

    /// Reads a file; `path` is its path from the root of the repository.
    pub fn read(path: impl Into<String>, place: &Path) -> Self {
        let path = path.into();
        match content(place) {
            Ok(content) => Self::new(path, &content),
            Err(_) => Self { path, sha256: None },
        }
    }
}

impl TrustedFiles {
    /// Takes the files that are trusted, and those that are not and that the user was told of.
    pub fn new(
        trusted: impl IntoIterator<Item = TrustFile>,
        announced: impl IntoIterator<Item = TrustFile>,
    ) -> Self {
        let trusted = trusted.into_iter().filter(|file| file.sha256.is_some()).collect();
        Self { trusted: Arc::new(trusted), announced: Arc::new(announced.into_iter().collect()) }
    }

    /// Returns whether the user trusts a file with this content.
    pub fn trusts(&self, file: &TrustFile) -> bool {
        self.trusted.contains(file)
    }

    /// Returns whether the user was told that a file is left out.
    pub fn is_announced(&self, file: &TrustFile) -> bool {
        self.announced.contains(file)
    }

    /// Returns the files of Claude Code in a worktree that are not trusted.
    pub fn untrusted_claude_files(&self, worktree: &Path) -> Vec<TrustFile> {
        let mut files = claude_files(worktree, false);
        files.retain(|file| !self.trusts(file));
        files
    }
}

/// Returns one hash for some files: their paths and contents, in the order of the paths.
pub fn combined_hash<'f>(files: impl IntoIterator<Item = &'f TrustFile>) -> String {
    let files: BTreeSet<&TrustFile> = files.into_iter().collect();
    let mut hash = Sha256::new();
    for TrustFile { path, sha256 } in files {
        hash.update(path.len().to_le_bytes());
        hash.update(path.as_bytes());
        hash.update(sha256.as_deref().unwrap_or_default().as_bytes());
        hash.update([0]);
    }
    format!("sha256:{}", hex(&hash.finalize()))
}

/// Returns the content of a file, links followed.
pub fn content(place: &Path) -> io::Result<Vec<u8>> {
    // Opening a pipe waits for a writer, so look first.
    if !fs::metadata(place)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut content = Vec::new();
    File::open(place)?.take(LARGEST + 1).read_to_end(&mut content)?;
    if content.len() as u64 > LARGEST {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(content)
}
