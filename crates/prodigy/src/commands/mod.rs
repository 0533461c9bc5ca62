//! One file per command: its arguments, then what it does.

mod agents;
pub(crate) mod audit;
pub(crate) mod batch;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod context;
pub(crate) mod dlq;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod exec;
mod flags;
mod found;
pub(crate) mod given_items;
mod hooks;
pub(crate) mod init;
mod item_flags;
pub(crate) mod jobs;
pub(crate) mod logs;
pub(crate) mod lookup;
pub(crate) mod man;
mod parameters;
pub(crate) mod pause;
mod place;
pub(crate) mod plan;
pub(crate) mod policy;
pub(crate) mod purge;
pub(crate) mod reference;
pub(crate) mod repair;
mod repository;
mod resumable;
pub(crate) mod resume;
pub(crate) mod run;
mod run_end;
pub(crate) mod schema;
mod secrets;
mod setup;
pub(crate) mod simulate;
pub(crate) mod simulate_agent;
mod sizes;
mod spending;
pub(crate) mod stop;
pub(crate) mod supervise;
mod target;
pub(crate) mod trust;
pub(crate) mod validate;
pub(crate) mod verify;
pub(crate) mod worktree;

use crate::{
    cli::{Cli, Command},
    error::CliError,
    exit::Exit,
    output::Console,
};

/// Runs the command that was asked for.
pub(crate) fn run(args: &Cli, out: &mut Console) -> Result<Exit, CliError> {
    let exit = match &args.command {
        Command::Run(command) => run::run(args, command, out),
        Command::Resume(command) => resume::run(args, command, out),
        Command::Plan(command) => plan::run(args, command, out),
        Command::Exec(command) => exec::run(args, command, out),
        Command::Batch(command) => batch::run(args, command, out),
        Command::Validate(command) => validate::run(args, command, out),
        Command::Simulate(command) => simulate::run(args, command, out),
        Command::Schema(command) => schema::run_schema(args, command, out),
        Command::Worktree(command) => worktree::run(args, command, out),
        Command::Dlq(command) => dlq::run(args, command, out),
        Command::Audit(command) => audit::run(args, command, out),
        Command::Policy(command) => policy::run(args, command, out),
        Command::Doctor(command) => doctor::run(args, command, out),
        Command::Events(command) => events::run(args, command, out),
        Command::Jobs(command) => jobs::run(args, command, out),
        Command::Logs(command) => logs::run(args, command, out),
        Command::Pause(command) => pause::run_pause(args, command, out),
        Command::Stop(command) => stop::run_stop(args, command, out),
        Command::Verify(command) => verify::run(args, command, out),
        Command::Repair(command) => repair::run(args, command, out),
        Command::Purge(command) => purge::run(args, command, out),
        Command::Config(command) => config::run(args, command, out),
        Command::Trust(command) => trust::run(args, command, out),
        Command::Init(command) => init::run(args, command, out),
        Command::Completions(command) => completions::run_completions(args, command, out),
        Command::Man(command) => man::run_man(args, command, out),
        Command::Reference(command) => reference::run(args, command, out),
        Command::Supervise(command) => supervise::run_supervise(args, command, out),
        Command::SimulateAgent(command) => simulate_agent::run_simulate_agent(args, command, out),
    }?;
    out.flush()?;
    Ok(exit)
}
