//! Hermetic worlds for tests: a home, a repository, and a clean environment.
//!
//! Nothing of the machine leaks in: the environment is cleared, git reads no
//! configuration but ours, and every path below the world is shown as `$ROOT`.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up should fail here")]
#![expect(clippy::missing_panics_doc, reason = "everything here may panic: that fails the test")]
#![expect(clippy::disallowed_methods, reason = "tests start programs and write files directly")]

pub mod agent_package;
pub mod crash;
pub mod model;
pub mod process;
pub mod queue_conformance;

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use tempfile::TempDir;

/// One test's world: its own home, its own repository, its own environment.
#[derive(Debug)]
pub struct TestEnv {
    directory: TempDir,
    binary: PathBuf,
    env: Vec<(String, String)>,
}

impl TestEnv {
    /// Makes a world around a `prodigy` binary, with an empty home and no repository.
    ///
    /// Integration tests pass `env!("CARGO_BIN_EXE_prodigy")`.
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        process::restore_default_signals();
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("user")).unwrap();
        Self { directory, binary: binary.into(), env: Vec::new() }
    }

    /// Makes a world with a repository `repo` that has one commit on `main`.
    pub fn with_repo(binary: impl Into<PathBuf>) -> Self {
        let world = Self::new(binary);
        fs::create_dir(world.repo()).unwrap();
        world.git(&["init", "--quiet", "--initial-branch=main"]);
        world.write("README.md", "# fixture\n");
        world.commit_all("first");
        world
    }

    /// Sets a variable for every later command.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Leaves everything on disk, for a person to look at, and returns where.
    pub fn keep(self) -> PathBuf {
        self.directory.keep()
    }

    /// Returns the directory that holds everything.
    pub fn root(&self) -> &Path {
        self.directory.path()
    }

    /// Returns `PRODIGY_HOME`.
    pub fn home(&self) -> PathBuf {
        self.root().join("home")
    }

    /// Returns the repository's directory.
    pub fn repo(&self) -> PathBuf {
        self.root().join("repo")
    }

    /// Writes a file in the repository, with its directories.
    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.repo().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Reads a file of the repository.
    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.repo().join(path)).unwrap()
    }

    /// Commits everything in the repository.
    pub fn commit_all(&self, message: &str) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message", message]);
    }

    /// Runs git in the repository and returns its trimmed output.
    pub fn git(&self, args: &[&str]) -> String {
        let output = self.command("git").args(args).output().unwrap();
        assert!(
            output.status.success(),
            "git {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// Returns a command with the world's environment, in the repository if there is one.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        let directory = if self.repo().is_dir() { self.repo() } else { self.root().to_owned() };
        command
            .current_dir(directory)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.root().join("user"))
            .env("PRODIGY_HOME", self.home())
            .env("LC_ALL", "C.UTF-8")
            .env("TZ", "UTC")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_AUTHOR_NAME", "Test")
            .env("GIT_AUTHOR_EMAIL", "test@example.com")
            .env("GIT_COMMITTER_NAME", "Test")
            .env("GIT_COMMITTER_EMAIL", "test@example.com")
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        command
    }

    /// Returns the command `prodigy` with arguments, ready to be run or spawned.
    pub fn prodigy_command(&self, args: &[&str]) -> Command {
        let mut command = self.command(&self.binary);
        command.args(args);
        command
    }

    /// Runs `prodigy` with arguments and returns everything a person would see.
    #[must_use = "snapshot the output"]
    pub fn prodigy(&self, args: &[&str]) -> CommandOutput {
        self.to_output(&process::run_bounded(&mut self.prodigy_command(args)))
    }

    /// Trusts what the repository brings in, as it is now.
    pub fn trust(&self) {
        let seen = self.prodigy(&["trust"]);
        assert_eq!(seen.code, Some(0), "{seen}");
    }

    /// Returns an output as a person would see it, with the world's paths replaced.
    pub fn to_output(&self, output: &Output) -> CommandOutput {
        let root = self.root().canonicalize().unwrap();
        let text = |bytes: &[u8]| {
            String::from_utf8_lossy(bytes)
                .replace(&*root.to_string_lossy(), "$ROOT")
                .replace(&*self.root().to_string_lossy(), "$ROOT")
        };
        CommandOutput {
            code: output.status.code(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }
}

/// The exit code and the output of a run of `prodigy`.
#[derive(Clone, Debug)]
pub struct CommandOutput {
    /// The exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl fmt::Display for CommandOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.stdout)?;
        if !self.stderr.is_empty() {
            write!(f, "----- stderr -----\n{}", self.stderr)?;
        }
        match self.code {
            Some(0) => Ok(()),
            Some(code) => write!(f, "[exit {code}]"),
            None => write!(f, "[killed]"),
        }
    }
}
