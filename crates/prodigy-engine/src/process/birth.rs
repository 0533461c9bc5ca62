//! Spawning of a supervisor.

use std::{
    ffi::OsString,
    fmt::Write as _,
    io,
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::Path,
    process::{Child, Command, Stdio},
};

/// Starts `program __supervise`; returns it and our end of its socket.
pub(super) fn spawn(
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
pub(super) fn new_marker() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    let mut marker = String::new();
    for byte in bytes {
        // Writing to a string does not fail.
        write!(marker, "{byte:02x}").ok();
    }
    Ok(marker)
}
