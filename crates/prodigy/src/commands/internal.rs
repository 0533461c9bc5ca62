//! Hidden commands: `prodigy __supervise`, which steps run under, and `prodigy __simulate`.

use std::{
    io,
    path::{Path, PathBuf},
};

use prodigy_core::workflow::SimulatedTurn;
use prodigy_engine::{
    agent::{TurnOutcome, run_turn},
    process::{SupervisorError, run_supervisor},
};

use crate::{cli::Cli, error::CliError, exit::Exit, render::console::Console};

/// Run steps for another prodigy, which starts this itself
#[derive(clap::Args, Debug)]
pub(crate) struct SuperviseArgs {}

pub(crate) fn run_supervise(
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

/// Be the simulated agent: read a turn from standard input and carry it out here
#[derive(clap::Args, Debug)]
pub(crate) struct SimulateAgentArgs {
    /// The file that says when the usage limit is reset, for all agents that are given it
    #[arg(long, value_name = "FILE")]
    limit: Option<PathBuf>,
}

pub(crate) fn run_simulate_agent(
    _args: &Cli,
    command: &SimulateAgentArgs,
    _out: &mut Console,
) -> Result<Exit, CliError> {
    let turn: SimulatedTurn = serde_json::from_reader(io::stdin().lock()).map_err(|error| {
        CliError::new(Exit::Usage, "standard input is not a turn of the simulated agent")
            .with_source(error)
    })?;
    // Its events are for whoever reads the stream, as they happen.
    let mut stream = io::stdout().lock();
    let end = run_turn(&turn, Path::new("."), command.limit.as_deref(), &mut stream).map_err(
        |error| {
            CliError::new(Exit::Failure, "the simulated agent could not do its work")
                .with_source(error)
        },
    )?;
    Ok(match end {
        TurnOutcome::Answered => Exit::Success,
        TurnOutcome::Failed => Exit::Failure,
    })
}
