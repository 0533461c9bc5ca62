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
struct Args {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(clap::Subcommand, Debug)]
enum Chore {
    Quickstart(quickstart::QuickstartArgs),
    Test(test::TestArgs),
    Docs(docs::DocsArgs),
    Bench(bench::BenchArgs),
    Crash(crash::CrashArgs),
    Deny(deny::DenyArgs),
    Model(model::ModelArgs),
    Tools(tools::ToolsArgs),
    #[command(name = "__tell", hide = true)]
    Tell(bench::TellArgs),
}

fn main() -> ExitCode {
    match run(&Args::parse().chore) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            program::note(format_args!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(chore: &Chore) -> Result<(), Error> {
    match chore {
        Chore::Quickstart(args) => quickstart::run(args),
        Chore::Test(args) => test::run(args),
        Chore::Docs(args) => docs::run(args),
        Chore::Bench(args) => bench::run(args),
        Chore::Crash(args) => crash::run(args),
        Chore::Deny(args) => deny::run(args),
        Chore::Model(args) => model::run(args),
        Chore::Tools(args) => tools::run(args),
        Chore::Tell(args) => bench::tell(args),
    }
}
