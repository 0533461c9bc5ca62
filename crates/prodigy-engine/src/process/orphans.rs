//! Finding and ending processes whose supervisor is gone.
//!
//! While a supervisor lives nothing escapes it. These searches are for afterwards:
//! they know processes by their session and by what is in their environment.

use std::{
    collections::HashSet,
    fs,
    os::{
        fd::AsFd as _,
        unix::{ffi::OsStrExt as _, process::ExitStatusExt as _},
    },
    path::Path,
    process::{Child, ExitStatus},
    time::{Duration, Instant},
};

use rustix::{
    event::PollFlags,
    process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, pidfd_open, waitid},
};
use tokio::task::spawn_blocking;

use super::{
    JOB_MARKER, MARKER,
    process_info::{self, ProcessInfo},
    stream_io,
};

/// The longest that a supervisor without prodigy may take to end its processes and itself.
const PATIENCE: Duration = Duration::from_secs(11);

/// The time for killing. A process that is left then hangs in the kernel or is not ours to kill.
const KILLING: Duration = Duration::from_secs(5);

/// The interval of the checks.
const LOOK: Duration = Duration::from_millis(10);

/// Ends the processes that a dead run of a job left behind, and returns how many there were.
///
/// They are known by the directory of the job's state in [`JOB_MARKER`], and by
/// `PRODIGY_AUTOMATION=true`.
/// Supervisors of the job that still live notice the death of prodigy by themselves and
/// tidy up better than we can, so they are given the time for that first. This blocks.
pub fn kill_job_processes(state: &Path, grace: Duration) -> usize {
    let job = [JOB_MARKER.as_bytes(), b"=", state.as_os_str().as_bytes()].concat();
    let is_marked = |process: &ProcessInfo| {
        let environ = environ(process.pid);
        has(&environ, &job) && has(&environ, b"PRODIGY_AUTOMATION=true")
    };
    let ours = ourselves();
    let find = || -> Vec<ProcessInfo> {
        let is_stray = |process: &ProcessInfo| !ours.contains(&process.pid) && is_marked(process);
        with_descendants(process_info::all().into_iter().filter(is_stray).collect(), &ours)
    };
    let start = Instant::now();
    while start.elapsed() < PATIENCE && find().iter().any(|found| is_supervisor(found.pid)) {
        pause();
    }
    end_all(find, grace)
}

/// Ends the processes of a supervisor that is dead but not reaped, so that its number is not reused.
pub(crate) fn kill_supervisor_orphans(supervisor: Pid, marker: &str, grace: Duration) -> usize {
    let marker = format!("{MARKER}={marker}");
    let session = supervisor.as_raw_nonzero().get();
    let not = HashSet::from([supervisor, getpid()]);
    let find = || -> Vec<ProcessInfo> {
        let is_orphan = |process: &ProcessInfo| {
            !not.contains(&process.pid)
                && (process.session == session || has(&environ(process.pid), marker.as_bytes()))
        };
        with_descendants(process_info::all().into_iter().filter(is_orphan).collect(), &not)
    };
    end_all(find, grace)
}

/// Asks all that are found to end, kills those that do not, and returns how many there were.
fn end_all(find: impl Fn() -> Vec<ProcessInfo>, grace: Duration) -> usize {
    let mut seen = HashSet::new();
    let start = Instant::now();
    loop {
        let found = find();
        if found.is_empty() {
            break;
        }
        let is_over = start.elapsed() >= grace;
        for process in found {
            if is_over {
                process.signal(&[Signal::KILL]);
            }
            if seen.insert(process) && !is_over {
                // What has been stopped must go on to hear the request.
                process.signal(&[Signal::TERM, Signal::CONT]);
            }
        }
        if start.elapsed() > grace.saturating_add(KILLING) {
            break;
        }
        pause();
    }
    seen.len()
}

/// Adds the descendants, which may have a cleaned environment.
fn with_descendants(mut found: Vec<ProcessInfo>, without: &HashSet<Pid>) -> Vec<ProcessInfo> {
    let mut seen: HashSet<Pid> = found.iter().map(|process| process.pid).collect();
    let roots = found.clone();
    for root in roots {
        for process in process_info::descendants(root.pid) {
            if !without.contains(&process.pid) && seen.insert(process.pid) {
                found.push(process);
            }
        }
    }
    found
}

/// Returns this process and those above it, which may carry the marks if prodigy runs in prodigy.
pub(crate) fn ourselves() -> HashSet<Pid> {
    let mut found = HashSet::new();
    let mut next = Some(getpid());
    while let Some(pid) = next.filter(|pid| found.insert(*pid)) {
        next = ProcessInfo::find(pid).and_then(|process| Pid::from_raw(process.parent));
    }
    found
}

pub(crate) fn is_supervisor(pid: Pid) -> bool {
    let arguments = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
    arguments.split(|byte| *byte == 0).nth(1) == Some(b"__supervise")
}

/// Returns a process's environment as it was started; empty if we may not read it.
fn environ(pid: Pid) -> Vec<u8> {
    fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).unwrap_or_default()
}

fn has(environ: &[u8], entry: &[u8]) -> bool {
    environ.split(|byte| *byte == 0).any(|found| found == entry)
}

fn pause() {
    // A wait that fails ends early, and the loops around it look at the clock.
    stream_io::poll_ready([], Some(LOOK)).ok();
}

/// The process, and what its orphans are known by.
#[derive(Debug)]
pub(crate) struct Reaper {
    pub(crate) child: Child,
    pub(crate) marker: String,
}

impl Reaper {
    /// Waits until the supervisor has ended by itself, and ends it if it does not.
    pub(crate) fn finish(&mut self, patience: Duration) {
        if self.has_ended(patience) && self.child.wait().is_ok_and(|status| status.success()) {
            return;
        }
        self.kill(Duration::ZERO);
    }

    /// Returns whether the supervisor was ended by a signal that asks a program to end, which it
    /// hears only before it has come up.
    pub(crate) fn was_signaled(&mut self, patience: Duration) -> bool {
        let asking = [Signal::INT, Signal::TERM, Signal::HUP].map(Signal::as_raw);
        let signal = |status: ExitStatus| status.signal().is_some_and(|hit| asking.contains(&hit));
        self.has_ended(patience) && self.child.wait().is_ok_and(signal)
    }

    /// Kills the supervisor, then ends what it left behind, and returns how many those were.
    pub(crate) fn kill(&mut self, grace: Duration) -> usize {
        // It fails only if the process is gone.
        self.child.kill().ok();
        let supervisor = Pid::from_child(&self.child);
        // Reaped only afterwards: until then nobody can get its number, which names its session.
        waitid(WaitId::Pid(supervisor), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).ok();
        let ended = kill_supervisor_orphans(supervisor, &self.marker, grace);
        self.child.wait().ok();
        ended
    }

    fn has_ended(&self, patience: Duration) -> bool {
        let Ok(pidfd) = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty()) else {
            return false;
        };
        let start = Instant::now();
        loop {
            let left = patience.saturating_sub(start.elapsed());
            match stream_io::poll_ready([Some((pidfd.as_fd(), PollFlags::IN))], Some(left)) {
                Ok([false]) if !left.is_zero() => {}
                Ok([has_ended]) => return has_ended,
                Err(_) => return false,
            }
        }
    }
}

/// Waits for a supervisor's end without holding up the runtime.
pub(crate) async fn reap(mut keeper: Reaper, patience: Duration) {
    // It does not panic; if it were cancelled the runtime is going down.
    spawn_blocking(move || keeper.finish(patience)).await.ok();
}
