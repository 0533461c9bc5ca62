//! The cost of a dead letter: to write one more, to list some of many, to replay them.
//!
//! A job with so many dead letters is made from the records of a small real one, with the
//! engine's own writer of journals and dead letters.

mod commands;
mod generator;
mod insert;

use std::path::Path;

use super::table::BenchRow;
use crate::error::Error;
use generator::DlqGenerator;

/// A number of dead letters that should not matter yet.
const FEW: u32 = 10;

/// The number of dead letters in the smaller of two jobs.
const SOME: u32 = 1000;

/// Measures a job with so many dead letters, beside smaller ones.
pub(super) fn measure(binary: &Path, entries: u32) -> Result<Vec<BenchRow>, Error> {
    let mut few = DlqGenerator::begin(binary, FEW + insert::SAMPLES)?;
    let mut many = DlqGenerator::begin(binary, entries)?;
    let before = entries.saturating_sub(insert::SAMPLES);
    let mut rows = insert::rows(&insert::measure([(&mut few, FEW), (&mut many, before)])?);
    let many = many.finish()?;
    let some = DlqGenerator::begin(binary, SOME)?.finish()?;
    rows.extend(commands::measure(&some, &many)?);
    Ok(rows)
}
