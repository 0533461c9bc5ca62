//! `prodigy __simulate`: the process of the simulated agent.

use std::{io, path::Path};

use prodigy_core::workflow::SimulatedTurn;
use prodigy_engine::agent::{TurnEnd, perform};

use crate::{cli::Args, error::CliError, exit::Exit, output::Output};

/// Be the simulated agent: read a turn from standard input and carry it out here
#[derive(clap::Args, Debug)]
pub(crate) struct SimulateAgentArgs {}

pub(super) fn run(
    _args: &Args,
    _command: &SimulateAgentArgs,
    out: &mut Output,
) -> Result<Exit, CliError> {
    let turn: SimulatedTurn = serde_json::from_reader(io::stdin().lock()).map_err(|error| {
        CliError::new(Exit::Usage, "standard input is not a turn of the simulated agent")
            .because(error)
    })?;
    let end = perform(&turn, Path::new(".")).map_err(|error| {
        CliError::new(Exit::Failure, "the simulated agent could not do its work").because(error)
    })?;
    match end {
        TurnEnd::Answered(line) => {
            out.raw(line.as_bytes())?;
            out.raw(b"\n")?;
            Ok(Exit::Success)
        }
        TurnEnd::Failed(message) => Err(CliError::new(Exit::Failure, message)),
    }
}
