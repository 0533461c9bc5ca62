//! `prodigy __supervise`: the process that steps run under.

use crate::{cli::Args, error::CliError, exit::Exit, output::Output};

/// Run steps for another prodigy, which starts this itself
#[derive(clap::Args, Debug)]
pub(crate) struct SuperviseArgs {}

pub(super) fn run(
    _args: &Args,
    _command: &SuperviseArgs,
    _out: &mut Output,
) -> Result<Exit, CliError> {
    prodigy_engine::process::supervise().map(|()| Exit::Success).map_err(|error| {
        let message = error.to_string();
        match std::error::Error::source(&error) {
            Some(_) => CliError::new(Exit::Usage, message).because(error),
            None => CliError::new(Exit::Failure, message),
        }
    })
}
