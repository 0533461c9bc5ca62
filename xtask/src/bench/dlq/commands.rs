//! The cost of the commands that go through many dead letters.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use super::generator::DlqFixture;
use crate::{
    bench::{
        items::{start, wait},
        memory::peak,
        table::BenchRow,
        timing::{Samples, milliseconds, time},
    },
    error::Error,
    program::read,
};

const ROUNDS: usize = 10;
const MOST_LISTING: f64 = 0.1;
/// The longest that deciding over one entry may take: 100,000 of them in three seconds.
const MOST_DECIDING: f64 = 3.0 / 100_000.0;
/// The most memory that one more dead letter may need, in bytes.
const MOST_BYTES: f64 = 2048.0;
/// The number of dead letters that are really replayed, whatever the total.
const REPLAYED: u32 = 1000;
/// The time between two looks at a process that may be gone after some milliseconds.
const PAUSE: Duration = Duration::from_micros(200);

/// Measures the commands on a job with some dead letters and on one with many.
pub(super) fn measure(some: &DlqFixture, many: &DlqFixture) -> Result<Vec<BenchRow>, Error> {
    let mut rows = vec![list(many)?, plan(many)?];
    let planned = |dead: &DlqFixture| {
        let peaks = (0..ROUNDS).map(|_| peak_of(dead, "plan", &["--json"]));
        peaks.collect::<Result<Vec<_>, _>>().map(|peaks| peaks.into_iter().max().unwrap_or(0))
    };
    rows.push(memory("`dlq plan`", [(some, planned(some)?), (many, planned(many)?)]));
    let limit = REPLAYED.to_string();
    let real = |dead: &DlqFixture| {
        let peak = peak_of(dead, "retry", &["-y", "--limit", &limit])?;
        check(dead)?;
        Ok::<_, Error>(peak)
    };
    let what = format!("`dlq retry` of {REPLAYED}");
    rows.push(memory(&what, [(some, real(some)?), (many, real(many)?)]));
    Ok(rows)
}

fn list(dead: &DlqFixture) -> Result<BenchRow, Error> {
    let (mut ours, mut floor) = (Samples::default(), Samples::default());
    let args = ["dlq", "list", &dead.job, "--limit", "20"];
    let listed = read(&mut dead.world.prodigy_command(&args))?;
    if listed.lines().filter(|line| line.starts_with("item-")).count() != 20 {
        return Err(Error::Incomplete(format!("`dlq list --limit 20` printed:\n{listed}")));
    }
    for _ in 0..ROUNDS {
        floor.add(time(&mut Command::new("true"))?.as_secs_f64());
        ours.add(time(&mut dead.world.prodigy_command(&args))?.as_secs_f64());
    }
    Ok(BenchRow {
        what: format!("`dlq list --limit 20` of {} dead letters", dead.entries),
        measured: ours.shown(),
        floor: format!("`true`: {}", floor.shown()),
        ratio: ours.best() / MOST_LISTING,
        budget: milliseconds(MOST_LISTING),
        limit: Some(1.0),
    })
}

/// Measures deciding over every entry, the start of the program and its output included.
fn plan(dead: &DlqFixture) -> Result<BenchRow, Error> {
    let (mut ours, mut floor) = (Samples::default(), Samples::default());
    let args = ["dlq", "plan", &dead.job];
    let planned = read(&mut dead.world.prodigy_command(&args))?;
    let decided = planned.lines().filter(|line| line.contains(" item-")).count();
    if u32::try_from(decided) != Ok(dead.entries) {
        let message = format!("`dlq plan` decided over {decided} of {} entries", dead.entries);
        return Err(Error::Incomplete(message));
    }
    for _ in 0..ROUNDS {
        floor.add(time(&mut Command::new("true"))?.as_secs_f64());
        ours.add(time(&mut dead.world.prodigy_command(&args))?.as_secs_f64());
    }
    let most = f64::from(dead.entries) * MOST_DECIDING;
    Ok(BenchRow {
        what: format!("`dlq plan` of {} dead letters", dead.entries),
        measured: ours.shown(),
        floor: format!("`true`: {}", floor.shown()),
        ratio: ours.best() / most,
        budget: milliseconds(most),
        limit: Some(1.0),
    })
}

/// Returns the most memory that a command needed, in kibibytes.
fn peak_of(dead: &DlqFixture, command: &str, more: &[&str]) -> Result<u32, Error> {
    let args = [&["dlq", command, &dead.job], more].concat();
    let mut most = 0;
    let mut child = start(&mut dead.world.prodigy_command(&args))?;
    let status = wait(&mut child, PAUSE, |pid| most = most.max(peak(pid).unwrap_or(0)))?;
    if status.success() {
        return Ok(most);
    }
    let command = format!("prodigy {}", args.join(" "));
    Err(Error::Failed { command, status: status.to_string(), stderr: String::new() })
}

/// A replay that needed little because it left something out is no measurement.
fn check(dead: &DlqFixture) -> Result<(), Error> {
    let mut stats = dead.world.prodigy_command(&["dlq", "stats", &dead.job, "--json"]);
    stats.stderr(Stdio::null());
    let stats: serde_json::Value = serde_json::from_str(&read(&mut stats)?)
        .map_err(|error| Error::Incomplete(format!("`dlq stats` cannot be read: {error}")))?;
    let resolved = stats.pointer("/resolved").and_then(serde_json::Value::as_u64);
    if resolved == Some(u64::from(REPLAYED)) {
        return Ok(());
    }
    Err(Error::Incomplete(format!("{resolved:?} of {REPLAYED} dead letters were replayed")))
}

fn memory(what: &str, [(some, few), (many, most)]: [(&DlqFixture, u32); 2]) -> BenchRow {
    let megabytes = |kilobytes: u32| f64::from(kilobytes) * 1.024 / 1000.0;
    let more = f64::from(many.entries - some.entries);
    let each = (f64::from(most) - f64::from(few)).max(0.0) * 1024.0 / more;
    BenchRow {
        what: format!("peak memory of {what}, {} dead letters", many.entries),
        measured: format!("{:.1} MB, {each:.0} bytes each", megabytes(most)),
        floor: format!("{} dead letters: {:.1} MB", some.entries, megabytes(few)),
        ratio: each / MOST_BYTES,
        budget: format!("{MOST_BYTES:.0} bytes each"),
        limit: Some(1.0),
    }
}
