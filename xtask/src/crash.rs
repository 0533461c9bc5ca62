//! `cargo xtask crash`: kill and resume, many times.

use std::path::PathBuf;

use prodigy_testkit::crash::{Broken, trial, undisturbed};

use crate::{
    error::Error,
    program::{chosen, note},
};

/// Kill a workflow at random moments, resume it, and check that nothing is lost or done twice
#[derive(clap::Args, Debug)]
pub(crate) struct CrashArgs {
    /// How many trials to make
    #[arg(long, default_value_t = 20)]
    runs: u64,

    /// The number that decides when to kill; trial N uses SEED + N
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Use this binary instead of building one
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

pub(crate) fn run(args: &CrashArgs) -> Result<(), Error> {
    let binary = chosen(args.binary.as_deref(), false)?;
    let span = undisturbed(&binary).map_err(|broken| failed(*broken, None))?;
    note(format_args!("undisturbed: {} ms", span.as_millis()));
    let mut kills = 0;
    for number in 0..args.runs {
        let seed = args.seed.wrapping_add(number);
        let survived = trial(&binary, seed, span).map_err(|broken| failed(*broken, Some(seed)))?;
        kills += survived.kills;
        note(format_args!(
            "trial {}/{}: seed {seed}, killed {} times, {} starts, {} ms",
            number + 1,
            args.runs,
            survived.kills,
            survived.starts,
            survived.duration.as_millis(),
        ));
    }
    note(format_args!("{} trials, {kills} kills, nothing lost", args.runs));
    Ok(())
}

fn failed(broken: Broken, seed: Option<u64>) -> Error {
    note(format_args!("{}", broken.transcript));
    let message = broken.message;
    let again = match seed {
        Some(seed) => format!("; again with `cargo xtask crash --runs 1 --seed {seed}`"),
        None => String::new(),
    };
    Error::Broken { message, world: broken.world.keep(), again }
}
