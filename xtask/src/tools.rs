//! Programs that the tests need and that a machine may lack.

use std::process::{Command, Stdio};

use crate::{
    error::Error,
    program::{note, run},
};

/// Makes sure that signatures can be made: without `ssh-keygen` its Debian package is installed.
///
/// Where that is not possible, the error of the package manager says what is missing.
pub(crate) fn provide() -> Result<(), Error> {
    let found = Command::new("ssh-keygen")
        .arg("-?")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    // It has no way to say its version, so that it can be started has to do.
    if found.is_ok() {
        return Ok(());
    }
    note("`ssh-keygen` is missing; installing the package `openssh-client`");
    run(apt(&["update", "--quiet"]).env("DEBIAN_FRONTEND", "noninteractive"))?;
    let install = ["install", "--yes", "--no-install-recommends", "openssh-client"];
    run(apt(&install).env("DEBIAN_FRONTEND", "noninteractive"))
}

fn apt(args: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command.args(args);
    command
}
