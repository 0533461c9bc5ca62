//! One file per command: its arguments, then what it does.

pub(crate) mod audit;
pub(crate) mod config;
pub(crate) mod context;
pub(crate) mod dlq;
pub(crate) mod doctor;
pub(crate) mod init;
pub(crate) mod internal;
pub(crate) mod jobs;
pub(crate) mod lookup;
pub(crate) mod policy;
mod prepare;
pub(crate) mod reference;
pub(crate) mod trust;
pub(crate) mod workflow;
pub(crate) mod worktree;

use crate::{
    cli::{Cli, Command},
    error::CliError,
    exit::Exit,
    render::console::Console,
};

/// Runs the command that was asked for.
pub(crate) fn run(args: &Cli, out: &mut Console) -> Result<Exit, CliError> {
    let exit = match &args.command {
        Command::Run(command) => workflow::run::run(args, command, out),
        Command::Resume(command) => workflow::resume::run(args, command, out),
        Command::Plan(command) => workflow::plan::run(args, command, out),
        Command::Exec(command) => workflow::exec::run(args, command, out),
        Command::Batch(command) => workflow::batch::run(args, command, out),
        Command::Validate(command) => workflow::validate::run(args, command, out),
        Command::Simulate(command) => workflow::simulate::run(args, command, out),
        Command::Schema(command) => reference::run_schema(args, command, out),
        Command::Worktree(command) => worktree::run(args, command, out),
        Command::Dlq(command) => dlq::run(args, command, out),
        Command::Audit(command) => audit::run(args, command, out),
        Command::Policy(command) => policy::run(args, command, out),
        Command::Doctor(command) => doctor::run(args, command, out),
        Command::Events(command) => jobs::events::run(args, command, out),
        Command::Jobs(command) => jobs::run(args, command, out),
        Command::Logs(command) => jobs::logs::run(args, command, out),
        Command::Pause(command) => jobs::control::run_pause(args, command, out),
        Command::Stop(command) => jobs::control::run_stop(args, command, out),
        Command::Verify(command) => jobs::integrity::run(args, command, out),
        Command::Repair(command) => jobs::integrity::repair::run(args, command, out),
        Command::Purge(command) => jobs::purge::run(args, command, out),
        Command::Config(command) => config::run(args, command, out),
        Command::Trust(command) => trust::run(args, command, out),
        Command::Init(command) => init::run(args, command, out),
        Command::Completions(command) => reference::run_completions(args, command, out),
        Command::Man(command) => reference::run_man(args, command, out),
        Command::Reference(command) => reference::run(args, command, out),
        Command::Supervise(command) => internal::run_supervise(args, command, out),
        Command::SimulateAgent(command) => internal::run_simulate_agent(args, command, out),
    }?;
    out.flush()?;
    Ok(exit)
}
