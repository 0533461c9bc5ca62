//! Process tree from `/proc`, and signals that hit the right process.

use std::{collections::HashSet, fs, path::Path};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// One process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ProcessInfo {
    /// Its number.
    pub(crate) pid: Pid,
    /// Its parent's number; 0 for the first process.
    pub(crate) parent: i32,
    /// Its process group.
    pub(crate) group: i32,
    /// Its session.
    pub(crate) session: i32,
    /// When it started, in ticks; with the number, this says who it is even if numbers are reused.
    started: u64,
}

impl ProcessInfo {
    /// Looks a process up. What has ended and waits for its parent does not count.
    pub(crate) fn find(pid: Pid) -> Option<Self> {
        let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        // The name is in parentheses and may contain anything, parentheses too.
        let (_, fields) = stat.rsplit_once(") ")?;
        let mut fields = fields.split(' ');
        let state = fields.next()?;
        let mut number = || fields.next()?.parse().ok();
        let (parent, group, session) = (number()?, number()?, number()?);
        // The 22nd field of the file.
        let started = fields.nth(15)?.parse().ok()?;
        (!matches!(state, "Z" | "X")).then_some(Self { pid, parent, group, session, started })
    }

    /// Returns when it started, in ticks since the machine was.
    pub(crate) fn started_ticks(&self) -> u64 {
        self.started
    }

    /// Sends it a signal, and only it: the number may have been given to another process meanwhile.
    pub(crate) fn signal(&self, signals: &[Signal]) {
        let Ok(pidfd) = pidfd_open(self.pid, PidfdFlags::empty()) else { return };
        if Self::find(self.pid).is_some_and(|now| now.started == self.started) {
            for signal in signals {
                // It may be gone by now, which is what is wanted, or belong to another
                // user, which the caller sees from its staying.
                pidfd_send_signal(&pidfd, *signal).ok();
            }
        }
    }
}

/// Returns all processes.
pub(crate) fn all() -> Vec<ProcessInfo> {
    // Without `/proc` there is nobody to be found.
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(Pid::from_raw)
        .filter_map(ProcessInfo::find)
        .collect()
}

/// Returns the children, grandchildren and so on of a process, without itself.
///
/// The list is as good as the moment: descendants that are being born may be missing.
pub(crate) fn descendants(of: Pid) -> Vec<ProcessInfo> {
    if Path::new("/proc/thread-self/children").exists() { walk(of) } else { among(&all(), of) }
}

/// Finds descendants through the kernel's lists of children.
fn walk(of: Pid) -> Vec<ProcessInfo> {
    let mut found = Vec::new();
    let mut seen = HashSet::from([of]);
    let mut parents = vec![of];
    while let Some(parent) = parents.pop() {
        for child in children(parent) {
            if seen.insert(child) {
                parents.push(child);
                found.extend(ProcessInfo::find(child));
            }
        }
    }
    found
}

/// Returns the children of all threads of a process.
fn children(of: Pid) -> Vec<Pid> {
    // A process that is gone has none.
    let Ok(threads) = fs::read_dir(format!("/proc/{}/task", of.as_raw_nonzero())) else {
        return Vec::new();
    };
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok());
    lists
        .flat_map(|list| {
            let pids: Vec<_> = list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
            pids
        })
        .filter_map(Pid::from_raw)
        .collect()
}

/// Finds descendants in a list of all processes, for kernels without lists of children.
fn among(all: &[ProcessInfo], of: Pid) -> Vec<ProcessInfo> {
    let mut family = HashSet::from([of.as_raw_nonzero().get()]);
    let mut found = Vec::new();
    loop {
        let before = found.len();
        for process in all {
            if family.contains(&process.parent) && family.insert(process.pid.as_raw_nonzero().get())
            {
                found.push(*process);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::getpid;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test needs a plain child")]
    fn both_ways_find_the_same_descendants() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "sleep 60 & read line"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let pid = Pid::from_child(&child);
        let mine = |found: Vec<ProcessInfo>| {
            let mut found: Vec<_> = found
                .iter()
                .map(|process| (process.pid.as_raw_nonzero(), process.parent))
                .collect();
            found.sort_unstable();
            found
        };
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        let walked = loop {
            let walked = mine(walk(pid));
            if !walked.is_empty() || std::time::Instant::now() > deadline {
                break walked;
            }
        };
        assert_eq!(walked.len(), 1);
        assert_eq!(walked, mine(among(&all(), pid)));
        let from_us = mine(among(&all(), getpid()));
        assert!(walked.iter().all(|process| from_us.contains(process)));

        for process in walk(pid) {
            process.signal(&[Signal::KILL]);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(ProcessInfo::find(pid), None);
    }
}
