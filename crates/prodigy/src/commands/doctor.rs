//! `prodigy doctor`.

use crate::{cli::Args, error::CliError, exit::Exit, output::Output};

/// TODO
#[derive(clap::Args, Debug)]
pub(crate) struct DoctorArgs {}

pub(super) fn run(
    _args: &Args,
    _command: &DoctorArgs,
    _out: &mut Output,
) -> Result<Exit, CliError> {
    Err(CliError::new(Exit::Failure, "unfinished"))
}
