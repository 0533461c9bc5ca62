//! Jobs for the tests of this module.

use std::{
    env, fmt, fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use prodigy_core::{
    Timestamp,
    event::{Event, EventRecord},
    ids::JobId,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Durability, JournalReader, JournalWriter, Layout};

/// Tells a test that it runs in a process of its own, and where.
const CHILD: &str = "PRODIGY_TEST_CHILD";

/// A home with nothing in it.
pub(crate) struct TestHome {
    pub(crate) directory: TempDir,
    pub(crate) layout: Layout,
    pub(crate) job: JobId,
}

impl TestHome {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::new(directory.path().to_owned(), "repo".parse().unwrap());
        Self { directory, layout, job: "job-1".parse().unwrap() }
    }

    /// Returns a home with a journal of one segment that holds `events`.
    pub(crate) fn with(events: Vec<Event>) -> Self {
        let home = Self::new();
        home.create().append(events, at(0)).unwrap();
        home
    }

    pub(crate) fn create(&self) -> JournalWriter {
        JournalWriter::create(&self.layout, &self.job, Durability::Full).unwrap()
    }

    pub(crate) fn records(&self) -> Vec<EventRecord> {
        JournalReader::open(&self.layout, &self.job).unwrap().map(Result::unwrap).collect()
    }

    /// Returns the files of the journal with their content, by name.
    pub(crate) fn files(&self) -> Vec<(String, Vec<u8>)> {
        files_in(&self.layout.events_dir(&self.job))
    }

    /// Returns the only segment of the journal.
    pub(crate) fn segment(&self) -> PathBuf {
        self.layout.events_dir(&self.job).join("events-20260102T030405Z.jsonl")
    }

    /// Shows an error or a path without the directory, which is different every time.
    pub(crate) fn show(&self, what: impl fmt::Display) -> String {
        what.to_string().replace(self.directory.path().to_str().unwrap(), "$HOME")
    }
}

/// Returns the files of a directory with their content, by name.
pub(crate) fn files_in(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
    let mut files: Vec<_> = entries
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

/// Returns a moment, in seconds after the first.
pub(crate) fn at(seconds: i64) -> Timestamp {
    let first: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
    Timestamp::from_second(first.as_second() + seconds).unwrap()
}

/// Returns an event with any text in it.
pub(crate) fn event(text: &str) -> Event {
    read(json!({"event_type": "step_started", "step": "1", "name": text, "attempt": 1}))
}

pub(crate) fn read(value: Value) -> Event {
    serde_json::from_value(value).unwrap()
}

/// Returns what the test of this name does in a process of its own, started by `shell`,
/// which ends with `exec "$@"`.
pub(crate) fn child(test: &str, shell: &str, directory: &TempDir) -> Command {
    #[expect(clippy::disallowed_methods, reason = "the test binary starts itself")]
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", shell, "sh"])
        .arg(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--include-ignored"])
        .env(CHILD, directory.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs the test of this name in a process of its own and checks that it passed.
pub(crate) fn run_child(test: &str, shell: &str, directory: &TempDir) {
    let Output { status, stdout, stderr } = child(test, shell, directory).output().unwrap();
    let said = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
    assert!(status.success() && said.contains("1 passed"), "{status}: {said}");
}

/// Returns the directory that the parent gave, if this is a child.
pub(crate) fn in_child() -> Option<PathBuf> {
    env::var_os(CHILD).map(PathBuf::from)
}
