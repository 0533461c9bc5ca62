//! Keeping steps from the rest of the machine, with bubblewrap.
//!
//! A step that runs in the sandbox sees the whole file system, read-only, without the places
//! where secrets usually are. It can write to its worktree and to the files that a commit needs.
//! The step runs in its own PID namespace: it cannot see or kill processes outside, and when
//! its first process exits, the kernel kills the rest.

mod agent_home;
mod hidden_paths;
mod mounts;

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    time::Duration,
};

use prodigy_core::{diagnostic::Span, workflow::SandboxConfig};

use crate::{
    git::CommitPaths,
    process::{self, Launch, ProcessStatus, ShortCommand, run_helper},
};
use mounts::MountTable;

pub use agent_home::{AgentHome, sessions_dir};

/// The options of `bwrap` that every sandbox has.
///
/// Without capabilities the file system stays read-only even for root. Killing the program
/// kills everything in the sandbox.
const NAMESPACES: &[&str] = &[
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--cap-drop",
    "ALL",
    "--die-with-parent",
    "--new-session",
];

/// The timeout of the trial that shows if a sandbox can be created.
const TRIAL: Duration = Duration::from_secs(20);

/// Variables that lead to programs outside that would act for the step.
const REMOVED: &[&str] = &["DBUS_SESSION_BUS_ADDRESS", "GPG_AGENT_INFO", "SSH_AUTH_SOCK"];

/// A sandbox that can be made on this machine.
#[derive(Clone, Debug)]
pub struct Sandbox {
    program: PathBuf,
    network: bool,
    write: Vec<PathBuf>,
    read: Vec<PathBuf>,
}

/// The reason that no sandbox can be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SandboxError {
    /// The program is missing.
    #[error("the sandbox needs `bwrap`, which is not on the `PATH`")]
    Missing,
    /// The kernel does not let us.
    #[error("`bwrap` cannot make a sandbox on this machine: {said}")]
    Refused {
        /// The message of `bwrap`.
        said: String,
    },
    /// A path of the workflow is not there.
    #[error("`sandbox` names `{path}` under `{key}`, which does not exist")]
    NoSuchPath {
        /// The key.
        key: &'static str,
        /// The path, as written.
        path: String,
    },
    /// A path of the workflow holds the settings of the kernel.
    #[error("`sandbox` names `{path}` under `{key}`: that would open the kernel's own files")]
    KernelPath {
        /// The key.
        key: &'static str,
        /// The path, as written.
        path: String,
    },
}

impl SandboxError {
    /// Returns what the person could do next.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Missing => "install the package `bubblewrap` (`apt-get install bubblewrap`)",
            Self::Refused { .. } => {
                "it needs user namespaces: see `sysctl kernel.unprivileged_userns_clone user.max_user_namespaces kernel.apparmor_restrict_unprivileged_userns`"
            }
            Self::NoSuchPath { .. } => "make it, or take it out of the list",
            Self::KernelPath { .. } => "name the directories that the steps need, one by one",
        }
    }
}

/// The paths that a step needs to reach, besides those of every step.
pub struct SandboxAccess<'a> {
    /// The user's checkout.
    pub checkout: &'a Path,
    /// The directory that all its worktrees share.
    pub common: &'a Path,
    /// The step's worktree.
    pub worktree: &'a Path,
    /// The paths that a commit in it writes.
    pub commit: &'a CommitPaths,
    /// Where its temporary files and its result go.
    pub temporary: &'a Path,
    /// An empty file, to show in the place of files with secrets.
    pub empty: &'a Path,
    /// Where prodigy keeps everything; the step does not see it.
    pub home: &'a Path,
    /// This program, which the simulated agent is.
    pub prodigy: &'a Path,
    /// The directories of the agent programs; hidden from all other steps.
    pub agents: &'a [PathBuf],
    /// Which of them the step is, if it is one that keeps something.
    pub own: Option<AgentHome>,
    /// Set if it may write nothing but temporary files.
    pub is_read_only: bool,
}

impl Sandbox {
    /// Makes a sandbox as it is without any settings, to see whether that is possible.
    pub fn probe(env: &[(OsString, OsString)]) -> Result<PathBuf, SandboxError> {
        let config = SandboxConfig {
            without_network: Some(Span::default()),
            write: Vec::new(),
            read: Vec::new(),
        };
        Self::detect(&config, Path::new("/"), env).map(|sandbox| sandbox.program)
    }

    /// Finds the program that makes sandboxes, and makes one to see that it can.
    pub fn detect(
        config: &SandboxConfig,
        checkout: &Path,
        env: &[(OsString, OsString)],
    ) -> Result<Self, SandboxError> {
        let home = variable(env, "HOME").map(PathBuf::from);
        let resolved = |key: &'static str, paths: &[String]| {
            let resolve = |path: &String| {
                let found = expanded(path, home.as_deref(), checkout).canonicalize();
                let found =
                    found.map_err(|_| SandboxError::NoSuchPath { key, path: path.clone() })?;
                if exposes_kernel_fs(&found) {
                    return Err(SandboxError::KernelPath { key, path: path.clone() });
                }
                Ok(found)
            };
            paths.iter().map(resolve).collect::<Result<Vec<_>, _>>()
        };
        let (write, read) = (resolved("write", &config.write)?, resolved("read", &config.read)?);
        let path = variable(env, "PATH").unwrap_or_default();
        let program = std::env::split_paths(&path)
            .map(|directory| directory.join(process::SANDBOX))
            .find(|file| file.is_file())
            .ok_or(SandboxError::Missing)?;
        let sandbox = Self { program, network: config.without_network.is_none(), write, read };
        sandbox.try_out()?;
        Ok(sandbox)
    }

    /// Makes a sandbox in which nothing happens.
    fn try_out(&self) -> Result<(), SandboxError> {
        let mut args = self.beginning();
        args.extend(["--", "true"].map(OsString::from));
        let refused = |said: String| SandboxError::Refused { said };
        let trial = ShortCommand {
            program: self.program.as_os_str(),
            args: &args,
            cwd: Path::new("/"),
            env: &[],
            stdin: &[],
            timeout: TRIAL,
        };
        let output = run_helper(&trial).map_err(|error| refused(error.to_string()))?;
        if output.status == 0 {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().next().unwrap_or_default();
        Err(refused(said.strip_prefix("bwrap: ").unwrap_or(said).to_owned()))
    }

    /// Returns the arguments that all sandboxes have.
    fn beginning(&self) -> Vec<OsString> {
        let mut args: Vec<OsString> = NAMESPACES.iter().map(OsString::from).collect();
        if !self.network {
            args.push("--unshare-net".into());
        }
        args.extend(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"].map(Into::into));
        // `/proc/sys` has the settings of the whole machine, and root may write them whatever its
        // number is inside.
        args.extend(["--remount-ro", "/proc"].map(Into::into));
        args
    }

    /// Puts a launch into a sandbox, or says why its program cannot be started.
    pub fn wrap(
        &self,
        mut launch: Launch,
        needs: &SandboxAccess<'_>,
    ) -> Result<Launch, ProcessStatus> {
        // In the sandbox nobody could tell that it is the program which is missing.
        let program = process::find_executable(&launch)?;
        let mut view = MountTable::default();
        hidden_paths::hide_secrets(&mut view, &launch.env, needs);
        agent_home::hide_agent_homes(&mut view, &launch.env, needs.agents);
        view.read(needs.checkout);
        view.read(needs.common);
        view.read(needs.prodigy);
        view.read(&program);
        let lent = if needs.is_read_only { MountTable::read } else { MountTable::write };
        lent(&mut view, needs.worktree);
        view.write(needs.temporary);
        for path in &needs.commit.write {
            lent(&mut view, path);
        }
        for path in &needs.commit.keep {
            view.read(path);
        }
        if let Some(own) = &needs.own {
            agent_home::mount_agent_home(&mut view, &launch.env, own);
        }
        for path in &self.read {
            view.read(path);
        }
        for path in &self.write {
            lent(&mut view, path);
        }
        let mut argv = vec![self.program.clone().into_os_string()];
        argv.extend(self.beginning());
        argv.extend(view.bwrap_args(needs.empty));
        argv.extend(["--chdir".into(), launch.cwd.clone().into_os_string(), "--".into()]);
        argv.push(program.into_os_string());
        argv.extend(launch.argv.into_iter().skip(1));
        launch.argv = argv;
        launch.env.retain(|(name, value)| {
            !REMOVED.iter().any(|removed| name == removed) || view.contains(Path::new(value))
        });
        for (name, value) in &mut launch.env {
            if name == "TMPDIR" {
                *value = "/tmp".into();
            }
        }
        Ok(launch)
    }
}

/// Returns whether a path is, holds or is below a file system of the kernel.
fn exposes_kernel_fs(path: &Path) -> bool {
    ["/proc", "/sys"].iter().any(|kernel| {
        let kernel = Path::new(kernel);
        path.starts_with(kernel) || kernel.starts_with(path)
    })
}

/// Returns a variable of an environment.
fn variable<'e>(env: &'e [(OsString, OsString)], name: &str) -> Option<&'e OsStr> {
    let value = env.iter().rfind(|(have, _)| have == name).map(|(_, value)| value.as_os_str());
    value.filter(|value| !value.is_empty())
}

/// Returns the path that an author means.
fn expanded(path: &str, home: Option<&Path>, checkout: &Path) -> PathBuf {
    match (path.strip_prefix('~'), home) {
        (Some(""), Some(home)) => home.to_owned(),
        (Some(rest), Some(home)) if rest.starts_with('/') => {
            home.join(rest.trim_start_matches('/'))
        }
        (Some(_) | None, _) => checkout.join(path),
    }
}
