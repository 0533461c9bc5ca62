//! A cheap answer to "has anything changed in this worktree?".

use std::{
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::{Path, PathBuf},
};

use super::blocks_on_open;
use crate::git::{Error, Worktree};

/// Beyond this many files a walk costs more than what it saves.
const MOST_ENTRIES: u64 = 200_000;

/// Files that git reads in every directory.
const READ: &[&str] = &[".gitattributes", ".gitignore"];

/// The visible state of a worktree: names, sizes, times, and git's HEAD and index.
///
/// Two fingerprints that match mean that nothing was written in between. Ignored
/// files count too.
#[derive(Clone, Debug)]
pub struct WorktreeFingerprint {
    /// `None` if there were too many files to look at.
    seen: Option<FingerprintData>,
    /// When the youngest file was changed.
    youngest: (i64, i64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FingerprintData {
    head: String,
    index: u64,
    entries: u64,
    /// A sum, so that the order in which directories list their entries does not matter.
    sum: u64,
}

impl WorktreeFingerprint {
    /// Returns whether nothing has changed; a worktree that was too large counts as changed.
    pub fn matches(&self, other: &Self) -> bool {
        self.seen.is_some() && self.seen == other.seen
    }

    /// Returns whether all files were changed before a later file was written.
    ///
    /// If not, the clock of the file system has not moved on, and one more change may
    /// bear the same time.
    pub(crate) fn is_older_than(&self, later: &fs::Metadata) -> bool {
        self.youngest < (later.ctime(), later.ctime_nsec())
    }
}

impl Worktree {
    /// Returns what the worktree looks like from outside, without starting git.
    pub fn fingerprint(&self) -> Result<WorktreeFingerprint, Error> {
        self.fingerprint_without(&[])
    }

    /// Returns what the worktree looks like, some paths in it left out.
    pub(crate) fn fingerprint_without(
        &self,
        left_out: &[PathBuf],
    ) -> Result<WorktreeFingerprint, Error> {
        let left_out: Vec<_> = left_out.iter().map(|path| self.path().join(path)).collect();
        let mut seen = FingerprintData {
            head: self.head()?,
            index: fingerprint_of(&self.place.git_dir.join("index")),
            entries: 0,
            sum: 0,
        };
        let mut youngest = (0, 0);
        let mut waiting: Vec<PathBuf> = vec![self.path().to_owned()];
        while let Some(directory) = waiting.pop() {
            let entries = fs::read_dir(&directory).map_err(Error::file("read", &directory))?;
            for entry in entries {
                let entry = entry.map_err(Error::file("read", &directory))?;
                let path = entry.path();
                let is_link = entry.file_name() == ".git" && directory == self.path();
                if is_link || left_out.contains(&path) {
                    continue;
                }
                // A file that vanishes while we look is a change like any other.
                let Ok(metadata) = entry.metadata() else {
                    return Ok(WorktreeFingerprint { seen: None, youngest });
                };
                let is_read = READ.iter().any(|name| entry.file_name() == *name);
                if is_read && blocks_on_open(metadata.file_type()) {
                    return Err(Error::Special { path });
                }
                youngest = youngest.max((metadata.ctime(), metadata.ctime_nsec()));
                seen.entries += 1;
                seen.sum = seen.sum.wrapping_add(of(&path, &metadata));
                if seen.entries > MOST_ENTRIES {
                    return Ok(WorktreeFingerprint { seen: None, youngest });
                }
                if metadata.is_dir() {
                    waiting.push(path);
                }
            }
        }
        Ok(WorktreeFingerprint { seen: Some(seen), youngest })
    }
}

/// Returns a number for one file as it looks from outside; 0 if it is not there.
fn fingerprint_of(path: &Path) -> u64 {
    path.symlink_metadata().map_or(0, |metadata| of(path, &metadata))
}

fn of(path: &Path, metadata: &fs::Metadata) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.as_os_str().as_bytes().hash(&mut hasher);
    (metadata.ino(), metadata.mode()).hash(&mut hasher);
    // The change time is not the program's to choose: it shows writes that put the
    // modification time back.
    (metadata.ctime(), metadata.ctime_nsec()).hash(&mut hasher);
    if !metadata.is_dir() {
        (metadata.size(), metadata.mtime(), metadata.mtime_nsec()).hash(&mut hasher);
    }
    hasher.finish()
}
