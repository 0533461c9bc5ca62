//! Starting the program of a launch, with a marker by which its processes are found.

use std::{
    borrow::Cow,
    ffi::{OsStr, OsString},
    fmt::Write as _,
    io,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::{ffi::OsStrExt as _, net::UnixStream, process::CommandExt as _},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rustix::{
    fs::{Access, access},
    io::Errno,
};

use super::{Launch, ProcessStatus};
use crate::root_dir::RootDir;

/// Where programs are looked for when the launch has no `PATH`, as `execvp` does it.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Starts the program in a process group of its own, or says why that is impossible.
///
/// There is deliberately no `pre_exec` and no lookup by the standard library: either
/// would turn `posix_spawn` into a `fork`.
pub(crate) fn spawn_launch(
    launch: &Launch,
    extra: &[(&OsStr, &OsStr)],
) -> Result<Child, ProcessStatus> {
    let program = find(launch)?;
    let name = launch.argv.first().map(OsString::as_os_str).unwrap_or_default();
    let directory = open_working_dir(launch)?;
    #[expect(clippy::disallowed_methods, reason = "this is where steps are started")]
    let mut command = Command::new(program);
    command
        .arg0(name)
        .args(launch.argv.iter().skip(1))
        .env_clear()
        .envs(launch.env.iter().map(|(name, value)| (name, value)))
        .envs(extra.iter().copied())
        .current_dir(directory.path(launch))
        .process_group(0)
        .stdin(if launch.stdin.is_empty() { Stdio::null() } else { Stdio::piped() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| cannot_start(&error, name, launch))
}

/// The directory that a program is started in: held open, so that it stays the one that was
/// looked at.
struct WorkingDir(Option<OwnedFd>);

impl WorkingDir {
    fn path<'a>(&self, launch: &'a Launch) -> Cow<'a, Path> {
        match &self.0 {
            // The child has it open under the same number until it is the program.
            Some(fd) => PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd())).into(),
            None => launch.cwd.as_path().into(),
        }
    }
}

/// Opens the directory of a launch, unless it leads out of where it has to stay.
fn open_working_dir(launch: &Launch) -> Result<WorkingDir, ProcessStatus> {
    let Some(root) = &launch.root else { return Ok(WorkingDir(None)) };
    let inside = launch.cwd.strip_prefix(root).unwrap_or(&launch.cwd);
    match RootDir::open(root).and_then(|root| root.directory(inside)) {
        Ok(fd) => Ok(WorkingDir(Some(fd))),
        Err(error) if error.is_not_found() => {
            let message = format!("the directory `{}` does not exist", launch.cwd.display());
            Err(not_started(Some(Errno::NOENT.raw_os_error()), message))
        }
        Err(error) => {
            let errno = error.io().and_then(io::Error::raw_os_error);
            Err(not_started(errno, format!("nothing was run: {error}")))
        }
    }
}

fn cannot_start(error: &io::Error, name: &OsStr, launch: &Launch) -> ProcessStatus {
    let errno = error.raw_os_error();
    if !launch.cwd.is_dir() {
        let message = format!("the directory `{}` does not exist", launch.cwd.display());
        return not_started(errno, message);
    }
    not_started(errno, format!("cannot start `{}`: {error}", name.display()))
}

/// Finds the file to execute, and says what would keep it from being started.
///
/// This is for whoever has it started by another program, which could not say it so well.
pub fn find_executable(launch: &Launch) -> Result<PathBuf, ProcessStatus> {
    let program = find(launch)?;
    let name = launch.argv.first().map(OsString::as_os_str).unwrap_or_default();
    let is_there = access(&launch.cwd, Access::EXEC_OK).and(access(&program, Access::EXEC_OK));
    is_there.map_err(|errno| cannot_start(&errno.into(), name, launch))?;
    Ok(program)
}

/// Finds the file to execute, as a shell with the launch's environment would.
fn find(launch: &Launch) -> Result<PathBuf, ProcessStatus> {
    let Some(name) = launch.argv.first() else {
        return Err(not_started(None, "there is no program to start".to_owned()));
    };
    if name.as_bytes().contains(&b'/') {
        return Ok(launch.cwd.join(name));
    }
    let path = launch.env.iter().rfind(|(name, _)| name == "PATH");
    let path = path.map_or(OsStr::new(DEFAULT_PATH), |(_, path)| path);
    let mut refused = None;
    for directory in path.as_bytes().split(|byte| *byte == b':') {
        let candidate = launch.cwd.join(OsStr::from_bytes(directory)).join(name);
        match access(&candidate, Access::EXEC_OK) {
            Ok(()) if is_file(&candidate) => return Ok(candidate),
            Err(Errno::ACCESS) if is_file(&candidate) => refused = Some(candidate),
            Ok(()) | Err(_) => {}
        }
    }
    Err(match refused {
        Some(file) => not_started(
            Some(Errno::ACCESS.raw_os_error()),
            format!("`{}` is not executable", file.display()),
        ),
        None => not_started(
            Some(Errno::NOENT.raw_os_error()),
            format!("`{}` is in no directory of PATH", name.display()),
        ),
    })
}

fn is_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file())
}

fn not_started(errno: Option<i32>, message: String) -> ProcessStatus {
    ProcessStatus::NotStarted { errno, message }
}

/// Starts `program __supervise`; returns it and our end of its socket.
pub(crate) fn spawn(
    program: &Path,
    env: Vec<(&'static str, OsString)>,
) -> io::Result<(Child, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    #[expect(clippy::disallowed_methods, reason = "this is where supervisors are started")]
    let child = Command::new(program)
        .arg("__supervise")
        .env_clear()
        .envs(env)
        .current_dir("/")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok((child, ours))
}

/// Returns a word that no other supervisor has.
pub(crate) fn new_marker() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    let mut marker = String::new();
    for byte in bytes {
        // Writing to a string does not fail.
        write!(marker, "{byte:02x}").ok();
    }
    Ok(marker)
}
