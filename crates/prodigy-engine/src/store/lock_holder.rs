//! The process that works on a job, found so surely that it may be sent a signal.
//!
//! The content of the lock file does not suffice for that: process numbers are reused,
//! and any program can write to the file. Only the kernel's word counts: which
//! process took the lock, through which of its open files.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs, io,
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    },
    path::Path,
    time::Duration,
};

use prodigy_core::ids::JobId;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};

use super::{Error, Layout};
use crate::process::IgnoredSignals;

/// The file name of the program, wherever it is installed.
const PROGRAM: &str = "prodigy";

/// A process of this machine and user that holds the lock of a job.
#[derive(Debug)]
pub struct LockHolder {
    pid: Pid,
    /// Means this process and no later one of the same number.
    handle: OwnedFd,
}

impl LockHolder {
    /// Finds the prodigy that holds the lock of a job.
    ///
    /// `None` means that nobody does, or somebody who cannot be proven to from here:
    /// another machine, another user, another program.
    pub fn find(layout: &Layout, job: &JobId) -> Result<Option<Self>, Error> {
        let path = layout.lock(job);
        let lock = match path.symlink_metadata() {
            Ok(meta) if meta.is_file() => (meta.dev(), meta.ino()),
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("look at", path, error)),
        };
        let entries = fs::read_dir("/proc").map_err(|error| Error::io("list", "/proc", error))?;
        let mut pids = entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter_map(Pid::from_raw);
        Ok(pids.find_map(|pid| Self::verify(pid, lock)))
    }

    /// Returns the process if it is a prodigy that took the lock.
    fn verify(pid: Pid, lock: (u64, u64)) -> Option<Self> {
        // Opened before anything is looked at: if the number changes hands in between,
        // the handle still means the old process, and signals go nowhere.
        let handle = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        let process = Path::new("/proc").join(pid.to_string());
        let proven = is_prodigy(&process) && holds_lock(&process, pid, lock);
        proven.then_some(Self { pid, handle })
    }

    /// Returns the process's number.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Returns those of some signals that the process does not ignore.
    pub fn handled_signals(&self, signals: &[Signal]) -> Vec<Signal> {
        let ignored = IgnoredSignals::of(self.pid);
        signals.iter().copied().filter(|signal| !ignored.contains(*signal)).collect()
    }

    /// Sends a signal; `false` if the process is gone.
    pub fn signal(&self, signal: Signal) -> Result<bool, Error> {
        match pidfd_send_signal(&self.handle, signal) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::SRCH) => Ok(false),
            Err(errno) => Err(self.failed("signal", errno)),
        }
    }

    /// Waits until the process is gone, and its lock with it; `false` if it is not in time.
    pub fn wait(&self, limit: Duration) -> Result<bool, Error> {
        let limit = Timespec::try_from(limit).map_err(|_| {
            let reason = io::Error::from(io::ErrorKind::InvalidInput);
            Error::io("wait for", format!("/proc/{}", self.pid), reason)
        })?;
        let mut ended = [PollFd::new(&self.handle, PollFlags::IN)];
        let ready = poll(&mut ended, Some(&limit)).map_err(|errno| self.failed("wait for", errno));
        Ok(ready? > 0)
    }

    fn failed(&self, action: &'static str, errno: rustix::io::Errno) -> Error {
        Error::io(action, format!("/proc/{}", self.pid), errno)
    }
}

/// Returns whether a process runs this program, maybe an older file of it.
fn is_prodigy(process: &Path) -> bool {
    let Ok(program) = fs::read_link(process.join("exe")) else { return false };
    let Some(name) = program.file_name() else { return false };
    // The kernel says so of a program that was replaced while it runs.
    let name = OsStr::from_bytes(
        name.as_bytes().strip_suffix(b" (deleted)").unwrap_or_else(|| name.as_bytes()),
    );
    let own = env::current_exe().ok();
    name == PROGRAM || own.as_deref().and_then(Path::file_name) == Some(name)
}

/// Returns whether a process took the lock, which is a file by device and number.
fn holds_lock(process: &Path, pid: Pid, lock: (u64, u64)) -> bool {
    // The files of other users' processes cannot be seen; those are not ours to signal.
    let Ok(files) = fs::read_dir(process.join("fd")) else { return false };
    let names: Vec<OsString> = files.flatten().map(|file| file.file_name()).collect();
    names.iter().any(|name| {
        let is_lock = fs::metadata(process.join("fd").join(name))
            .is_ok_and(|meta| (meta.dev(), meta.ino()) == lock);
        let info = || fs::read_to_string(process.join("fdinfo").join(name)).unwrap_or_default();
        is_lock && is_locked_by(&info(), pid)
    })
}

/// Returns whether the kernel says of an open file that this very process locked it.
///
/// A process that was just forked off shares the open file, but did not take the lock.
fn is_locked_by(info: &str, pid: Pid) -> bool {
    let pid = pid.to_string();
    info.lines().filter_map(|line| line.strip_prefix("lock:")).any(|lock| {
        let words: Vec<&str> = lock.split_whitespace().skip(1).take(4).collect();
        words == ["FLOCK", "ADVISORY", "WRITE", &pid]
    })
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader},
        process,
    };

    use super::*;
    use crate::store::{
        JobLock,
        fixture::{self, TestHome},
    };

    #[test]
    fn the_process_that_took_the_lock_is_found_whatever_the_file_says() {
        if let Some(directory) = fixture::in_child() {
            let layout = Layout::new(directory, "repo".parse().unwrap());
            let _lock = JobLock::take(&layout, &"job-1".parse().unwrap()).unwrap();
            println!("\nheld");
            io::stdin().read_line(&mut String::new()).unwrap();
            return;
        }
        let home = TestHome::new();
        let find = || LockHolder::find(&home.layout, &home.job).unwrap();
        assert!(find().is_none());
        let mut child = fixture::child(
            "store::lock_holder::tests::the_process_that_took_the_lock_is_found_whatever_the_file_says",
            "exec \"$@\"",
            &home.directory,
        )
        .spawn()
        .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        assert!(said.lines().any(|line| line.unwrap() == "held"));
        #[expect(
            clippy::disallowed_methods,
            reason = "the file is to stay the one that is locked"
        )]
        fs::write(home.layout.lock(&home.job), format!("process {} on here", process::id()))
            .unwrap();
        // Somebody who has the file open and waits for it is not its holder.
        let _waiting = fs::File::open(home.layout.lock(&home.job)).unwrap();

        let holder = find().unwrap();
        assert_eq!(holder.pid().unsigned_abs(), child.id());
        assert!(!holder.wait(Duration::ZERO).unwrap());
        assert!(holder.signal(Signal::KILL).unwrap());
        assert!(holder.wait(Duration::from_secs(20)).unwrap());
        child.wait().unwrap();
        assert!(find().is_none());
        assert!(!holder.signal(Signal::KILL).unwrap());
    }

    #[test]
    fn only_the_exclusive_lock_of_the_process_itself_counts() {
        let pid = Pid::from_raw(77).unwrap();
        let info = |lock: &str| format!("pos:\t0\nino:\t12\n{lock}\n");
        for (lock, taken) in [
            ("lock:\t1: FLOCK  ADVISORY  WRITE 77 fe:00:12 0 EOF", true),
            ("lock:\t1: FLOCK  ADVISORY  WRITE 777 fe:00:12 0 EOF", false),
            ("lock:\t1: FLOCK  ADVISORY  READ 77 fe:00:12 0 EOF", false),
            ("lock:\t1: POSIX  ADVISORY  WRITE 77 fe:00:12 0 EOF", false),
            ("flags:\t0100001", false),
        ] {
            assert_eq!(is_locked_by(&info(lock), pid), taken, "{lock}");
        }
    }
}
