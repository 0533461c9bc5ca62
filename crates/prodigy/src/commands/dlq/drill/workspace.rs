//! Where a rehearsal takes place: a repository, a home and a world outside, all of its own.

use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use prodigy_engine::store;
use serde_json::Value;
use tempfile::TempDir;

use super::fixtures::ITEM;
use crate::{error::CliError, exit::Exit};

/// The most time for one command.
const PATIENCE: Duration = Duration::from_secs(120);
/// The time between two looks at a command.
const PAUSE: Duration = Duration::from_millis(10);
/// The job that is rehearsed with.
pub(crate) const JOB: &str = "drill";

/// Where a rehearsal takes place.
pub(crate) struct DrillWorkspace {
    place: TempDir,
    program: PathBuf,
    runs: u32,
}

/// A command that was started.
pub(crate) struct DrillProcess {
    child: Child,
    printed: PathBuf,
}

/// The exit code and the output of a command.
#[derive(Debug)]
pub(crate) struct DrillOutput {
    /// Its exit code; a signal is 128 plus its number.
    pub(crate) code: i32,
    /// All that it printed, both streams together.
    pub(crate) text: String,
}

impl DrillWorkspace {
    /// Makes a repository with one commit, an empty home, and an empty world outside.
    pub(crate) fn new() -> Result<Self, CliError> {
        let place =
            tempfile::Builder::new().prefix("prodigy-drill-").tempdir().map_err(drill_error)?;
        let program = std::env::current_exe().map_err(drill_error)?;
        let stage = Self { place, program, runs: 0 };
        for directory in ["repo/.prodigy", "outside"] {
            fs::create_dir_all(stage.place.path().join(directory)).map_err(drill_error)?;
        }
        stage.git(&["init", "--quiet", "--initial-branch=main"])?;
        stage.write("readme.md", "A rehearsal.\n")?;
        stage.commit()?;
        Ok(stage)
    }

    /// Keeps everything, and returns where it is.
    pub(crate) fn keep(self) -> PathBuf {
        self.place.keep()
    }

    /// Returns the program that is rehearsed.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// Returns the home that the program uses.
    pub(crate) fn home(&self) -> PathBuf {
        self.place.path().join("home")
    }

    /// Returns a file of the world outside.
    pub(crate) fn outside_file(&self, name: &str) -> PathBuf {
        self.place.path().join("outside").join(name)
    }

    /// Writes a file of the repository.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<(), CliError> {
        write_file(&self.place.path().join("repo").join(name), text)
    }

    /// Makes a file in the world outside.
    pub(crate) fn touch_outside(&self, name: &str) -> Result<(), CliError> {
        write_file(&self.outside_file(name), "")
    }

    /// Commits everything in the repository.
    pub(crate) fn commit(&self) -> Result<(), CliError> {
        self.git(&["add", "--all"])?;
        self.git(&["commit", "--quiet", "--message", "Set the scene"])
    }

    fn git(&self, args: &[&str]) -> Result<(), CliError> {
        let seen = wait_for_exit(self.spawn("git".into(), args, "ann", "git")?)?;
        if seen.code == 0 {
            return Ok(());
        }
        let message = format!("git {} failed: {}", args.join(" "), seen.text.trim());
        Err(CliError::new(Exit::Failure, message))
    }

    /// Runs prodigy as somebody and waits for its end.
    pub(crate) fn prodigy(&mut self, who: &str, args: &[&str]) -> Result<DrillOutput, CliError> {
        wait_for_exit(self.start(who, args)?)
    }

    /// Starts prodigy as somebody. Its steps can find its number, to end it.
    pub(crate) fn start(&mut self, who: &str, args: &[&str]) -> Result<DrillProcess, CliError> {
        self.runs += 1;
        let name = format!("run-{}", self.runs);
        let started = self.spawn(self.program.clone().into(), args, who, &name)?;
        write_file(&self.outside_file("pid"), &started.child.id().to_string())?;
        Ok(started)
    }

    /// Starts a program in the repository, in an environment that says nothing of the caller.
    #[expect(
        clippy::disallowed_methods,
        reason = "what is rehearsed is prodigy itself, as somebody would start it; it is bounded"
    )]
    fn spawn(
        &self,
        program: OsString,
        args: &[&str],
        who: &str,
        name: &str,
    ) -> Result<DrillProcess, CliError> {
        let root = self.place.path();
        let printed = root.join(name);
        let file = File::create(&printed).map_err(drill_error)?;
        let own = root.join("people").join(who);
        fs::create_dir_all(&own).map_err(drill_error)?;
        let person = format!("[user]\n\tname = {who}\n\temail = {who}@example.com\n");
        write_file(&own.join(".gitconfig"), &person)?;
        let child = Command::new(program)
            .args(args)
            .current_dir(root.join("repo"))
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .env("HOME", own)
            .env("PRODIGY_HOME", root.join("home"))
            .env("DRILL", root.join("outside"))
            .env("USER", who)
            .env("NO_COLOR", "1")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .stdin(Stdio::null())
            .stdout(file.try_clone().map_err(drill_error)?)
            .stderr(file)
            .spawn()
            .map_err(drill_error)?;
        Ok(DrillProcess { child, printed })
    }

    /// Returns how often the world outside was changed.
    pub(crate) fn effects(&self) -> Result<usize, CliError> {
        match fs::read_to_string(self.outside_file("effects")) {
            Ok(text) => Ok(text.lines().count()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(drill_error(error)),
        }
    }

    /// Returns a field of the item's entry, as text.
    pub(crate) fn entry(&mut self, field: &str) -> Result<String, CliError> {
        let seen = self.prodigy("ann", &["dlq", "show", JOB, ITEM, "--json"])?;
        let document: Value = serde_json::from_str(&seen.text).map_err(|error| {
            let message = format!("`dlq show` printed no JSON: {error}: {}", seen.text.trim());
            CliError::new(Exit::Failure, message)
        })?;
        let entry = document.get("entry").unwrap_or(&document);
        Ok(text(entry.get(field).unwrap_or(&Value::Null)))
    }

    /// Returns what a document that prodigy prints says under a name, wherever it stands.
    pub(crate) fn query_field(&mut self, args: &[&str], name: &str) -> Result<String, CliError> {
        let seen = self.prodigy("ann", args)?;
        let document: Value = serde_json::from_str(&seen.text).unwrap_or_default();
        Ok(find_field(&document, name).map(text).unwrap_or_default())
    }

    /// Returns how often the audit trail holds an action with an outcome.
    pub(crate) fn count_audit_records(
        &self,
        action: &str,
        outcome: &str,
    ) -> Result<usize, CliError> {
        let records = self.audit()?;
        let holds = |record: &&Value| {
            let is = |name, wanted: &str| record.get(name).map(text).as_deref() == Some(wanted);
            is("action", action) && is("outcome", outcome)
        };
        Ok(records.iter().filter(holds).count())
    }

    fn audit(&self) -> Result<Vec<Value>, CliError> {
        let text = fs::read_to_string(self.audit_file()?).map_err(drill_error)?;
        Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    /// Returns the file of the audit trail.
    pub(crate) fn audit_file(&self) -> Result<PathBuf, CliError> {
        let directory = self.place.path().join("home/audit");
        let entries = fs::read_dir(&directory).map_err(drill_error)?;
        let mut repositories = entries.flatten().map(|entry| entry.path().join("audit.jsonl"));
        repositories.find(|path| path.is_file()).ok_or_else(|| {
            CliError::new(Exit::Failure, "there is no audit trail after a replay was decided over")
        })
    }
}

/// Waits for the end of a command, and ends it if it takes too long.
pub(crate) fn wait_for_exit(mut started: DrillProcess) -> Result<DrillOutput, CliError> {
    use std::os::unix::process::ExitStatusExt as _;
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = started.child.try_wait().map_err(drill_error)? {
            break status;
        }
        if begun.elapsed() > PATIENCE {
            started.child.kill().map_err(drill_error)?;
            started.child.wait().map_err(drill_error)?;
            return Err(CliError::new(Exit::Failure, "a command of the rehearsal took too long"));
        }
        poll_delay();
    };
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    let text = fs::read(&started.printed).map_err(drill_error)?;
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok(DrillOutput { code: code.unwrap_or(-1), text })
}

/// Waits a moment.
#[expect(clippy::disallowed_methods, reason = "another process is waited for in real time")]
pub(crate) fn poll_delay() {
    thread::sleep(PAUSE);
}

/// Returns the value of the first field of that name.
fn find_field<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Object(fields) => {
            fields.get(name).or_else(|| fields.values().find_map(|value| find_field(value, name)))
        }
        Value::Array(values) => values.iter().find_map(|value| find_field(value, name)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// Returns a value as people write it.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn write_file(path: &Path, text: &str) -> Result<(), CliError> {
    store::write_atomic(path, text.as_bytes())
        .map_err(|error| CliError::new(Exit::Failure, error.to_string()))
}

fn drill_error(error: io::Error) -> CliError {
    CliError::new(Exit::Failure, "the rehearsal cannot be set up").with_source(error)
}
