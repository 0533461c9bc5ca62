//! `cargo xtask bench`: the budgets of speed, memory and size.
//!
//! Each figure is held against a floor measured in the same minute on the same
//! machine, in turns, so that a busy machine slows both. A budget is judged by the
//! best round, because noise only ever adds; the median is shown beside it.

mod chart;
mod dlq;
mod items;
mod machine;
mod map;
mod memory;
mod startup;
mod steps;
mod stream;
mod table;
mod timing;
mod validate;

pub(crate) use stream::{EmitArgs, emit_events};

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    bench::table::{BenchRow, render},
    error::Error,
    program::{self, binary_or_build, cargo, print_note, root},
};

/// Measure prodigy against its budgets
///
/// Builds the release binary, prints a table, writes it with a chart to `target/bench`,
/// and fails if a budget is missed.
#[derive(clap::Args, Debug)]
pub(crate) struct BenchArgs {
    /// Benchmarks to run [default: all]
    which: Vec<BenchSuite>,

    /// Measure this binary instead of building one
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,

    /// The sizes of the jobs that `map` measures
    #[arg(long, value_name = "N", num_args = 1.., value_delimiter = ',', default_values_t = [100, 1000], value_parser = clap::value_parser!(u32).range(11..))]
    items: Vec<u32>,

    /// Measure what takes many minutes, too: 10,000 items in worktrees, 100,000 shared ones,
    /// 100,000 dead letters, 1 GB of an agent's events
    #[arg(long)]
    large: bool,

    /// Where `bench.md` and `bench.svg` go [default: target/bench]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// A benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum BenchSuite {
    /// Starting and ending, and the size of the binary
    Start,
    /// Checking large workflow files
    Validate,
    /// One more shell step
    Steps,
    /// Items of a MapReduce job
    Map,
    /// Dead letters: writing one more, listing and replaying them
    Dlq,
    /// Listening to an agent: work per event, and memory
    Stream,
    /// Memory while a step prints 2 GB, and with --large what 100,000 items need
    Memory,
}

const LARGE: u32 = 10_000;
const DEAD: u32 = 10_000;
const LARGE_DEAD: u32 = 100_000;

pub(crate) fn run(args: &BenchArgs) -> Result<(), Error> {
    let all = [
        BenchSuite::Start,
        BenchSuite::Validate,
        BenchSuite::Steps,
        BenchSuite::Map,
        BenchSuite::Dlq,
        BenchSuite::Stream,
        BenchSuite::Memory,
    ];
    let wanted = if args.which.is_empty() { &all[..] } else { &args.which };
    let is_here = |which: &BenchSuite| matches!(which, BenchSuite::Dlq | BenchSuite::Stream);
    if cfg!(debug_assertions) && wanted.iter().any(is_here) {
        // What writes dead letters and what listens to agents is measured in this program,
        // which has to be as fast as it can be for that.
        let again = ["run", "--quiet", "--release", "--package", "xtask", "--"];
        return program::run(cargo(&again).args(std::env::args_os().skip(1)));
    }
    let binary = binary_or_build(args.binary.as_deref(), true)?;
    let machine = machine::describe(&binary);
    let mut rows = Vec::new();
    for which in wanted {
        print_note(format_args!("measuring {which:?} …"));
        rows.extend(measure(*which, args, &binary)?);
    }
    let table = render(&rows);
    print_note(&table);
    let directory = args.out.clone().unwrap_or_else(|| root().join("target/bench"));
    save(&directory, "bench.md", &format!("{table}\n{machine}"))?;
    save(&directory, "bench.svg", &chart::draw(&rows))?;
    let missed: Vec<_> =
        rows.iter().filter(|row| !row.is_met()).map(|row| row.what.clone()).collect();
    if missed.is_empty() { Ok(()) } else { Err(Error::Missed(missed)) }
}

fn measure(which: BenchSuite, args: &BenchArgs, binary: &Path) -> Result<Vec<BenchRow>, Error> {
    match which {
        BenchSuite::Start => startup::measure(binary),
        BenchSuite::Validate => validate::measure(binary),
        BenchSuite::Steps => steps::measure(binary),
        BenchSuite::Map => {
            let large = args.large.then_some(LARGE);
            map::measure(binary, &args.items.iter().copied().chain(large).collect::<Vec<_>>())
        }
        BenchSuite::Dlq => dlq::measure(binary, if args.large { LARGE_DEAD } else { DEAD }),
        BenchSuite::Stream => stream::measure(binary, args.large),
        BenchSuite::Memory => {
            let mut rows = memory::measure(binary)?;
            if args.large {
                rows.extend(items::measure(binary)?);
            }
            Ok(rows)
        }
    }
}

fn save(directory: &Path, name: &str, text: &str) -> Result<(), Error> {
    let path = directory.join(name);
    fs::create_dir_all(directory)
        .and_then(|()| fs::write(&path, text))
        .map_err(|source| Error::File { path, source })
}
