//! Locks that nobody holds any more.
//!
//! A git that is killed leaves its lock files behind, and all worktrees share those of
//! the references. Git itself never removes them: it cannot know that their owner is gone.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    thread,
    time::{Duration, SystemTime},
};

use super::{Error, Repo};

/// How long a lock must have stood still. Git holds these for milliseconds.
const STILL: Duration = Duration::from_secs(1);

impl Repo {
    /// Removes locks on references that steps of ours left behind since a moment; returns them.
    ///
    /// To be called when no process of the job is left. Other programs use the repository
    /// too, so a lock is taken for ours only if it was made since then, can be read by its
    /// owner only, as supervisors make files, and stands still.
    pub fn remove_stale_locks(&self, since: SystemTime) -> Result<Vec<PathBuf>, Error> {
        let mut found = self.locks(since)?;
        if found.is_empty() {
            return Ok(Vec::new());
        }
        wait();
        let now = self.locks(since)?;
        found.retain(|lock| now.contains(lock));
        for lock in &found {
            match fs::remove_file(&lock.path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::file("remove", &lock.path)(error)),
            }
        }
        Ok(found.into_iter().map(|lock| lock.path).collect())
    }

    /// Returns the locks that may be ours.
    fn locks(&self, since: SystemTime) -> Result<Vec<Lock>, Error> {
        let mut found: Vec<Lock> =
            Lock::find(&self.common_dir().join("packed-refs.lock"), since).into_iter().collect();
        let mut waiting = vec![self.common_dir().join("refs/heads/prodigy")];
        while let Some(directory) = waiting.pop() {
            let entries = match fs::read_dir(&directory) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(Error::file("read", &directory)(error)),
            };
            for entry in entries {
                let entry = entry.map_err(Error::file("read", &directory))?;
                let path = entry.path();
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    waiting.push(path);
                } else if path.extension().is_some_and(|extension| extension == "lock") {
                    found.extend(Lock::find(&path, since));
                }
            }
        }
        Ok(found)
    }
}

/// A lock file as it was seen.
#[derive(PartialEq, Eq)]
struct Lock {
    path: PathBuf,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl Lock {
    fn find(path: &Path, since: SystemTime) -> Option<Self> {
        let metadata = path.symlink_metadata().ok()?;
        let private = metadata.mode() & 0o777 == 0o600;
        let newer = metadata.modified().ok()? >= since;
        (metadata.is_file() && private && newer).then(|| Self {
            path: path.to_owned(),
            inode: metadata.ino(),
            size: metadata.size(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

#[expect(clippy::disallowed_methods, reason = "another process is given the time to finish")]
fn wait() {
    thread::sleep(STILL);
}
