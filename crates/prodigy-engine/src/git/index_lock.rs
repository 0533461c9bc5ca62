//! Git's own lock on the index of a working tree, held while we change that working tree.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use super::{Error, isolation::isolated_git_dir::read_regular_or_empty};

/// The longest that we wait for another git's lock.
const PATIENCE: Duration = Duration::from_secs(5);

/// The time between two attempts to take it.
const PAUSE: Duration = Duration::from_millis(20);

/// The first words of a lock of ours; the branch of the job follows.
const OURS: &str = "prodigy updates this checkout for ";

/// `index.lock`, held by us: no other git changes index or files meanwhile.
///
/// Its text names the job's branch. Whoever takes the job up after a kill knows by it that
/// the lock is the job's own.
pub(super) struct IndexLock {
    path: PathBuf,
    text: String,
    is_held: bool,
}

/// The holder of a lock that cannot be had.
pub(super) enum IndexLockHolder {
    /// A job of ours, by its branch, which was ended meanwhile.
    Job(String),
    /// Another program, with the lock's path.
    Other(PathBuf),
}

impl IndexLock {
    /// Takes the lock for a job, or finds that the job has it already from before a kill.
    pub(super) fn acquire(
        git_dir: &Path,
        branch: &str,
    ) -> Result<Result<Self, IndexLockHolder>, Error> {
        let path = git_dir.join("index.lock");
        let text = format!("{OURS}{branch}\n");
        let begun = Instant::now();
        loop {
            let is_held = create(git_dir, &path, &text)? || Self::is_held_by(git_dir, branch)?;
            if is_held {
                return Ok(Ok(Self { path, text, is_held }));
            }
            let found = read_regular_or_empty(&path)?;
            let found = String::from_utf8_lossy(&found);
            if let Some(job) = found.strip_prefix(OURS) {
                return Ok(Err(IndexLockHolder::Job(job.trim_end().to_owned())));
            }
            if begun.elapsed() > PATIENCE {
                return Ok(Err(IndexLockHolder::Other(path)));
            }
            pause();
        }
    }

    /// Returns whether a job holds the lock, perhaps from before a kill.
    pub(super) fn is_held_by(git_dir: &Path, branch: &str) -> Result<bool, Error> {
        let found = read_regular_or_empty(&git_dir.join("index.lock"))?;
        Ok(found == format!("{OURS}{branch}\n").as_bytes())
    }

    /// Gives the lock back.
    pub(super) fn release(mut self) -> Result<(), Error> {
        self.is_held = false;
        self.remove()
    }

    /// Says whether the lock stays when we give up: the checkout is in a state that only the
    /// job can mend.
    pub(super) fn set_kept(&mut self, is_kept: bool) {
        self.is_held = !is_kept;
    }

    fn remove(&self) -> Result<(), Error> {
        // Somebody may have removed it by hand, and another git may have made its own.
        if read_regular_or_empty(&self.path)? != self.text.as_bytes() {
            return Ok(());
        }
        fs::remove_file(&self.path).map_err(Error::file("remove", &self.path))
    }
}

impl Drop for IndexLock {
    fn drop(&mut self) {
        if self.is_held {
            // Nothing was changed yet; the next run of the job finds that it is ours.
            self.remove().ok();
        }
    }
}

/// Returns whether a file is the index lock of a job, which only that job removes.
pub(super) fn is_job_lock(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "index.lock")
        && read_regular_or_empty(path).is_ok_and(|text| text.starts_with(OURS.as_bytes()))
}

/// Makes the lock with its text in one step; returns whether it could be had.
fn create(git_dir: &Path, path: &Path, text: &str) -> Result<bool, Error> {
    let draft = git_dir.join("prodigy-index-lock");
    let written = fs::File::create(&draft).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(Error::file("write", &draft))?;
    let linked = fs::hard_link(&draft, path);
    fs::remove_file(&draft).map_err(Error::file("remove", &draft))?;
    match linked {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        // A file system without hard links.
        Err(_) => match OpenOptions::new().write(true).create_new(true).open(path) {
            Ok(mut file) => {
                file.write_all(text.as_bytes()).map_err(Error::file("write", path))?;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(Error::file("create", path)(error)),
        },
    }
}

#[expect(clippy::disallowed_methods, reason = "another git is given the time to finish")]
fn pause() {
    thread::sleep(PAUSE);
}
