//! The time that `prodigy --version` takes, and the size of the binary.

use std::{fs, path::Path, process::Command};

use super::{
    table::BenchRow,
    timing::{Samples, milliseconds, time},
};
use crate::error::Error;

const ROUNDS: usize = 60;
const FACTOR: f64 = 3.0;
const EXTRA_SECONDS: f64 = 0.005;
const MOST_MEGABYTES: f64 = 20.0;

pub(crate) fn measure(binary: &Path) -> Result<Vec<BenchRow>, Error> {
    let (mut ours, mut floor) = (Samples::default(), Samples::default());
    for _ in 0..ROUNDS {
        floor.add(time(&mut Command::new("true"))?.as_secs_f64());
        ours.add(time(Command::new(binary).arg("--version"))?.as_secs_f64());
    }
    let budget = FACTOR * floor.best() + EXTRA_SECONDS;
    let start = BenchRow {
        what: "`prodigy --version`".to_owned(),
        measured: ours.shown(),
        floor: format!("`true`: {}", floor.shown()),
        ratio: ours.best() / floor.best(),
        budget: format!("3 × floor + 5 ms = {}", milliseconds(budget)),
        limit: Some(budget / floor.best()),
    };
    Ok(vec![start, size(binary)?])
}

fn size(binary: &Path) -> Result<BenchRow, Error> {
    let bytes = fs::metadata(binary)
        .map_err(|source| Error::File { path: binary.to_owned(), source })?
        .len();
    // In kilobytes any size that fits on a disk is exact as a number with a fraction.
    let megabytes = f64::from(u32::try_from(bytes / 1000).unwrap_or(u32::MAX)) / 1000.0;
    Ok(BenchRow {
        what: "size of the binary".to_owned(),
        measured: format!("{megabytes:.1} MB"),
        floor: "–".to_owned(),
        ratio: megabytes / MOST_MEGABYTES,
        budget: format!("{MOST_MEGABYTES:.0} MB"),
        limit: Some(1.0),
    })
}
