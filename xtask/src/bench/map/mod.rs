//! The cost of an item of a MapReduce job, beside the best that git and a shell allow.
//!
//! Everything is measured in one run, in turns, with as many at once on both sides. The
//! floors are programs that a person could write; none of them keeps a journal, captures
//! output or survives a crash.

mod baselines;
mod job;
mod pool_baseline;
mod repository;
mod rows;

use std::path::Path;

use prodigy_testkit::TestEnv;

use self::rows::MapFigures;
use super::table::BenchRow;
use crate::{error::Error, program::print_note};
use job::{BenchJob, Workload};
use pool_baseline::PoolBaseline;

/// The number of items worked on at once, on both sides.
const SLOTS: u32 = 10;

/// The number of rounds in which everything is measured, in turns.
const ROUNDS: u32 = 3;

/// The size at which ours and the floors are compared, if nothing else is asked for.
const COMPARED: u32 = 1000;

/// The script that makes and removes a worktree for each item is slow: this many tell enough.
const MOST_SCRIPTED: u32 = 100;

/// Small jobs end so soon that noise weighs more on them: they are run so often in each round.
const REPEATS: u32 = 3;

/// Measures jobs of these sizes; of those above [`COMPARED`] only one round.
pub(super) fn measure(binary: &Path, sizes: &[u32]) -> Result<Vec<BenchRow>, Error> {
    let mut sizes = sizes.to_vec();
    sizes.sort_unstable();
    sizes.dedup();
    let compared = comparison_size(&sizes);
    let mut bench = MapBench {
        binary,
        items: compared,
        smaller: std::iter::once(SLOTS)
            .chain(sizes.iter().copied().filter(|size| *size < compared))
            .collect(),
        figures: MapFigures::new(compared),
        kept: Vec::new(),
    };
    for round in 1..=ROUNDS {
        print_note(format_args!("  round {round} of {ROUNDS}, {compared} items"));
        bench.shells()?;
        bench.worktrees()?;
        bench.commits()?;
    }
    for size in sizes.iter().filter(|size| **size > compared) {
        print_note(format_args!("  one round of {size} items"));
        bench.job(Workload::Nothing, *size)?;
    }
    Ok(bench.figures.rows())
}

/// Returns the size at which ours and the floors are compared.
fn comparison_size(sizes: &[u32]) -> u32 {
    sizes.iter().copied().filter(|size| *size <= COMPARED).max().unwrap_or(COMPARED)
}

/// The measurements, in an order that puts each floor next to the figure compared with it.
struct MapBench<'a> {
    binary: &'a Path,
    items: u32,
    smaller: Vec<u32>,
    figures: MapFigures,
    /// Worlds are kept until all is measured: deleting many files slows down what comes next.
    kept: Vec<TestEnv>,
}

impl MapBench<'_> {
    fn shells(&mut self) -> Result<(), Error> {
        self.figures.bare.add(baselines::threads_baseline(self.items)?);
        self.figures.xargs.add(baselines::xargs(self.items)?);
        if let Some(seconds) = baselines::parallel(self.small_item_count())? {
            self.figures.parallel.add(seconds);
        }
        self.job(Workload::Shared, self.items)?;
        self.job(Workload::SharedFailing, self.items)
    }

    fn worktrees(&mut self) -> Result<(), Error> {
        let world = repository::repository(self.binary);
        self.figures.script.add(baselines::worktree_script_baseline(
            &world,
            self.small_item_count(),
            false,
        )?);
        self.kept.push(world);
        let pool = PoolBaseline::new(repository::repository(self.binary))?;
        self.figures.pool.add(pool.run_noop(self.items)?);
        self.kept.push(pool.into_env());
        self.sizes(Workload::Nothing)?;
        self.job(Workload::Failing, self.items)
    }

    fn commits(&mut self) -> Result<(), Error> {
        let world = repository::repository(self.binary);
        self.figures.script_with_commits.add(baselines::worktree_script_baseline(
            &world,
            self.small_item_count(),
            true,
        )?);
        self.kept.push(world);
        let pool = PoolBaseline::new(repository::repository(self.binary))?;
        self.figures.plumbing.add(pool.run_commits(self.items)?);
        self.kept.push(pool.into_env());
        self.sizes(Workload::Commit)
    }

    fn sizes(&mut self, errand: Workload) -> Result<(), Error> {
        self.job(errand, self.items)?;
        for size in self.smaller.clone() {
            for _ in 0..REPEATS {
                self.job(errand, size)?;
            }
        }
        Ok(())
    }

    fn job(&mut self, errand: Workload, items: u32) -> Result<(), Error> {
        let seconds = BenchJob::new(self.binary, errand, items).run(&mut self.kept)?;
        self.figures.job(errand, items, seconds);
        Ok(())
    }

    fn small_item_count(&self) -> u32 {
        self.items.min(MOST_SCRIPTED)
    }
}
