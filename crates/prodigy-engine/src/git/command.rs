//! One call of git: its arguments, its environment, its answer.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    Error, disk_error,
    in_flight::{InFlightDir, InFlightRecord},
    locks,
};
use crate::{
    clock,
    process::{self, Coprocess, ShortCommand, ShortCommandOutput, run_helper},
};

/// The oldest git that has `merge-tree --write-tree`.
const OLDEST: (u32, u32) = (2, 38);

/// The longest one call may take: a checkout of a very large repository on a slow disk.
const TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// Settings that keep a repository's own code from running, and git from prompting
/// or tidying up behind our back.
///
/// `core.sshCommand` is not emptied: a partial clone fetches what it lacks.
const SETTINGS: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "core.sshCommand=ssh",
    "core.gitProxy=",
    "core.askPass=",
    "core.editor=true",
    "core.pager=cat",
    "core.alternateRefsCommand=",
    "protocol.ext.allow=never",
    "commit.gpgSign=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "core.safecrlf=false",
    "advice.detachedHead=false",
];

/// Settings for calls whose result is recorded: git does not sync anything by itself.
const DURABLE: &[&str] = &["core.fsync=committed,reference", "core.fsyncMethod=batch"];

/// The `GIT_*` variables of the caller that are kept: who they are and where their git is.
const KEPT: &[&str] = &[
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CEILING_DIRECTORIES",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
    "GIT_EXEC_PATH",
];

/// The variable of calls that only read.
const READS: &str = "GIT_OPTIONAL_LOCKS";

/// The exit code that 128 and more stand for a signal after; git itself ends with 128 and 129.
const KILLED: i32 = 129;

/// The git program and the environment it runs in.
#[derive(Clone, Debug)]
pub struct Git {
    program: OsString,
    env: Vec<(OsString, Option<OsString>)>,
    in_flight: Option<InFlightDir>,
}

/// Which working tree a call is about.
///
/// All three are given to git by name, so that a `.git` file or a `commondir`
/// that an agent rewrote leads nowhere.
#[derive(Clone, Debug)]
pub(crate) struct GitDirs {
    /// The directory of the working tree's own state.
    pub(crate) git_dir: PathBuf,
    /// The directory that all working trees share.
    pub(crate) common_dir: PathBuf,
    /// The files.
    pub(crate) work_tree: PathBuf,
}

/// One call of git that is being put together.
pub(crate) struct GitCommand<'a> {
    git: &'a Git,
    cwd: &'a Path,
    place: Option<&'a GitDirs>,
    index: Option<&'a Path>,
    settings: Vec<&'static str>,
    args: Vec<OsString>,
    env: Vec<(&'static str, OsString)>,
    stdin: Vec<u8>,
    also: &'static [i32],
    timeout: Duration,
}

impl Default for Git {
    fn default() -> Self {
        Self::with_env(Vec::new())
    }
}

impl Git {
    /// Returns git as found on the `PATH`, with changes to the process's own environment.
    ///
    /// A change wins over everything else, `None` removes a variable.
    pub fn with_env(changes: Vec<(OsString, Option<OsString>)>) -> Self {
        let mut env: Vec<(OsString, Option<OsString>)> = std::env::vars_os()
            .map(|(name, _)| name)
            .filter(|name| name.as_bytes().starts_with(b"GIT_"))
            .filter(|name| !KEPT.iter().any(|kept| name == kept))
            .map(|name| (name, None))
            .collect();
        let fixed = [
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_EDITOR", "true"),
            ("LC_ALL", "C"),
            // A step can plant other objects in the place of those that we look at.
            ("GIT_NO_REPLACE_OBJECTS", "1"),
        ];
        env.extend(fixed.map(|(name, value)| (name.into(), Some(value.into()))));
        env.extend(changes);
        Self { program: "git".into(), env, in_flight: None }
    }

    /// Uses another program than the `git` on the `PATH`.
    #[must_use]
    pub fn program(mut self, program: impl Into<OsString>) -> Self {
        self.program = program.into();
        self
    }

    /// Sets a variable for every call.
    pub(crate) fn set_env(&mut self, name: &str, value: OsString) {
        self.env.push((name.into(), Some(value)));
    }

    /// Records every call that is under way.
    pub(crate) fn set_in_flight_dir(&mut self, in_flight: InFlightDir) {
        self.in_flight = Some(in_flight);
    }

    /// Records that something which may take git's locks is about to start.
    pub(crate) fn record_start(&self) -> Option<InFlightRecord> {
        self.in_flight.as_ref().and_then(InFlightDir::record_start)
    }

    /// Returns git's version, or why that git cannot be used.
    pub fn version(&self) -> Result<String, Error> {
        let text = self.command(Path::new("/"), &["version"]).run_text()?;
        let version = text.strip_prefix("git version ").unwrap_or(&text).trim();
        let version = version.split(' ').next().unwrap_or_default();
        let mut numbers = version.split('.').map(str::parse::<u32>);
        let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
            return Err(Error::Unexpected { command: "version".to_owned() });
        };
        if (major, minor) < OLDEST {
            return Err(Error::GitTooOld { found: version.to_owned() });
        }
        Ok(version.to_owned())
    }

    /// Starts a call that finds its repository by itself.
    pub(crate) fn command<'a>(&'a self, cwd: &'a Path, args: &[&str]) -> GitCommand<'a> {
        GitCommand {
            git: self,
            cwd,
            place: None,
            index: None,
            settings: Vec::new(),
            args: args.iter().map(Into::into).collect(),
            env: Vec::new(),
            stdin: Vec::new(),
            also: &[],
            timeout: TIMEOUT,
        }
    }

    /// Starts a call about one working tree.
    pub(crate) fn command_in<'a>(&'a self, place: &'a GitDirs, args: &[&str]) -> GitCommand<'a> {
        GitCommand { place: Some(place), ..self.command(&place.work_tree, args) }
    }
}

impl<'a> GitCommand<'a> {
    /// Adds arguments.
    pub(crate) fn args<T: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = T>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Uses another index than the working tree's own.
    pub(crate) fn index(mut self, index: &'a Path) -> Self {
        self.index = Some(index);
        self
    }

    /// Makes sure that what the call writes survives a loss of power.
    pub(crate) fn durable(self) -> Self {
        self.settings(DURABLE)
    }

    /// Adds settings, which win over those of the repository.
    pub(crate) fn settings(mut self, settings: &[&'static str]) -> Self {
        self.settings.extend(settings);
        self
    }

    /// Says that the call only reads, so that it takes no locks.
    pub(crate) fn read_only(self) -> Self {
        self.env(READS, "0")
    }

    /// Sets a variable.
    pub(crate) fn env(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.env.push((name, value.into()));
        self
    }

    /// Gives the call something to read.
    pub(crate) fn stdin(mut self, stdin: impl Into<Vec<u8>>) -> Self {
        self.stdin = stdin.into();
        self
    }

    /// Lets the call take no longer than this.
    pub(crate) fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Accepts other exit codes than 0 as answers.
    pub(crate) fn accept_codes(mut self, also: &'static [i32]) -> Self {
        self.also = also;
        self
    }

    /// Makes the call.
    pub(crate) fn run(self) -> Result<ShortCommandOutput, Error> {
        let (also, place, began) = (self.also, self.place, clock::now());
        let reads = self.env.iter().any(|(name, _)| *name == READS);
        let _record = if reads { None } else { self.git.record_start() };
        let ended = self.with(run_helper);
        let was_killed = match &ended {
            Ok((_, output)) => output.status > KILLED,
            Err(error) => matches!(error, Error::Run { .. }),
        };
        if let Some(place) = place.filter(|_| was_killed && !reads) {
            // What it leaves would be in the way of every other git.
            locks::remove_stale(place, |lock| lock.created_since(began.into()))?;
        }
        let (command, output) = ended?;
        if output.status != 0 && !also.contains(&output.status) {
            let lock = blocking_lock(&output.stderr);
            let message = first_line(&output.stderr);
            let message = disk_error::with_cause(message, &output.stderr, self.paths());
            return Err(Error::Failed { command, status: output.status, message, lock });
        }
        Ok(output)
    }

    /// Starts a call that stays and answers line by line.
    pub(crate) fn spawn_coprocess(self) -> Result<Coprocess, Error> {
        self.with(Coprocess::start).map(|(_, duplex)| duplex)
    }

    /// Returns the places that the call may write to.
    fn paths(&self) -> impl Iterator<Item = &Path> {
        let named = self.args.iter().map(Path::new).filter(|path| path.is_absolute());
        let work_tree = self.place.map(|place| place.work_tree.as_path());
        named.chain(work_tree).chain([self.cwd])
    }

    /// Hands the call to what runs it; returns the subcommand with the result.
    fn with<T>(
        &self,
        run: impl FnOnce(&ShortCommand<'_>) -> Result<T, process::Error>,
    ) -> Result<(String, T), Error> {
        let command = self.args.first().map(|arg| arg.to_string_lossy().into_owned());
        let command = command.unwrap_or_default();
        let mut args: Vec<OsString> = Vec::new();
        for setting in SETTINGS.iter().chain(&self.settings) {
            args.push("-c".into());
            args.push(setting.into());
        }
        args.extend_from_slice(&self.args);
        let mut env = self.git.env.clone();
        let mut set = |name: &str, value: &OsStr| env.push((name.into(), Some(value.into())));
        if let Some(place) = self.place {
            set("GIT_DIR", place.git_dir.as_os_str());
            set("GIT_WORK_TREE", place.work_tree.as_os_str());
            if place.git_dir != place.common_dir {
                set("GIT_COMMON_DIR", place.common_dir.as_os_str());
            }
        }
        if let Some(index) = self.index {
            set("GIT_INDEX_FILE", index.as_os_str());
        }
        for (name, value) in &self.env {
            set(name, value);
        }
        let result = run(&ShortCommand {
            program: &self.git.program,
            args: &args,
            cwd: self.cwd,
            env: &env,
            stdin: &self.stdin,
            timeout: self.timeout,
        });
        match result {
            Ok(result) => Ok((command, result)),
            Err(process::Error::Start { source, .. })
                if source.kind() == io::ErrorKind::NotFound && self.cwd.is_dir() =>
            {
                Err(Error::GitMissing)
            }
            Err(source) => Err(Error::Run { command, source }),
        }
    }

    /// Makes the call and returns what it printed, without the last line's end.
    pub(crate) fn run_text(self) -> Result<String, Error> {
        let output = self.run()?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned())
    }

    /// Makes the call and returns the fields it printed, each ended by a NUL byte.
    pub(crate) fn run_fields(self) -> Result<Vec<Vec<u8>>, Error> {
        Ok(split_fields(&self.run()?.stdout))
    }
}

/// Splits what a call with `-z` printed.
pub(crate) fn split_fields(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut fields: Vec<_> = bytes.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
    if fields.last().is_some_and(Vec::is_empty) {
        fields.pop();
    }
    fields
}

/// Returns the bytes of a path as the text that people see.
pub(crate) fn display_path(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

/// Returns the line of git's complaint that says what is wrong.
fn first_line(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let wanted = |line: &&str| line.starts_with("fatal: ") || line.starts_with("error: ");
    let line = text.lines().find(wanted).or_else(|| text.lines().next()).unwrap_or_default();
    let line = line.trim_start_matches("fatal: ").trim_start_matches("error: ");
    if line.is_empty() { "it gave no reason".to_owned() } else { line.to_owned() }
}

/// Returns the lock file that git complained of.
fn blocking_lock(stderr: &[u8]) -> Option<PathBuf> {
    let text = String::from_utf8_lossy(stderr);
    let named = |line: &str| -> Option<PathBuf> {
        let (start, _) = line.split_once(": File exists")?;
        if let Some((_, path)) = start.split_once("Unable to create '") {
            return Some(PathBuf::from(path.strip_suffix('\'')?));
        }
        let (_, path) = start.split_once("could not lock config file ")?;
        Some(PathBuf::from(format!("{path}.lock")))
    };
    text.lines().find_map(named)
}
