//! The lock that keeps two runs from changing a repository's worktrees at once.

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use rustix::fs::OFlags;

use super::Error;
use crate::store::describe_refusal;

/// Held while worktrees are added or removed and while a job is merged.
///
/// Git reads other worktrees' half-written files when two `worktree add` run at
/// once, and then fails. The kernel drops the lock with its holder, so there is
/// no stale lock to clear.
pub(super) struct RepoLock {
    _file: File,
}

impl RepoLock {
    /// Waits for the lock of the repository with this common directory.
    pub(super) fn acquire(common_dir: &Path) -> Result<Self, Error> {
        let path = common_dir.join("prodigy.lock");
        // An agent may have put a link or a pipe in its place.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .custom_flags(i32::try_from(flags.bits()).unwrap_or_default())
            .open(&path)
            .map_err(describe_refusal);
        let file = file.map_err(Error::file("open", &path))?;
        file.lock().map_err(Error::file("lock", &path))?;
        Ok(Self { _file: file })
    }
}
