//! Locks: the one that keeps two runs from changing a repository's worktrees at once, and locks of
//! git that a dead process left.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    thread,
    time::{Duration, SystemTime},
};

use rustix::fs::OFlags;

use super::{
    Error, Repo, command::GitDirs, in_flight, index_lock::is_job_lock, isolation::IN_USE,
    worktree::remove,
};
use crate::{
    process::{LockIdentity, is_lock_in_use},
    store::describe_refusal,
};

/// Held while worktrees are added or removed and while a job is merged.
///
/// Git reads other worktrees' half-written files when two `worktree add` run at
/// once, and then fails. The kernel drops the lock with its holder, so there is
/// no stale lock to clear.
pub(crate) struct RepoLock {
    _file: File,
}

impl RepoLock {
    /// Waits for the lock of the repository with this common directory.
    pub(crate) fn acquire(common_dir: &Path) -> Result<Self, Error> {
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

/// The time that a lock must have stood still. Git holds these for milliseconds.
const STILL: Duration = Duration::from_secs(1);

/// The longest lag of a file's time behind the clock: the kernel dates files by its last tick.
const LAG: Duration = Duration::from_millis(50);

/// Lock files of a repository beside those of its references.
const SHARED: [&str; 5] =
    ["packed-refs.lock", "config.lock", "shallow.lock", "HEAD.lock", "index.lock"];

/// Lock files of a linked working tree.
const LINKED: [&str; 2] = ["index.lock", "HEAD.lock"];

impl Repo {
    /// Removes locks that programs of ours left behind since a moment; returns them.
    ///
    /// To be called when the program that was started at that moment is gone.
    pub fn remove_stale_locks(&self, since: SystemTime) -> Result<Vec<PathBuf>, Error> {
        remove_stale(&self.main, |lock| lock.created_since(since))
    }

    /// Removes the locks that a run of a job left behind; returns them.
    ///
    /// To be called by whoever takes the job up, when no process of the run is left. The
    /// references of the job are nobody else's, so neither are locks on them that were made
    /// since the job began; others must be younger than the first program that was under way, by
    /// the records in a directory. These stay until none of the locks is left.
    pub fn remove_job_locks(
        &self,
        job: &str,
        began: SystemTime,
        in_flight: &Path,
    ) -> Result<Vec<PathBuf>, Error> {
        let records = in_flight::stale_records(in_flight)?;
        let under_way = records.iter().map(|(_, began)| *began).min();
        let roots = ["refs/heads/prodigy", "refs/prodigy"];
        let own = roots.map(|root| self.common_dir().join(root).join(job));
        let may_be_ours = |lock: &LockFile| {
            let is_own = || own.iter().any(|own| lock.path.starts_with(own));
            let born = lock.identity.born;
            under_way.is_some_and(|since| born >= since) || born >= began && is_own()
        };
        let removed = remove_stale(&self.main, may_be_ours)?;
        if !locks(self.common_dir())?.iter().any(may_be_ours) {
            for (record, _) in records {
                remove(&record)?;
            }
        }
        Ok(removed)
    }
}

/// Removes the lock files of a repository that may be ours and whose makers are gone.
pub(crate) fn remove_stale(
    place: &GitDirs,
    may_be_ours: impl Fn(&LockFile) -> bool,
) -> Result<Vec<PathBuf>, Error> {
    let mut found = locks(&place.common_dir)?;
    found.retain(&may_be_ours);
    if found.is_empty() {
        return Ok(Vec::new());
    }
    wait();
    let now = locks(&place.common_dir)?;
    let directories = directories(place)?;
    found.retain(|lock| now.contains(lock) && !is_lock_in_use(&lock.identity, &directories));
    for lock in &found {
        match fs::remove_file(&lock.path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::file("remove", &lock.path)(error)),
        }
    }
    Ok(found.into_iter().map(|lock| lock.path).collect())
}

/// Returns all lock files of a repository that belong to us.
fn locks(common: &Path) -> Result<Vec<LockFile>, Error> {
    let mut paths: Vec<PathBuf> = SHARED.iter().map(|name| common.join(name)).collect();
    for linked in listed(&common.join("worktrees"))? {
        paths.extend(LINKED.iter().map(|name| linked.path().join(name)));
    }
    let mut waiting = vec![common.join("refs")];
    while let Some(directory) = waiting.pop() {
        for entry in listed(&directory)? {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                waiting.push(path);
            } else if path.extension().is_some_and(|extension| extension == "lock")
                && entry.file_name() != IN_USE
            {
                paths.push(path);
            }
        }
    }
    // A checkout that is being updated, perhaps by a job that was killed, is left to that job.
    paths.retain(|path| !is_job_lock(path));
    let user = rustix::process::geteuid().as_raw();
    let found = paths.iter().filter_map(|path| LockFile::find(path));
    Ok(found.filter(|lock| lock.identity.user == user).collect())
}

/// Returns where the gits of a repository work: its directory and its working trees.
fn directories(place: &GitDirs) -> Result<Vec<PathBuf>, Error> {
    let mut found = vec![place.common_dir.clone(), place.work_tree.clone()];
    for linked in listed(&place.common_dir.join("worktrees"))? {
        // One that cannot be read has no working tree that git would find.
        let Ok(link) = fs::read_to_string(linked.path().join("gitdir")) else { continue };
        found.extend(Path::new(link.trim_end()).parent().map(Path::to_owned));
    }
    Ok(found)
}

/// Returns what is in a directory that need not exist.
fn listed(directory: &Path) -> Result<Vec<fs::DirEntry>, Error> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return Ok(Vec::new());
        }
        Err(error) => return Err(Error::file("read", directory)(error)),
    };
    entries.map(|entry| entry.map_err(Error::file("read", directory))).collect()
}

/// A lock file as it was seen.
#[derive(PartialEq, Eq)]
pub(crate) struct LockFile {
    path: PathBuf,
    identity: LockIdentity,
    size: u64,
    changed: (i64, i64),
}

impl LockFile {
    /// Returns whether the lock may have been made since a moment by the clock.
    pub(crate) fn created_since(&self, moment: SystemTime) -> bool {
        self.identity.born.checked_add(LAG).is_some_and(|latest| latest >= moment)
    }

    fn find(path: &Path) -> Option<Self> {
        let metadata = path.symlink_metadata().ok().filter(fs::Metadata::is_file)?;
        let modified = metadata.modified().ok()?;
        // Not every file system knows when a file was made.
        let born = metadata.created().map_or(modified, |created| created.min(modified));
        Some(Self {
            path: path.to_owned(),
            identity: LockIdentity {
                device: metadata.dev(),
                inode: metadata.ino(),
                user: metadata.uid(),
                born,
            },
            size: metadata.size(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

#[expect(clippy::disallowed_methods, reason = "another process is given the time to finish")]
fn wait() {
    thread::sleep(STILL);
}
