//! `prodigy doctor`.

use std::{
    env,
    ffi::OsString,
    fmt,
    fs::{self, Metadata},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use prodigy_core::workflow::AgentConfig;
use prodigy_engine::{
    git::{self, Git, Repo},
    process::{ShortCommand, run_helper},
    sandbox::Sandbox,
};
use rustix::fs::Access;
use serde::Serialize;
use serde_json::json;

use crate::{
    cli::Cli,
    commands::{context, prepare::agents::available_agents, worktree::ByteSize},
    config::{Config, repo_root},
    error::CliError,
    exit::Exit,
    render::console::Console,
    trust::{self, RepoContent},
};

/// With less than this a job can hardly finish.
const LITTLE_SPACE: u64 = 1 << 30;

/// Check that everything prodigy needs is there
///
/// Each line says `ok`, `warn` or `fail`, what was looked at, and what was found.
/// Nothing is changed. The exit code is 1 if something fails.
#[derive(clap::Args, Debug)]
pub(crate) struct DoctorArgs {
    /// Print a JSON document
    #[arg(long)]
    json: bool,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum CheckLevel {
    Ok,
    Warn,
    Fail,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct DoctorCheck {
    status: CheckLevel,
    name: &'static str,
    detail: String,
}

impl fmt::Display for CheckLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        })
    }
}

impl DoctorCheck {
    fn new(status: CheckLevel, name: &'static str, detail: impl Into<String>) -> Self {
        Self { status, name, detail: detail.into() }
    }
}

pub(super) fn run(args: &Cli, command: &DoctorArgs, out: &mut Console) -> Result<Exit, CliError> {
    let home = context::resolve_home(args)?;
    let mut checks = vec![git_program(), home_directory(&home), disk(&home)];
    checks.extend(repository());
    checks.extend([shell("sh", CheckLevel::Fail), shell("bash", CheckLevel::Warn)]);
    checks.extend(check_agents(args));
    checks.push(sandbox());
    if command.json {
        let document = json!({ "schema_version": 1, "checks": checks });
        out.raw(format!("{document:#}\n").as_bytes())?;
    } else {
        for DoctorCheck { status, name, detail } in &checks {
            out.line(format_args!("{status:<4}  {name:<10}  — {detail}"))?;
        }
    }
    let has_failed = checks.iter().any(|check| check.status == CheckLevel::Fail);
    Ok(if has_failed { Exit::Failure } else { Exit::Success })
}

fn git_program() -> DoctorCheck {
    match Git::default().version() {
        Ok(version) => DoctorCheck::new(CheckLevel::Ok, "git", version),
        Err(error) => DoctorCheck::new(CheckLevel::Fail, "git", error.to_string()),
    }
}

/// Looks at the home without making it.
fn home_directory(home: &Path) -> DoctorCheck {
    let check = |status, what: &str| {
        DoctorCheck::new(status, "home", format!("`{}` {what}", home.display()))
    };
    let metadata = match fs::metadata(home) {
        Ok(metadata) => metadata,
        Err(_) if home.symlink_metadata().is_ok() => {
            return check(CheckLevel::Fail, "is a link that leads nowhere");
        }
        Err(_) if is_writable(nearest_existing(home)) => {
            return check(CheckLevel::Ok, "is not there yet and will be made");
        }
        Err(_) => return check(CheckLevel::Fail, "is not there and cannot be made"),
    };
    match home_problem(home, &metadata) {
        Some(fault) => check(CheckLevel::Fail, fault),
        None if metadata.permissions().mode() & 0o077 != 0 => {
            check(CheckLevel::Warn, "can be read by others; `chmod 700` keeps its logs private")
        }
        None => check(CheckLevel::Ok, "is writable and private"),
    }
}

/// Returns why a home that is there cannot be used.
fn home_problem(home: &Path, metadata: &Metadata) -> Option<&'static str> {
    if !metadata.is_dir() {
        return Some("is not a directory");
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Some("belongs to somebody else");
    }
    if metadata.permissions().mode() & 0o022 != 0 {
        return Some("can be written by others, who could plant a job; `chmod 700` helps");
    }
    if !is_writable(home) {
        return Some("cannot be written");
    }
    None
}

/// Returns the nearest directory above that exists.
fn nearest_existing(path: &Path) -> &Path {
    path.ancestors().find(|above| above.is_dir()).unwrap_or(path)
}

fn is_writable(path: &Path) -> bool {
    rustix::fs::access(path, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

fn disk(home: &Path) -> DoctorCheck {
    let Ok(seen) = rustix::fs::statvfs(nearest_existing(home)) else {
        return DoctorCheck::new(
            CheckLevel::Warn,
            "disk",
            "the file system does not say what is free",
        );
    };
    let free = seen.f_bavail.saturating_mul(seen.f_frsize);
    let status = if free < LITTLE_SPACE { CheckLevel::Warn } else { CheckLevel::Ok };
    DoctorCheck::new(status, "disk", format!("{} free", ByteSize(free)))
}

/// Looks at the repository of the current directory; jobs need one, other commands do not.
fn repository() -> Vec<DoctorCheck> {
    let check = |status, detail: String| DoctorCheck::new(status, "repository", detail);
    let here = env::current_dir().unwrap_or_default();
    let repo = match Repo::discover(&here) {
        Ok(repo) => repo,
        // That is said already.
        Err(git::Error::GitMissing | git::Error::GitTooOld { .. }) => return Vec::new(),
        Err(error) => return vec![check(CheckLevel::Warn, error.to_string())],
    };
    let mut checks = Vec::new();
    let place = repo.root().display();
    match repo.head().map(|head| head.branch) {
        Ok(Some(branch)) => {
            checks.push(check(CheckLevel::Ok, format!("`{place}` on branch `{branch}`")));
        }
        Ok(None) => checks.push(check(
            CheckLevel::Warn,
            format!("`{place}` is on no branch: results cannot be merged by themselves"),
        )),
        Err(error) => checks.push(check(CheckLevel::Fail, error.to_string())),
    }
    match repo.count_uncommitted() {
        Ok(0) => {}
        Ok(count) => {
            let what = if count == 1 { "1 file is" } else { &format!("{count} files are") };
            let detail = format!("{what} not committed: jobs do not see that");
            checks.push(check(CheckLevel::Warn, detail));
        }
        Err(error) => checks.push(check(CheckLevel::Fail, error.to_string())),
    }
    checks.extend(repo.warnings().into_iter().map(|warning| check(CheckLevel::Warn, warning)));
    checks
}

fn shell(name: &'static str, missing: CheckLevel) -> DoctorCheck {
    match on_path(name) {
        Some(path) => DoctorCheck::new(CheckLevel::Ok, name, path.display().to_string()),
        None => DoctorCheck::new(missing, name, "not on the `PATH`"),
    }
}

/// Says whether steps can be kept from the rest of the machine; a workflow has to ask for it.
fn sandbox() -> DoctorCheck {
    let env: Vec<_> = env::vars_os().collect();
    match Sandbox::probe(&env) {
        Ok(program) => DoctorCheck::new(CheckLevel::Ok, "sandbox", program.display().to_string()),
        Err(error) => {
            let detail = format!("`sandbox: bubblewrap` is refused: {error}; {}", error.hint());
            DoctorCheck::new(CheckLevel::Warn, "sandbox", detail)
        }
    }
}

/// Returns where a program is.
fn on_path(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| path.is_file());
    }
    let path = env::var_os("PATH")?;
    let is_program = |path: &PathBuf| {
        let is_file = fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
        is_file && rustix::fs::access(path, Access::EXEC_OK).is_ok()
    };
    env::split_paths(&path).map(|directory| directory.join(name)).find(is_program)
}

/// The timeout of an agent's version query.
const PATIENCE: Duration = Duration::from_secs(20);

/// Says which agents are there; a workflow may need none of them.
fn check_agents(args: &Cli) -> Vec<DoctorCheck> {
    let here = env::current_dir().unwrap_or_default();
    let root = repo_root(&here);
    let config = match Config::load(args, root.as_deref()) {
        Ok(config) => config,
        Err(error) => return vec![DoctorCheck::new(CheckLevel::Fail, "agents", error.to_string())],
    };
    let mut checks = Vec::new();
    for line in root.iter().flat_map(|root| trust::lines(&RepoContent::read(root))) {
        let level = if line.starts_with("trusted") { CheckLevel::Ok } else { CheckLevel::Warn };
        checks.push(DoctorCheck::new(level, "trust", line));
    }
    let before = checks.len();
    let mut missing = Vec::new();
    for (name, agent) in available_agents(&config) {
        let Some(program) = agent.program() else {
            checks.push(DoctorCheck::new(CheckLevel::Ok, "agents", format!("{name}: built in")));
            continue;
        };
        match on_path(program) {
            Some(path) => {
                let (level, version) = version(&agent, &here);
                let detail = format!("{name}: {}{version}", path.display());
                checks.push(DoctorCheck::new(level, "agents", detail));
            }
            None if config.agents.contains_key(&name) => {
                let detail = format!("{name}: the program `{program}` is not installed");
                checks.push(DoctorCheck::new(CheckLevel::Warn, "agents", detail));
            }
            None => missing.push(name),
        }
    }
    if checks.len() == before {
        let detail = format!("none of {} found: shell steps work without", missing.join(", "));
        checks.push(DoctorCheck::new(CheckLevel::Warn, "agents", detail));
    }
    checks
}

/// Asks a program that we know for its version; others might take the question for work.
fn version(agent: &AgentConfig, here: &Path) -> (CheckLevel, String) {
    let command = match agent {
        AgentConfig::Claude(claude) => &claude.command,
        AgentConfig::Codex(codex) => &codex.command,
        AgentConfig::Command(_) | AgentConfig::Simulated(_) => {
            return (CheckLevel::Ok, String::new());
        }
    };
    let words: Vec<OsString> = command.iter().map(OsString::from).collect();
    let Some((program, args)) = words.split_first() else { return (CheckLevel::Ok, String::new()) };
    let args: Vec<OsString> = args.iter().cloned().chain(["--version".into()]).collect();
    let asked = run_helper(&ShortCommand {
        program,
        args: &args,
        cwd: here,
        env: &[("DISABLE_AUTOUPDATER".into(), Some("1".into()))],
        stdin: b"",
        timeout: PATIENCE,
    });
    match asked {
        Ok(said) if said.status == 0 => {
            let text = String::from_utf8_lossy(&said.stdout);
            let line = text.lines().next().map(str::trim).unwrap_or_default();
            let known = if line.is_empty() { "it does not say its version" } else { line };
            (CheckLevel::Ok, format!(", {known}"))
        }
        Ok(said) => (CheckLevel::Warn, format!(", `--version` exited with code {}", said.status)),
        Err(error) => (CheckLevel::Warn, format!(", its version is not known: {error}")),
    }
}
