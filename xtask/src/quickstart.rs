//! `cargo xtask quickstart`: the first thing that a newcomer runs.

use std::process::Command;

use crate::{
    error::Error,
    program::{binary_path, cargo, print_note, root, run as run_program},
};

/// Build prodigy and run the example in `examples/quickstart`
///
/// The example works in a new directory for temporary files, in a repository of its
/// own. It says at its end where that is and how to look around in it.
#[derive(clap::Args, Debug)]
pub(crate) struct QuickstartArgs {}

pub(crate) fn run(_args: &QuickstartArgs) -> Result<(), Error> {
    print_note("building prodigy, about a minute the first time");
    // Cargo shows how far it is, so that a minute of waiting is not a silent one.
    run_program(&mut cargo(&["build", "--package", "prodigy", "--bin", "prodigy"]))?;
    print_note("");
    let example = root().join("examples/quickstart/run");
    run_program(Command::new(example).env("PRODIGY", binary_path(false)))
}
