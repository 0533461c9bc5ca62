//! The comparison of the measurements with the budgets.

use std::collections::BTreeMap;

use super::{SLOTS, job::Workload};
use crate::bench::{
    table::BenchRow,
    timing::{Samples, milliseconds},
};

const MOST_OVER_POOL: f64 = 1.3;
const MOST_OVER_SCRIPT: f64 = 0.2;
const MOST_OVER_XARGS: f64 = 2.0;
const MOST_WHEN_FAILING: f64 = 1.2;
const MOST_GROWTH: f64 = 1.15;

/// Everything that was measured: floors in seconds per item, jobs in seconds.
pub(super) struct MapFigures {
    /// Shells started from threads.
    pub(super) bare: Samples,
    /// `xargs -P`.
    pub(super) xargs: Samples,
    /// GNU parallel; empty where it is not installed.
    pub(super) parallel: Samples,
    /// A script that makes and removes a worktree for each item.
    pub(super) script: Samples,
    /// The same, with a commit in each.
    pub(super) script_with_commits: Samples,
    /// Reused worktrees.
    pub(super) pool: Samples,
    /// Reused worktrees with a commit in each, merged by git's plumbing.
    pub(super) plumbing: Samples,
    jobs: BTreeMap<(Workload, u32), Samples>,
    compared: u32,
}

impl MapFigures {
    /// Returns figures without any measurement; floors and ours are compared at this size.
    pub(super) fn new(compared: u32) -> Self {
        Self {
            bare: Samples::default(),
            xargs: Samples::default(),
            parallel: Samples::default(),
            script: Samples::default(),
            script_with_commits: Samples::default(),
            pool: Samples::default(),
            plumbing: Samples::default(),
            jobs: BTreeMap::new(),
            compared,
        }
    }

    /// Adds how long a job took.
    pub(super) fn job(&mut self, errand: Workload, items: u32, seconds: f64) {
        self.jobs.entry((errand, items)).or_default().add(seconds);
    }

    /// Returns the rows of the table.
    pub(super) fn rows(&self) -> Vec<BenchRow> {
        let per_item = |errand| self.per_item(errand, self.compared);
        let (nothing, commit) = (per_item(Workload::Nothing), per_item(Workload::Commit));
        let (shared, bare) = (per_item(Workload::Shared), &self.bare);
        let at = format!("{} items", self.compared);
        let held = |what: &str, ours: &Samples, against: &str, floor: &Samples, limit| {
            compare_row(&format!("{what}, {at}"), ours, against, floor, limit)
        };
        let mut rows = vec![
            held(
                "item in a worktree",
                &nothing,
                "pool of worktrees",
                &self.pool,
                Some(MOST_OVER_POOL),
            ),
            held("item in a worktree", &nothing, "script", &self.script, Some(MOST_OVER_SCRIPT)),
        ];
        rows.extend(self.growth("item in a worktree", Workload::Nothing));
        rows.extend([
            held(
                "item with a commit",
                &commit,
                "pool and plumbing",
                &self.plumbing,
                Some(MOST_OVER_POOL),
            ),
            held("item with a commit", &commit, "script", &self.script_with_commits, None),
        ]);
        rows.extend(self.growth("item with a commit", Workload::Commit));
        let (failing, shared_failing) =
            (per_item(Workload::Failing), per_item(Workload::SharedFailing));
        rows.extend([
            held(
                "failing item in a worktree",
                &failing,
                "succeeding",
                &nothing,
                Some(MOST_WHEN_FAILING),
            ),
            held(
                "failing shared item",
                &shared_failing,
                "succeeding",
                &shared,
                Some(MOST_WHEN_FAILING),
            ),
            held("shared item", &shared, "`xargs -P`", &self.xargs, Some(MOST_OVER_XARGS)),
            held("shared item", &shared, "threads and `sh -c :`", bare, None),
            held("`xargs -P`", &self.xargs, "threads and `sh -c :`", bare, None),
        ]);
        if self.parallel.best().is_finite() {
            rows.push(held("GNU parallel", &self.parallel, "threads and `sh -c :`", bare, None));
        }
        rows
    }

    /// Returns what an item of a job costs, starting and ending the job included.
    fn per_item(&self, errand: Workload, items: u32) -> Samples {
        self.jobs.get(&(errand, items)).map(|job| job.divided(f64::from(items))).unwrap_or_default()
    }

    /// Returns whether an item of a large job costs as much as one of a small job.
    ///
    /// Starting and ending a job weighs more on a small one and would hide growth, so what
    /// a job costs that gives each slot one item is subtracted. The raw figures are shown.
    fn growth(&self, what: &str, errand: Workload) -> Option<BenchRow> {
        let mut sizes = self.jobs.keys().filter(|(of, _)| *of == errand).map(|(_, items)| *items);
        let smallest = sizes.find(|items| *items > SLOTS)?;
        let largest = sizes.next_back()?;
        let start = self.best(errand, SLOTS);
        let marginal = |items| (self.best(errand, items) - start) / f64::from(items - SLOTS);
        let raw = |items| self.best(errand, items) / f64::from(items);
        let shown = |items| {
            format!(
                "{} (with start-up {})",
                milliseconds(marginal(items)),
                milliseconds(raw(items))
            )
        };
        Some(BenchRow {
            what: format!("{what}, one more at {largest} items"),
            measured: shown(largest),
            floor: format!("at {smallest} items: {}", shown(smallest)),
            ratio: marginal(largest) / marginal(smallest),
            budget: format!("{MOST_GROWTH} × floor"),
            limit: Some(MOST_GROWTH),
        })
    }

    fn best(&self, errand: Workload, items: u32) -> f64 {
        self.jobs.get(&(errand, items)).map_or(f64::INFINITY, Samples::best)
    }
}

fn compare_row(
    what: &str,
    ours: &Samples,
    against: &str,
    floor: &Samples,
    limit: Option<f64>,
) -> BenchRow {
    BenchRow {
        what: what.to_owned(),
        measured: ours.shown(),
        floor: format!("{against}: {}", floor.shown()),
        ratio: ours.best() / floor.best(),
        budget: limit.map_or_else(|| "–".to_owned(), |limit| format!("{limit} × floor")),
        limit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::table::render;

    fn figures(jobs: &[(Workload, u32, f64)]) -> MapFigures {
        let mut figures = MapFigures::new(100);
        for (errand, items, seconds) in jobs {
            figures.job(*errand, *items, *seconds);
        }
        figures
    }

    #[test]
    fn starting_a_job_does_not_hide_that_items_become_slower() {
        let flat = [
            (Workload::Nothing, 10, 0.6),
            (Workload::Nothing, 100, 1.5),
            (Workload::Nothing, 1000, 10.5),
        ];
        let row = figures(&flat).growth("item", Workload::Nothing).unwrap();
        assert!(row.is_met());
        let slower = [
            (Workload::Nothing, 10, 0.6),
            (Workload::Nothing, 100, 1.5),
            (Workload::Nothing, 1000, 13.0),
        ];
        let row = figures(&slower).growth("item", Workload::Nothing).unwrap();
        assert!(!row.is_met());
        insta::assert_snapshot!(render(&[row]), @"
        | What | Measured (best / median) | Held against | Ratio | Budget | |
        |---|---|---|---|---|---|
        | item, one more at 1000 items | 12.53 ms (with start-up 13.00 ms) | at 100 items: 10.00 ms (with start-up 15.00 ms) | 1.25 | 1.15 × floor | MISSED |
        ");
    }

    #[test]
    fn one_size_says_nothing_about_growth() {
        let one = figures(&[(Workload::Nothing, 10, 0.6), (Workload::Nothing, 100, 1.5)]);
        assert!(one.growth("item", Workload::Nothing).is_none());
    }

    #[test]
    fn what_was_not_measured_misses_its_budget() {
        let missed = figures(&[]).rows().into_iter().filter(|row| !row.is_met()).count();
        assert_eq!(missed, 6);
    }
}
