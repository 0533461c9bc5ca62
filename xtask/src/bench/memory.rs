//! The memory that prodigy needs while a step prints 2 GB.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use prodigy_testkit::TestEnv;

use super::table::BenchRow;
use crate::error::Error;

const WORKFLOW: &str = "name: memory\nsteps:\n  - shell: yes 0123456789 | head -c 2000000000\n";
const MOST_MEGABYTES: f64 = 40.0;
const LIMIT: Duration = Duration::from_secs(300);

pub(super) fn measure(binary: &Path) -> Result<Vec<BenchRow>, Error> {
    let world = TestEnv::with_repo(binary);
    world.write("memory.yml", WORKFLOW);
    world.commit_all("workflow");
    let mut command = world.prodigy_command(&["run", "memory.yml", "-y"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command
        .spawn()
        .map_err(|source| Error::Start { program: binary.display().to_string(), source })?;
    let began = Instant::now();
    let mut peaks = BTreeMap::new();
    let status = loop {
        note_peaks(child.id(), binary, &mut peaks);
        match child.try_wait() {
            Ok(None) if began.elapsed() < LIMIT => std::thread::sleep(Duration::from_millis(10)),
            Ok(None) => {
                // The supervisor ends the rest once its parent is gone.
                child.kill().and_then(|()| child.wait()).ok();
                break "still running".to_owned();
            }
            Ok(Some(status)) if status.success() => break String::new(),
            Ok(Some(status)) => break status.to_string(),
            Err(source) => {
                return Err(Error::Start { program: binary.display().to_string(), source });
            }
        }
    };
    if !status.is_empty() {
        let command = "prodigy run memory.yml -y".to_owned();
        return Err(Error::Failed { command, status, stderr: String::new() });
    }
    Ok(["prodigy", "supervisor"].map(|who| row(who, peaks.get(who).copied())).to_vec())
}

fn row(who: &str, peak_kb: Option<u32>) -> BenchRow {
    let megabytes = peak_kb.map_or(f64::INFINITY, |peak| f64::from(peak) * 1.024 / 1000.0);
    BenchRow {
        what: format!("peak memory of the {who} process, 2 GB printed"),
        measured: format!("{megabytes:.1} MB"),
        floor: "–".to_owned(),
        ratio: megabytes / MOST_MEGABYTES,
        budget: format!("{MOST_MEGABYTES:.0} MB"),
        limit: Some(1.0),
    }
}

/// Keeps the highest peak of the process itself and of the supervisors below it.
fn note_peaks(pid: u32, binary: &Path, peaks: &mut BTreeMap<&'static str, u32>) {
    let mut see = |who, pid: u32| {
        let kept = peaks.entry(who).or_default();
        *kept = (*kept).max(peak(pid).unwrap_or(0));
    };
    see("prodigy", pid);
    for child in children(pid) {
        if fs::read_link(format!("/proc/{child}/exe")).is_ok_and(|exe| is_same(&exe, binary)) {
            see("supervisor", child);
        }
    }
}

fn is_same(exe: &Path, binary: &Path) -> bool {
    binary.canonicalize().is_ok_and(|binary| binary == exe)
}

/// Returns the children of every thread of a process.
fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|list| {
            list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()
        })
        .collect()
}

/// Returns the most memory that a process ever had resident, in kibibytes.
pub(super) fn peak(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_process_is_seen() {
        assert!(peak(std::process::id()).is_some_and(|peak| peak > 100));
        assert_eq!(peak(u32::MAX), None);
    }

    #[test]
    fn a_supervisor_that_was_never_seen_misses_the_budget() {
        assert!(!row("supervisor", None).is_met());
        assert!(row("supervisor", Some(10_000)).is_met());
        assert!(!row("supervisor", Some(40_000)).is_met());
    }
}
