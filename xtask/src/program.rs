//! Starting programs for a chore, and talking to the person who asked for it.

use std::{
    fmt,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::error::Error;

/// Returns the root of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Returns `cargo`, ready for arguments, in the root of the workspace.
pub(crate) fn cargo(args: &[&str]) -> Command {
    // Cargo sets `CARGO` for the programs it runs, so the same toolchain goes on.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(args).current_dir(root());
    command
}

/// Runs a command to its end, its output shown as it comes.
pub(crate) fn run(command: &mut Command) -> Result<(), Error> {
    let shown = display_command(command);
    let status =
        command.status().map_err(|source| Error::Start { program: program(command), source })?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Failed { command: shown, status: status.to_string(), stderr: String::new() })
}

/// Runs a command to its end and returns what it printed.
pub(crate) fn read(command: &mut Command) -> Result<String, Error> {
    let shown = display_command(command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|source| Error::Start { program: program(command), source })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(Error::Failed {
        command: shown,
        status: output.status.to_string(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// Builds `prodigy` and returns where it is.
pub(crate) fn prodigy(release: bool) -> Result<PathBuf, Error> {
    let mut args = vec!["build", "--quiet", "--package", "prodigy", "--bin", "prodigy"];
    if release {
        args.push("--release");
    }
    run(&mut cargo(&args))?;
    Ok(binary_path(release))
}

/// Returns where `prodigy` is once it is built.
pub(crate) fn binary_path(release: bool) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), |target| root().join(target));
    target.join(if release { "release" } else { "debug" }).join("prodigy")
}

/// Returns the binary that was asked for, or builds one.
pub(crate) fn binary_or_build(binary: Option<&Path>, release: bool) -> Result<PathBuf, Error> {
    match binary {
        // Worlds run it elsewhere, so the path must not depend on where we are.
        Some(path) => {
            path.canonicalize().map_err(|source| Error::File { path: path.to_owned(), source })
        }
        None => prodigy(release),
    }
}

/// Says something to the person at the terminal.
pub(crate) fn print_note(text: impl fmt::Display) {
    // A terminal that went away must not stop the chore.
    writeln!(io::stderr(), "{text}").ok();
}

fn program(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

fn display_command(command: &Command) -> String {
    let name = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(name).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
