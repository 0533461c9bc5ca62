//! `prodigy __supervise`: the process that steps run under.

use prodigy_engine::process::{SuperviseError, supervise};

use crate::{cli::Args, error::CliError, exit::Exit, output::Output};

/// Run steps for another prodigy, which starts this itself
#[derive(clap::Args, Debug)]
pub(crate) struct SuperviseArgs {}

pub(super) fn run(
    _args: &Args,
    _command: &SuperviseArgs,
    _out: &mut Output,
) -> Result<Exit, CliError> {
    supervise().map(|()| Exit::Success).map_err(|error| {
        let message = error.to_string();
        match error {
            SuperviseError::NotOurs(source) => CliError::new(Exit::Usage, message).because(source),
            SuperviseError::Io(source) => CliError::new(Exit::Failure, message).because(source),
        }
    })
}
