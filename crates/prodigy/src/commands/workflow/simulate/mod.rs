//! `prodigy simulate`.

pub(crate) mod rehearsal_summary;
mod workspace;

use std::path::{Path, PathBuf};

use prodigy_core::workflow::{Rehearsal, SimulatedAgent, read_faults};

use super::run::{self, RehearsalRequest, RunRequest, WorkflowArgs};
use crate::{
    cli::Cli,
    commands::{
        context, policy::policy_file, workflow::simulate::rehearsal_summary::RehearsalSummary,
    },
    error::CliError,
    exit::Exit,
    input,
    render::console::Console,
};
use workspace::RehearsalWorkspace;

/// The closing message. A command can leave the copy, by an absolute path for example.
const LAST: &str =
    "this was a rehearsal: your repository is unchanged; commands may have had outside effects";

/// Rehearse a workflow and its policies, without an agent and without a cost
///
/// Every agent is replaced by the simulated one, which answers, edits, commits and fails as the
/// file of faults says. Without a file all goes well, except where the workflow has a simulated
/// agent of its own, whose rules still hold. Commands run for real, but in a copy of the
/// repository and with a home of its own: your branches, your checkout and your jobs stay as they
/// are, and a push to a remote goes nowhere. Steps with `effects: external` are not run; the
/// summary says which would have been.
///
/// Commands can still have outside effects: on the network and, by absolute paths, on your files.
///
/// The exit code is that of the run. `prodigy schema faults` prints the schema of the file of
/// faults.
///
/// For example, `prodigy simulate workflow.yml --faults faults.yml --speed 60` shows in seconds
/// what the retries and the circuit breaker would do in minutes.
#[derive(clap::Args, Debug)]
pub(crate) struct SimulateArgs {
    /// The workflow file
    workflow: PathBuf,

    /// Simulate the agent behaviour and the faults in this file [default: all goes well]
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,

    /// Fix what is random [default: what the file of faults says]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Let this much more time pass where the job waits and where agents take their time
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = parse_speed)]
    speed: f64,

    /// Keep the copy and the home of the rehearsal, and say where they are
    #[arg(long)]
    keep: bool,

    /// Print one JSON document
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    task: WorkflowArgs,
}

/// Reads how much faster time passes.
fn parse_speed(text: &str) -> Result<f64, String> {
    let factor = text.parse::<f64>().ok();
    factor
        .filter(|factor| (1.0..=1e9).contains(factor))
        .ok_or_else(|| "a number from 1, such as 60 for a minute in a second".to_owned())
}

pub(crate) fn run(args: &Cli, command: &SimulateArgs, out: &mut Console) -> Result<Exit, CliError> {
    let repo = context::repo(command.task.path.as_deref());
    let mut request = command.task.to_request(&command.workflow, repo, out)?;
    let mut agent = load_faults(command.faults.as_deref(), out)?;
    agent.seed = command.seed.unwrap_or(agent.seed);
    run::warn_about_checkout(&request.repo, out)?;
    let stage = RehearsalWorkspace::new(&request)?;
    let checkout = request.repo.checkout().to_owned();
    request.repo = stage.repo().clone();
    stage.set_home_variable(&mut request.file.loaded.workflow);
    request.yes = true;
    request.job = Some(stage.job().clone());
    let rehearsal = Rehearsal { agent, speed: command.speed };
    request.rehearsal = Some(RehearsalRequest { rehearsal, home: stage.home(), checkout });
    let exit = run::start_job(args, request, out)?;
    let account = RehearsalSummary::from_journal(&stage.layout()?, stage.job())?;
    let kept = if command.keep { Some(stage.keep()) } else { None };
    if command.json {
        let document = account.document(exit, kept.as_deref());
        out.line(format_args!("{document:#}"))?;
    } else {
        account.show(out);
    }
    print_footer(command, kept.as_deref(), exit, out);
    Ok(exit)
}

/// Reads the file of faults.
fn load_faults(path: Option<&Path>, out: &mut Console) -> Result<SimulatedAgent, CliError> {
    let Some(path) = path else {
        return Ok(SimulatedAgent { otherwise: Some(Box::default()), ..SimulatedAgent::default() });
    };
    let text = input::read(path).map_err(|error| {
        CliError::new(error.exit(), error.to_string())
            .with_hint("`prodigy schema faults` shows what it may hold")
    })?;
    let shown = path.to_string_lossy();
    match read_faults(&shown, &text) {
        Ok(loaded) => Ok(loaded.agent),
        Err(rejected) => Err(policy_file::invalid_file_error(&shown, &rejected, out)),
    }
}

/// Says where everything is, and what to type next.
fn print_footer(command: &SimulateArgs, kept: Option<&Path>, exit: Exit, out: &mut Console) {
    match kept {
        Some(place) => {
            out.note(format_args!("kept in {}", place.display()));
        }
        None => out.note(LAST),
    }
    let workflow = context::shell_quote(&command.workflow);
    if exit == Exit::Success {
        out.note(format_args!("next: prodigy run {workflow}"));
    } else if kept.is_none() {
        out.note(format_args!("next: prodigy simulate {workflow} --keep"));
    }
}
