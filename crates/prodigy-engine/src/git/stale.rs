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

use super::{Error, Repo, commit_paths::IN_USE};

/// How long a lock must have stood still. Git holds these for milliseconds.
const STILL: Duration = Duration::from_secs(1);

impl Repo {
    /// Removes locks on references that steps of ours left behind since a moment; returns them.
    ///
    /// To be called when no process of the job is left. Other programs use the repository
    /// too, so a lock is taken for ours only if it was made since then, can be read by its
    /// owner only, as supervisors make files, and stands still.
    pub fn remove_stale_locks(&self, since: SystemTime) -> Result<Vec<PathBuf>, Error> {
        self.remove_locks(since, None)
    }

    /// Removes the locks that a run of a job left behind since a moment, those of our own git
    /// included; returns them.
    ///
    /// To be called by whoever takes the job up, when no process of the run is left. The
    /// references of the job are nobody else's, so neither are locks on them that stand still.
    pub fn remove_locks_of(&self, job: &str, since: SystemTime) -> Result<Vec<PathBuf>, Error> {
        self.remove_locks(since, Some(job))
    }

    fn remove_locks(&self, since: SystemTime, job: Option<&str>) -> Result<Vec<PathBuf>, Error> {
        let mut found = self.locks(since, job)?;
        if found.is_empty() {
            return Ok(Vec::new());
        }
        wait();
        let now = self.locks(since, job)?;
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
    fn locks(&self, since: SystemTime, job: Option<&str>) -> Result<Vec<Lock>, Error> {
        let common = self.common_dir();
        let is_private = |lock: &Lock| lock.is_private;
        let packed = Lock::find(&common.join("packed-refs.lock"), since);
        let mut found: Vec<Lock> = packed.into_iter().filter(is_private).collect();
        let own: Vec<PathBuf> = job
            .into_iter()
            .flat_map(|job| {
                ["refs/heads/prodigy", "refs/prodigy"].map(|root| common.join(root).join(job))
            })
            .collect();
        let is_ours =
            |lock: &Lock| lock.is_private || own.iter().any(|own| lock.path.starts_with(own));
        let mut waiting = vec![common.join("refs/heads/prodigy")];
        // The first of them is below what is searched anyway.
        waiting.extend(own.iter().skip(1).cloned());
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
                } else if path.extension().is_some_and(|extension| extension == "lock")
                    && entry.file_name() != IN_USE
                {
                    found.extend(Lock::find(&path, since).filter(is_ours));
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
    /// Whether only its owner can read it, as supervisors make files.
    is_private: bool,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl Lock {
    fn find(path: &Path, since: SystemTime) -> Option<Self> {
        let metadata = path.symlink_metadata().ok()?;
        let newer = metadata.modified().ok()? >= since;
        (metadata.is_file() && newer).then(|| Self {
            path: path.to_owned(),
            is_private: metadata.mode() & 0o777 == 0o600,
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
