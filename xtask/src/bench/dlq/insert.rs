//! The cost of one more dead letter, beside a file of the same size in the same directory.

use std::{
    fs::{self, File},
    io::Write as _,
    time::Instant,
};

use super::generator::DlqGenerator;
use crate::{
    bench::{
        table::BenchRow,
        timing::{Samples, milliseconds},
    },
    error::Error,
};

/// The number of dead letters written at each size, over all rounds.
pub(super) const SAMPLES: u32 = ROUNDS * EACH;
const ROUNDS: u32 = 8;
const EACH: u32 = 200;

const MOST_SECONDS: f64 = 0.001;
const MOST_GROWTH: f64 = 1.5;

/// The measurements at one size.
pub(super) struct InsertTimings {
    entries: u32,
    ours: RoundSamples,
    floor: RoundSamples,
}

/// The measurements of each round.
#[derive(Default)]
struct RoundSamples(Vec<Samples>);

impl RoundSamples {
    /// Returns a percentile of the round in which it is the best: noise only ever adds.
    fn percentile(&self, percent: usize) -> f64 {
        let rounds = self.0.iter().map(|samples| samples.percentile(percent));
        rounds.fold(f64::INFINITY, f64::min)
    }

    /// Shows what is judged, and what all rounds together come to on a machine that is busy.
    fn shown(&self) -> String {
        let mut all = Samples::default();
        self.0.iter().for_each(|round| all.extend(round));
        format!(
            "{} / {} (all rounds {} / {})",
            milliseconds(self.percentile(50)),
            milliseconds(self.percentile(99)),
            milliseconds(all.percentile(50)),
            milliseconds(all.percentile(99)),
        )
    }
}

/// Measures one more dead letter in jobs that have so many already, in turns.
///
/// The journal has told of the death by then: what is measured is what the dead letter costs
/// beyond that, until its file and its line in the list are written.
pub(super) fn measure(jobs: [(&mut DlqGenerator, u32); 2]) -> Result<[InsertTimings; 2], Error> {
    let [(few, few_entries), (many, many_entries)] = jobs;
    few.fail_until(few_entries)?;
    many.fail_until(many_entries)?;
    let (mut at_few, mut at_many) =
        (InsertTimings::new(few_entries), InsertTimings::new(many_entries));
    for _ in 0..ROUNDS {
        at_few.round(few)?;
        at_many.round(many)?;
    }
    Ok([at_few, at_many])
}

impl InsertTimings {
    fn new(entries: u32) -> Self {
        Self { entries, ours: RoundSamples::default(), floor: RoundSamples::default() }
    }

    fn round(&mut self, many: &mut DlqGenerator) -> Result<(), Error> {
        let (mut ours, mut floor) = (Samples::default(), Samples::default());
        for _ in 0..EACH {
            ours.add(insert(many)?);
            floor.add(copy(many)?);
        }
        self.ours.0.push(ours);
        self.floor.0.push(floor);
        Ok(())
    }
}

/// Lets an item die and returns how long it takes until its dead letter is written.
fn insert(many: &mut DlqGenerator) -> Result<f64, Error> {
    let records = many.fail_items(1)?;
    let began = Instant::now();
    for (record, place) in &records {
        many.dead_letter_writer().apply(record, Some(*place));
    }
    many.dead_letter_writer().flush();
    Ok(began.elapsed().as_secs_f64())
}

/// Writes what the newest dead letter has to another file, and returns how long that takes.
fn copy(many: &DlqGenerator) -> Result<f64, Error> {
    let entry = many.newest_entry()?;
    let failed = |source| Error::File { path: entry.clone(), source };
    let bytes = fs::read(&entry).map_err(failed)?;
    let copy = entry.with_extension("copy");
    let began = Instant::now();
    File::create_new(&copy).and_then(|mut file| file.write_all(&bytes)).map_err(failed)?;
    let seconds = began.elapsed().as_secs_f64();
    fs::remove_file(&copy).map_err(failed)?;
    Ok(seconds)
}

/// Returns what the measurements say about the budgets.
pub(super) fn rows([few, last]: &[InsertTimings; 2]) -> Vec<BenchRow> {
    let row = |inserted: &InsertTimings| BenchRow {
        what: format!(
            "one more dead letter after {}: p50 / p99 of the best round",
            inserted.entries
        ),
        measured: inserted.ours.shown(),
        floor: format!("a file of its size: {}", inserted.floor.shown()),
        ratio: inserted.ours.percentile(99) / MOST_SECONDS,
        budget: format!("p99 {}", milliseconds(MOST_SECONDS)),
        limit: Some(1.0),
    };
    let growth = BenchRow {
        what: format!("one more dead letter after {}", last.entries),
        measured: milliseconds(last.ours.percentile(50)),
        floor: format!("after {}: {}", few.entries, milliseconds(few.ours.percentile(50))),
        ratio: last.ours.percentile(50) / few.ours.percentile(50),
        budget: format!("{MOST_GROWTH} × floor"),
        limit: Some(MOST_GROWTH),
    };
    vec![row(few), row(last), growth]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::table::render;

    fn inserted(entries: u32, seconds: f64, worst: f64) -> InsertTimings {
        let round = |by: f64| {
            let mut round = Samples::default();
            (0..97).for_each(|_| round.add(seconds * by));
            (0..3).for_each(|_| round.add(worst * by));
            round
        };
        // One round that was disturbed does not count.
        let ours = RoundSamples(vec![round(9.0), round(1.0)]);
        InsertTimings { entries, floor: RoundSamples(vec![round(0.25)]), ours }
    }

    #[test]
    fn dead_letters_that_become_dearer_or_are_sometimes_slow_are_noticed() {
        let rows = rows(&[inserted(10, 0.0002, 0.0009), inserted(100_000, 0.0004, 0.002)]);
        insta::assert_snapshot!(render(&rows), @"
        | What | Measured (best / median) | Held against | Ratio | Budget | |
        |---|---|---|---|---|---|
        | one more dead letter after 10: p50 / p99 of the best round | 0.20 ms / 0.90 ms (all rounds 1.80 ms / 8.10 ms) | a file of its size: 0.05 ms / 0.23 ms (all rounds 0.05 ms / 0.23 ms) | 0.90 | p99 1.00 ms | ok |
        | one more dead letter after 100000: p50 / p99 of the best round | 0.40 ms / 2.00 ms (all rounds 3.60 ms / 18.00 ms) | a file of its size: 0.10 ms / 0.50 ms (all rounds 0.10 ms / 0.50 ms) | 2.00 | p99 1.00 ms | MISSED |
        | one more dead letter after 100000 | 0.40 ms | after 10: 0.20 ms | 2.00 | 1.5 × floor | MISSED |
        ");
    }
}
