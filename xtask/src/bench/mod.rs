//! `cargo xtask bench`: the budgets of speed, memory and size.
//!
//! Each figure is held against a floor measured in the same minute on the same
//! machine, in turns, so that a busy machine slows both. A budget is judged by the
//! best round, because noise only ever adds; the median is shown beside it.

mod memory;
mod start;
mod steps;
mod table;
mod timing;
mod validate;

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    bench::table::{Row, render},
    error::Error,
    program::{chosen, note, root},
};

/// Measure prodigy against its budgets
///
/// Builds the release binary, prints a table, writes it to `target/bench/bench.md`,
/// and fails if a budget is missed.
#[derive(clap::Args, Debug)]
pub(crate) struct BenchArgs {
    /// What to measure [default: everything]
    which: Vec<Which>,

    /// Measure this binary instead of building one
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Which {
    /// Starting and ending, and the size of the binary
    Start,
    /// Checking large workflow files
    Validate,
    /// One more shell step
    Steps,
    /// Memory while a step prints 2 GB
    Memory,
}

pub(crate) fn run(args: &BenchArgs) -> Result<(), Error> {
    let binary = chosen(args.binary.as_deref(), true)?;
    let all = [Which::Start, Which::Validate, Which::Steps, Which::Memory];
    let wanted = if args.which.is_empty() { &all[..] } else { &args.which };
    let mut rows = Vec::new();
    for which in wanted {
        note(format_args!("measuring {which:?} …"));
        rows.extend(measure(*which, &binary)?);
    }
    let report = render(&rows);
    note(&report);
    save(&report)?;
    let missed: Vec<_> = rows.iter().filter(|row| !row.met).map(|row| row.what.clone()).collect();
    if missed.is_empty() { Ok(()) } else { Err(Error::Missed(missed)) }
}

fn measure(which: Which, binary: &Path) -> Result<Vec<Row>, Error> {
    match which {
        Which::Start => start::measure(binary),
        Which::Validate => validate::measure(binary),
        Which::Steps => steps::measure(binary),
        Which::Memory => memory::measure(binary),
    }
}

fn save(report: &str) -> Result<(), Error> {
    let path = root().join("target/bench/bench.md");
    let directory = path.parent().unwrap_or(&path);
    fs::create_dir_all(directory)
        .and_then(|()| fs::write(&path, report))
        .map_err(|source| Error::File { path, source })
}
