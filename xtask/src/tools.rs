//! Programs that the tests need and that a machine may lack.

use std::process::{Command, Stdio};

use prodigy_testkit::agent_package::AgentPackage;

use crate::{
    error::Error,
    program::{print_note, run as run_program},
};

/// Downloads and checks a package. Python does it: it is there, and needs no crates for the web.
const FETCH: &str = include_str!("fetch.py");

/// Get the programs that the tests need
///
/// OpenSSH and bubblewrap are installed if they are missing; the agents that tests run, Claude Code and Codex,
/// are downloaded into `target/agents`, at fixed versions. `cargo xtask test` does this first.
#[derive(clap::Args, Debug)]
pub(crate) struct ToolsArgs {}

pub(crate) fn run(_: &ToolsArgs) -> Result<(), Error> {
    provide()
}

/// Makes sure that every program that the tests need is there.
pub(crate) fn provide() -> Result<(), Error> {
    // It has no way to say its version, so that it can be started has to do.
    provide_package("ssh-keygen", "-?", "openssh-client")?;
    provide_package("bwrap", "--version", "bubblewrap")?;
    [AgentPackage::claude(), AgentPackage::codex()].iter().try_for_each(provide_agent)
}

/// Makes sure that an agent is there, at the version that the tests are written for.
fn provide_agent(package: &AgentPackage) -> Result<(), Error> {
    let AgentPackage { name, version, url, .. } = package;
    if package.program().is_file() {
        return Ok(());
    }
    let Some(integrity) = package.integrity else {
        return Err(Error::NoAgent { name, url: url.clone() });
    };
    print_note(format_args!("downloading {name} {version} …"));
    let mut fetch = Command::new("python3");
    fetch.args(["-c", FETCH, name, url, integrity]).arg(package.directory());
    run_program(&mut fetch)
}

/// Makes sure that a program can be started: if not, its Debian package is installed.
///
/// Where that is not possible, the error of the package manager says what is missing.
fn provide_package(program: &str, argument: &str, package: &str) -> Result<(), Error> {
    let found = Command::new(program)
        .arg(argument)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if found.is_ok() {
        return Ok(());
    }
    print_note(format_args!("`{program}` is missing; installing the package `{package}`"));
    run_program(apt(&["update", "--quiet"]).env("DEBIAN_FRONTEND", "noninteractive"))?;
    let install = ["install", "--yes", "--no-install-recommends", package];
    run_program(apt(&install).env("DEBIAN_FRONTEND", "noninteractive"))
}

fn apt(args: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command.args(args);
    command
}
