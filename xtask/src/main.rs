//! The project's own chores, so that a person and the CI type the same words.
#![expect(clippy::disallowed_methods, reason = "chores start programs and write files directly")]

mod bench;
mod crash;
mod deny;
mod docs;
mod error;
mod model;
mod program;
mod quickstart;
mod test;
mod tools;

use std::process::ExitCode;

use clap::Parser as _;

use crate::error::Error;

/// Try, test, measure and document prodigy
#[derive(clap::Parser, Debug)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct XtaskCli {
    #[command(subcommand)]
    chore: XtaskCommand,
}

#[derive(clap::Subcommand, Debug)]
enum XtaskCommand {
    Quickstart(quickstart::QuickstartArgs),
    Test(test::TestArgs),
    Docs(docs::DocsArgs),
    Bench(bench::BenchArgs),
    Crash(crash::CrashArgs),
    Deny(deny::DenyArgs),
    Model(model::ModelArgs),
    Tools(tools::ToolsArgs),
    #[command(name = "__tell", hide = true)]
    Tell(bench::EmitArgs),
}

fn main() -> ExitCode {
    match run(&XtaskCli::parse().chore) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            program::print_note(format_args!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(chore: &XtaskCommand) -> Result<(), Error> {
    match chore {
        XtaskCommand::Quickstart(args) => quickstart::run(args),
        XtaskCommand::Test(args) => test::run(args),
        XtaskCommand::Docs(args) => docs::run(args),
        XtaskCommand::Bench(args) => bench::run(args),
        XtaskCommand::Crash(args) => crash::run(args),
        XtaskCommand::Deny(args) => deny::run(args),
        XtaskCommand::Model(args) => model::run(args),
        XtaskCommand::Tools(args) => tools::run(args),
        XtaskCommand::Tell(args) => bench::emit_events(args),
    }
}
