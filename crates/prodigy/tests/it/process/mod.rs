//! Steps that misbehave, run under a real supervisor: nothing of them may be left.

mod clients;
mod cost;
mod endings;
mod outputs;
mod starts;
mod streams;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use prodigy_engine::process::{Error, Launch, ProcessOutcome, StopToken, SupervisorClient};
use tempfile::TempDir;

const PRODIGY: &str = env!("CARGO_BIN_EXE_prodigy");
const LONG: Duration = Duration::from_secs(30);

/// A supervisor and a mark that every process of its launches carries.
struct SupervisorFixture {
    supervisor: SupervisorClient,
    directory: TempDir,
    mark: String,
}

impl SupervisorFixture {
    async fn new() -> Self {
        Self::with(Path::new(PRODIGY), tempfile::tempdir().unwrap()).await
    }

    /// Starts a supervisor that may write files of some blocks only.
    async fn with_file_limit(blocks: u32) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let [source, program] = ["source", "limited"].map(|name| directory.path().join(name));
        let script = format!("#!/bin/sh\nulimit -f {blocks}\nexec {PRODIGY} \"$@\"\n");
        fs::write(&source, script).unwrap();
        // Another process makes the program: were it open for writing here, a test that forks
        // at that moment would keep it open, and such a file cannot be run.
        let made = Command::new("install").args(["-m", "755"]).args([&source, &program]).status();
        assert!(made.unwrap().success());
        Self::with(&program, directory).await
    }

    async fn with(program: &Path, directory: TempDir) -> Self {
        let supervisor = SupervisorClient::start(program, Path::new("job")).await.unwrap();
        Self { supervisor, directory, mark: mark() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns a launch of a shell script with generous limits and no log.
    fn sh(&self, script: &str) -> Launch {
        sh(script, self.directory.path(), &self.mark)
    }

    async fn run(&mut self, launch: &Launch) -> ProcessOutcome {
        let ended = self.try_run(launch, &StopToken::new()).await.unwrap();
        self.assert_nothing_is_left();
        ended
    }

    async fn try_run(
        &mut self,
        launch: &Launch,
        stop: &StopToken,
    ) -> Result<ProcessOutcome, Error> {
        self.supervisor.run(launch, stop).await
    }

    #[track_caller]
    fn assert_nothing_is_left(&self) {
        assert_eq!(marked(&self.mark), [""; 0]);
    }

    /// Returns one figure of the supervisor's `/proc/PID/status`.
    fn status(&self, key: &str) -> u64 {
        let path = format!("/proc/{}/status", self.supervisor.id().unwrap());
        let status = fs::read_to_string(path).unwrap();
        let line = status.lines().find(|line| line.starts_with(key)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

fn sh(script: &str, directory: &Path, mark: &str) -> Launch {
    Launch {
        argv: ["sh", "-c", script].map(Into::into).to_vec(),
        env: vec![
            ("PATH".into(), std::env::var_os("PATH").unwrap()),
            ("TEST_MARK".into(), mark.into()),
        ],
        cwd: directory.to_owned(),
        root: None,
        stdin: Vec::new(),
        log: None,
        log_cap: 1 << 20,
        timeout: Some(LONG),
        idle_timeout: None,
        grace: Duration::from_secs(10),
        secrets: Vec::new(),
        stream: false,
    }
}

/// Returns a word that no other test has, in this run or in another.
fn mark() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    // With an end, so that none is the beginning of another.
    format!("mark-{}-{}.", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Returns the command lines of the living processes with a mark in environment or arguments.
pub(crate) fn marked(mark: &str) -> Vec<String> {
    let has = |bytes: &[u8]| bytes.windows(mark.len()).any(|window| window == mark.as_bytes());
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap() {
        let path = entry.unwrap().path();
        let read = |name: &str| fs::read(path.join(name)).unwrap_or_default();
        let is_numbered = path.file_name().unwrap().to_string_lossy().parse::<u32>().is_ok();
        let is_dead = String::from_utf8_lossy(&read("stat")).contains(") Z ");
        if is_numbered && !is_dead && (has(&read("environ")) || has(&read("cmdline"))) {
            found.push(String::from_utf8_lossy(&read("cmdline")).replace('\0', " "));
        }
    }
    found
}

/// Waits, within bounds, until something is so.
#[track_caller]
pub(crate) fn eventually(what: &str, limit: Duration, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}
