//! `prodigy __supervise`: the process that steps run under.

use prodigy_engine::process::{SupervisorError, run_supervisor};

use crate::{cli::Cli, error::CliError, exit::Exit, output::Console};

/// Run steps for another prodigy, which starts this itself
#[derive(clap::Args, Debug)]
pub(crate) struct SuperviseArgs {}

pub(super) fn run_supervise(
    _args: &Cli,
    _command: &SuperviseArgs,
    _out: &mut Console,
) -> Result<Exit, CliError> {
    run_supervisor().map(|()| Exit::Success).map_err(|error| {
        let message = error.to_string();
        match error {
            SupervisorError::NotOurs(source) => {
                CliError::new(Exit::Usage, message).with_source(source)
            }
            SupervisorError::Io(source) => {
                CliError::new(Exit::Failure, message).with_source(source)
            }
        }
    })
}
