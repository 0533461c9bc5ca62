//! Finding the living process that may have made a lock file of git's.
//!
//! A lock file does not say whose it is. Its maker is gone if no process has the file open and no
//! git that is as old as the file works in the repository.

use std::{
    fs,
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rustix::{param::clock_ticks_per_second, time::ClockId};

use super::process_info::{self, ProcessInfo};
use crate::clock;

/// The tolerance by which a process may seem younger than its lock: clocks are set, ticks coarse.
const TOLERANCE: Duration = Duration::from_secs(2);

/// Commands of git's that stay for long and never take a lock.
const READERS: [&[u8]; 4] =
    [b"cat-file", b"hash-object", b"fsmonitor--daemon", b"credential-cache--daemon"];

/// A lock file, as far as its maker can be found by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockIdentity {
    /// The device that it is on.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
    /// The user that it belongs to.
    pub user: u32,
    /// The time at which it was made.
    pub born: SystemTime,
}

/// Returns whether a living process may have made a lock file in a repository and still need it.
///
/// `directories` are the repository's: its own and those of its working trees. Processes of
/// another user cannot have made a file of this one.
pub fn is_lock_in_use(lock: &LockIdentity, directories: &[PathBuf]) -> bool {
    let booted = boot_time();
    process_info::all().into_iter().any(|process| {
        let place = PathBuf::from(format!("/proc/{}", process.pid));
        has_open(&place, lock) || is_possible_maker(&process, &place, lock, directories, booted)
    })
}

/// Returns whether a process has the file open; one that cannot be looked at has not.
fn has_open(place: &Path, lock: &LockIdentity) -> bool {
    let files = fs::read_dir(place.join("fd")).into_iter().flatten().flatten();
    files
        .filter_map(|file| fs::metadata(file.path()).ok())
        .any(|file| (file.dev(), file.ino()) == (lock.device, lock.inode))
}

/// Returns whether a process is a git that works in the repository and is as old as the lock.
fn is_possible_maker(
    process: &ProcessInfo,
    place: &Path,
    lock: &LockIdentity,
    directories: &[PathBuf],
    booted: Option<SystemTime>,
) -> bool {
    let is_of_user = fs::metadata(place).is_ok_and(|found| found.uid() == lock.user);
    let arguments = fs::read(place.join("cmdline")).unwrap_or_default();
    let arguments: Vec<&[u8]> = arguments.split(|byte| *byte == 0).collect();
    if !is_of_user || !is_git(&arguments) || is_idle(&arguments) {
        return false;
    }
    let ticks = clock_ticks_per_second().max(1);
    let since_boot = Duration::from_millis(process.started_ticks().saturating_mul(1000) / ticks);
    let is_younger =
        booted.and_then(|booted| booted.checked_add(since_boot)).is_some_and(|started| {
            started.duration_since(lock.born).is_ok_and(|later| later > TOLERANCE)
        });
    !is_younger && works_in(place, &arguments, directories)
}

fn is_git(arguments: &[&[u8]]) -> bool {
    let program = arguments.first().copied().unwrap_or_default();
    let name = program.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    name == b"git" || name.starts_with(b"git-")
}

/// Returns whether a git waits for questions, or only reads. One of prodigy's own that writes has
/// the file open while it does.
fn is_idle(arguments: &[&[u8]]) -> bool {
    let is_own = arguments.contains(&b"prodigy: merge".as_slice());
    let waits = is_own && arguments.contains(&b"--stdin".as_slice());
    waits || READERS.iter().any(|reader| arguments.contains(reader))
}

/// Returns whether a git works in one of some directories; one that cannot be looked at may.
fn works_in(place: &Path, arguments: &[&[u8]], directories: &[PathBuf]) -> bool {
    let Ok(cwd) = fs::read_link(place.join("cwd")) else { return true };
    let environ = fs::read(place.join("environ")).unwrap_or_default();
    let variables = environ.split(|byte| *byte == 0);
    let mut named =
        variables.filter(|entry| entry.starts_with(b"GIT_")).chain(arguments.iter().copied());
    directories.iter().any(|directory| cwd.starts_with(directory))
        || named.any(|text| directories.iter().any(|directory| contains(text, directory)))
}

fn contains(text: &[u8], directory: &Path) -> bool {
    let directory = directory.as_os_str().as_bytes();
    !directory.is_empty() && text.windows(directory.len()).any(|part| part == directory)
}

/// Returns when the machine was started, by the clock that files are dated with.
fn boot_time() -> Option<SystemTime> {
    let up = rustix::time::clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(up.tv_sec).ok()?;
    let nanos = u32::try_from(up.tv_nsec).ok()?;
    SystemTime::from(clock::now()).checked_sub(Duration::new(seconds, nanos))
}
