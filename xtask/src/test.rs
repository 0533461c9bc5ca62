//! `cargo xtask test`: everything that must hold before a change is merged.

use std::time::Instant;

use crate::{
    docs,
    error::Error,
    program::{cargo, print_note, run as run_program},
    tools,
};

/// Check formatting, lints, build, tests and documents
///
/// The steps run in this order and the first that fails ends the chore with its
/// name. The Rust toolchain and git are needed; OpenSSH is installed if it is missing, and the agents that
/// tests run are downloaded.
#[derive(clap::Args, Debug)]
pub(crate) struct TestArgs {
    /// Leave out the generated pages and the API documents
    #[arg(long)]
    quick: bool,
}

/// One step: its name, whether `--quick` keeps it, and what it does.
struct TestStage {
    name: &'static str,
    quick: bool,
    work: fn() -> Result<(), Error>,
}

const STEPS: &[TestStage] = &[
    TestStage { name: "tools", quick: true, work: tools::provide },
    TestStage { name: "format", quick: true, work: || cargo_run(&["fmt", "--all", "--check"]) },
    TestStage { name: "lint", quick: true, work: lint },
    TestStage {
        name: "build",
        quick: true,
        work: || cargo_run(&["build", "--workspace", "--locked"]),
    },
    TestStage { name: "test", quick: true, work: test },
    TestStage { name: "reference", quick: false, work: docs::check },
    TestStage { name: "rustdoc", quick: false, work: rustdoc },
];

pub(crate) fn run(args: &TestArgs) -> Result<(), Error> {
    let began = Instant::now();
    let steps: Vec<_> = STEPS.iter().filter(|step| step.quick || !args.quick).collect();
    for (number, step) in steps.iter().enumerate() {
        print_note(format_args!("\n== {}/{} {} ==", number + 1, steps.len(), step.name));
        let step_began = Instant::now();
        (step.work)()
            .map_err(|source| Error::Step { step: step.name, source: Box::new(source) })?;
        print_note(format_args!(
            "== {} ok, {:.1} s ==",
            step.name,
            step_began.elapsed().as_secs_f64()
        ));
    }
    print_note(format_args!(
        "\nall {} steps ok, {:.1} s",
        steps.len(),
        began.elapsed().as_secs_f64()
    ));
    Ok(())
}

fn cargo_run(args: &[&str]) -> Result<(), Error> {
    run_program(&mut cargo(args))
}

fn lint() -> Result<(), Error> {
    cargo_run(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])
}

fn test() -> Result<(), Error> {
    // A snapshot that differs is a failure here, never a file to look at later.
    run_program(cargo(&["test", "--workspace", "--locked"]).env("INSTA_UPDATE", "no"))
}

fn rustdoc() -> Result<(), Error> {
    run_program(
        cargo(&["doc", "--workspace", "--no-deps", "--document-private-items", "--locked"])
            .env("RUSTDOCFLAGS", "-D warnings"),
    )
}
