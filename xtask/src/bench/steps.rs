//! The cost of one more shell step, beside starting the shell itself.
//!
//! Two lengths of workflow are run and subtracted, so that starting prodigy, making
//! the worktree and merging do not count. The floor is the same number of `sh -c :`,
//! started from here.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use prodigy_testkit::TestEnv;

use super::{
    table::BenchRow,
    timing::{Samples, time},
};
use crate::{error::Error, program::run};

const ROUNDS: usize = 5;
const SHORT: u32 = 100;
const LONG: u32 = 400;
const MOST_RATIO: f64 = 1.5;

pub(super) fn measure(binary: &Path) -> Result<Vec<BenchRow>, Error> {
    let world = TestEnv::with_repo(binary);
    world.write("short.yml", workflow(SHORT));
    world.write("long.yml", workflow(LONG));
    world.commit_all("workflows");
    let difference = f64::from(LONG - SHORT);
    let (mut short, mut long, mut floor) =
        (Samples::default(), Samples::default(), Samples::default());
    let mut differences = Samples::default();
    for _ in 0..ROUNDS {
        let a = time(&mut world.prodigy_command(&["run", "short.yml", "-y"]))?.as_secs_f64();
        floor.add(shells_baseline(LONG - SHORT)? / difference);
        let b = time(&mut world.prodigy_command(&["run", "long.yml", "-y"]))?.as_secs_f64();
        short.add(a);
        long.add(b);
        differences.add((b - a) / difference);
    }
    let best = (long.best() - short.best()) / difference;
    let ratio = best / floor.best();
    Ok(vec![BenchRow {
        what: "one more `shell: \":\"`".to_owned(),
        measured: format!("{:.2} ms / {:.2} ms", best * 1e3, differences.median() * 1e3),
        floor: format!("`sh -c :`: {}", floor.shown()),
        ratio,
        budget: format!("{MOST_RATIO} × floor"),
        limit: Some(MOST_RATIO),
    }])
}

fn workflow(steps: u32) -> String {
    let mut text = String::from("name: steps\nsteps:\n");
    for _ in 0..steps {
        text.push_str("  - shell: \":\"\n");
    }
    text
}

/// Starts so many shells one after the other and returns how long that took.
fn shells_baseline(count: u32) -> Result<f64, Error> {
    let began = Instant::now();
    for _ in 0..count {
        // Nothing is read or piped here: the floor is the least that a shell can cost.
        let mut shell = Command::new("sh");
        shell.args(["-c", ":"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        run(&mut shell)?;
    }
    Ok(began.elapsed().as_secs_f64())
}
