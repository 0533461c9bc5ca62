//! What the tests of running workflows share.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use prodigy_testkit::{CommandOutput, TestEnv};
use regex::Regex;
use rustix::process::{Pid, Signal, kill_process};

/// Makes a world whose repository holds `workflow.yml`.
pub(crate) fn world(workflow: &str) -> TestEnv {
    let world = TestEnv::with_repo(env!("CARGO_BIN_EXE_prodigy"));
    world.write("workflow.yml", workflow);
    world.commit_all("Add the workflow");
    world
}

/// Runs the workflow as job `job`, merging at the end, and returns what a person sees.
pub(crate) fn run(world: &TestEnv) -> String {
    run_with(world, &[])
}

/// Runs the workflow as job `job` with more arguments.
pub(crate) fn run_with(world: &TestEnv, more: &[&str]) -> String {
    let mut args = vec!["run", "workflow.yml", "-y", "--job-id", "job"];
    args.extend(more);
    stable(&world.prodigy(&args))
}

/// Returns what a person sees, without what differs from run to run.
pub(crate) fn stable(seen: &CommandOutput) -> String {
    let text = seen.to_string();
    let text = Regex::new(r"\b\d+(\.\d+)?(ms|s)\b").unwrap().replace_all(&text, "[time]");
    let text = Regex::new(r"\bat [0-9a-f]{10}\b").unwrap().replace_all(&text, "at [commit]");
    text.into_owned()
}

/// Returns the types of the job's events, in order.
pub(crate) fn events(world: &TestEnv) -> Vec<String> {
    let told = records(world);
    told.iter().map(|record| record["event_type"].as_str().unwrap().to_owned()).collect()
}

/// Returns the records of the job's journal.
pub(crate) fn records(world: &TestEnv) -> Vec<serde_json::Value> {
    journal(world)
        .iter()
        .flat_map(|path| {
            let text = fs::read_to_string(path).unwrap();
            let lines: Vec<_> =
                text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
            lines
        })
        .collect()
}

/// Returns the files of the job's journal, in order.
pub(crate) fn journal(world: &TestEnv) -> Vec<PathBuf> {
    let directory = world.home().join("events/repo/job");
    let mut files: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    files.sort();
    files
}

/// A `prodigy` that runs in the background.
pub(crate) struct SpawnedProdigy {
    child: Option<Child>,
    screen: ScreenCapture,
}

/// The text that has reached a terminal so far.
#[derive(Clone, Default)]
pub(crate) struct ScreenCapture(Arc<Mutex<Vec<u8>>>);

impl ScreenCapture {
    /// Adds what has just reached it.
    pub(crate) fn add(&self, bytes: &[u8]) {
        self.0.lock().unwrap().extend_from_slice(bytes);
    }

    /// Returns everything that has reached it.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl SpawnedProdigy {
    /// Starts `prodigy` with arguments.
    pub(crate) fn new(world: &TestEnv, args: &[&str]) -> Self {
        Self::of(&mut world.prodigy_command(args))
    }

    /// Starts a command.
    pub(crate) fn of(command: &mut Command) -> Self {
        Self::with_streams(command, Stdio::piped(), Stdio::piped())
    }

    /// Starts a command that writes elsewhere.
    pub(crate) fn with_streams(command: &mut Command, stdout: Stdio, stderr: Stdio) -> Self {
        let child = Some(command.stdout(stdout).stderr(stderr).spawn().unwrap());
        Self { child, screen: ScreenCapture::default() }
    }

    /// Returns the terminal that it writes to; empty if it does not write to one.
    pub(crate) fn screen(&self) -> ScreenCapture {
        self.screen.clone()
    }

    /// Returns its process.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(self.child.as_ref().unwrap())
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Waits, within bounds, until something is so while it runs.
    #[track_caller]
    pub(crate) fn until(&mut self, world: &TestEnv, what: &str, is_so: impl Fn() -> bool) {
        let start = Instant::now();
        while !is_so() {
            let is_over = self.child.as_mut().unwrap().try_wait().unwrap().is_some();
            let is_late = start.elapsed() > Duration::from_secs(60);
            if is_late && !is_over {
                // It is asked to end, so that it says what it was about.
                self.signal(Signal::TERM);
            }
            assert!(!is_late && !is_over, "not so: {what}\n{}", self.take().seen(world));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits, within bounds, until it has ended.
    pub(crate) fn seen(self, world: &TestEnv) -> CommandOutput {
        self.seen_within(world, Duration::from_secs(60))
    }

    /// Waits until it has ended, but not longer than this.
    pub(crate) fn seen_within(mut self, world: &TestEnv, limit: Duration) -> CommandOutput {
        let mut child = self.child.take().unwrap();
        let start = Instant::now();
        let mut is_late = false;
        while child.try_wait().unwrap().is_none() {
            is_late = start.elapsed() > limit;
            if is_late {
                child.kill().unwrap();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let seen = world.to_output(&child.wait_with_output().unwrap());
        assert!(!is_late, "it did not end: {seen}");
        seen
    }

    fn take(&mut self) -> Self {
        Self { child: self.child.take(), screen: self.screen.clone() }
    }
}

impl Drop for SpawnedProdigy {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }
}
