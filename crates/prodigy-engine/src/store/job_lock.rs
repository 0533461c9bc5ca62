//! One owner per job, by a lock of the kernel.
//!
//! The lock ends with the process that holds it, however that ends, so there is
//! nothing to clean up and nothing to steal. What stands in the file is only for
//! people.

use std::{
    fs::{File, TryLockError},
    io::{Read as _, Seek as _, Write as _},
    process, thread,
    time::{Duration, Instant},
};

use prodigy_core::ids::JobId;

use super::{
    Error, Layout,
    files::{self, OpenMode},
};
use crate::clock;

/// The number of times a lock must be found held before it counts as held.
const TRIES: u32 = 20;
/// The time between two tries.
const PAUSE: Duration = Duration::from_millis(5);
/// The longest wait while other processes only query the holder of the lock.
///
/// [`JobLock::holder`] shares the lock for an instant to see whether it is free. On a loaded
/// machine that instant can be long, and it must not turn a start away.
const PATIENCE: Duration = Duration::from_secs(30);
/// The most that is read of what a holder says about itself.
const MAX_HOLDER: u64 = 300;

/// The right to work on a job, for as long as this value lives.
#[derive(Debug)]
pub struct JobLock {
    _file: File,
}

impl JobLock {
    /// Takes the lock of a job, or says who holds it.
    pub fn take(layout: &Layout, job: &JobId) -> Result<Self, Error> {
        let path = layout.lock(job);
        files::create_dir(&layout.state_dir(job))?;
        let mut file = files::open_or_create(&path)?;
        let (mut held, began) = (0, Instant::now());
        while held < TRIES && began.elapsed() < PATIENCE {
            match file.try_lock() {
                Ok(()) => {
                    // Only people read this; the lock holds without it.
                    file.set_len(0).and_then(|()| file.write_all(holder().as_bytes())).ok();
                    return Ok(Self { _file: file });
                }
                Err(TryLockError::WouldBlock) => {
                    held += u32::from(!is_only_probed(&file));
                    pause();
                }
                Err(TryLockError::Error(error)) => return Err(Error::io("lock", &path, error)),
            }
        }
        Err(Error::Locked { job: job.clone(), holder: read_holder(&mut file) })
    }

    /// Returns who works on a job, or `None` if nobody does.
    pub fn holder(layout: &Layout, job: &JobId) -> Result<Option<String>, Error> {
        let path = layout.lock(job);
        if !path.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
            return Ok(None);
        }
        let mut file = files::open_regular(&path, OpenMode::Read)?;
        match file.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => Ok(Some(read_holder(&mut file))),
            Err(TryLockError::Error(error)) => Err(Error::io("lock", &path, error)),
        }
    }
}

/// Returns whether nobody holds a lock, but others share it to ask who does.
fn is_only_probed(file: &File) -> bool {
    // A lock that was shared and cannot be given back ends with the file.
    file.try_lock_shared().is_ok_and(|()| file.unlock().is_ok())
}

/// Says who we are.
fn holder() -> String {
    let name = rustix::system::uname();
    let host = name.nodename().to_string_lossy().into_owned();
    // Whole seconds are enough for people.
    let since = clock::now().strftime("%Y-%m-%dT%H:%M:%SZ");
    format!("process {} on {host} since {since}\n", process::id())
}

/// Reads what a holder said about itself.
fn read_holder(file: &mut File) -> String {
    let mut text = Vec::new();
    // It is only for people: what cannot be read is not said.
    file.rewind().and_then(|()| file.take(MAX_HOLDER).read_to_end(&mut text)).ok();
    let text = String::from_utf8_lossy(&text);
    match text.lines().next() {
        Some(line) if !line.is_empty() => line.to_owned(),
        Some(_) | None => "another process".to_owned(),
    }
}

#[expect(clippy::disallowed_methods, reason = "another process is waited for in real time")]
fn pause() {
    thread::sleep(PAUSE);
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader},
        sync::atomic::{AtomicBool, Ordering},
    };

    use super::*;
    use crate::store::fixture::{self, TestHome};

    #[test]
    fn a_second_process_is_told_who_holds_the_job_and_a_dead_one_holds_nothing() {
        if let Some(directory) = fixture::in_child() {
            let layout = Layout::new(directory, "repo".parse().unwrap());
            let _lock = JobLock::take(&layout, &"job-1".parse().unwrap()).unwrap();
            println!("\nheld");
            std::io::stdin().read_line(&mut String::new()).unwrap();
            return;
        }
        let home = TestHome::new();
        assert_eq!(JobLock::holder(&home.layout, &home.job).unwrap(), None);
        let mut child = fixture::child(
            "store::job_lock::tests::a_second_process_is_told_who_holds_the_job_and_a_dead_one_holds_nothing",
            "exec \"$@\"",
            &home.directory,
        )
        .spawn()
        .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        assert!(said.lines().any(|line| line.unwrap() == "held"));

        let error = JobLock::take(&home.layout, &home.job).unwrap_err();
        let held = JobLock::holder(&home.layout, &home.job).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let (Error::Locked { holder, .. }, Some(held)) = (&error, held) else {
            panic!("{error:?}")
        };
        assert_eq!(*holder, held);
        assert!(held.starts_with(&format!("process {} on ", child.id())), "{held}");

        assert_eq!(JobLock::holder(&home.layout, &home.job).unwrap(), None);
        JobLock::take(&home.layout, &home.job).unwrap();
    }

    #[test]
    fn one_of_many_gets_the_job() {
        let home = TestHome::new();
        let taken: Vec<_> = thread::scope(|scope| {
            let tries: Vec<_> =
                (0..8).map(|_| scope.spawn(|| JobLock::take(&home.layout, &home.job))).collect();
            tries.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(taken.iter().filter(|lock| lock.is_ok()).count(), 1);
        drop(taken);
        JobLock::take(&home.layout, &home.job).unwrap();
    }

    #[test]
    fn asking_who_holds_a_job_turns_nobody_away() {
        let home = TestHome::new();
        drop(JobLock::take(&home.layout, &home.job).unwrap());
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                // What asking does, only more of it: the lock is taken a third of the time.
                let file =
                    files::open_regular(&home.layout.lock(&home.job), OpenMode::Read).unwrap();
                while !done.load(Ordering::Relaxed) {
                    if file.try_lock_shared().is_ok() {
                        (0..50).for_each(|_| thread::yield_now());
                        file.unlock().unwrap();
                    }
                    (0..100).for_each(|_| thread::yield_now());
                }
            });
            let taken = (0..50).all(|_| JobLock::take(&home.layout, &home.job).is_ok());
            done.store(true, Ordering::Relaxed);
            assert!(taken);
        });
    }

    #[test]
    fn a_slow_question_who_holds_a_job_turns_no_start_away() {
        let home = TestHome::new();
        drop(JobLock::take(&home.layout, &home.job).unwrap());
        let file = files::open_regular(&home.layout.lock(&home.job), OpenMode::Read).unwrap();
        file.lock_shared().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                // Longer than a lock that is really held is waited for.
                (0..3 * TRIES).for_each(|_| pause());
                file.unlock().unwrap();
            });
            JobLock::take(&home.layout, &home.job).unwrap();
        });
    }

    #[test]
    fn a_lock_that_is_a_pipe_or_link_is_refused() {
        let home = TestHome::new();
        files::create_dir(&home.layout.state_dir(&home.job)).unwrap();
        std::os::unix::fs::symlink("/dev/zero", home.layout.lock(&home.job)).unwrap();
        let error = JobLock::take(&home.layout, &home.job).unwrap_err();
        insta::assert_snapshot!(home.show(error), @"`$HOME/state/repo/mapreduce/jobs/job-1/lock` is not a regular file");
        assert_eq!(JobLock::holder(&home.layout, &home.job).unwrap(), None);
    }
}
