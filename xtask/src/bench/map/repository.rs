//! The repository that everything is measured in, and doing many things at once.

use std::{
    path::Path,
    process::{Command, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::Instant,
};

use prodigy_testkit::TestEnv;

use super::SLOTS;
use crate::{error::Error, program};

/// The number of small files in the repository.
const FILES: u32 = 50;

/// The number of items that have a line of their own in each file.
const PARTS: u32 = 20;

/// The lines from one item's line to the next; git merges changes that are so far apart.
const APART: u32 = 5;

/// Makes a repository with a few small files.
pub(crate) fn repository(binary: &Path) -> TestEnv {
    let world = TestEnv::with_repo(binary);
    for number in 0..FILES {
        let lines: Vec<_> = (1..=PARTS * APART).map(|line| format!("line {line}\n")).collect();
        world.write(&file(number), lines.concat());
    }
    world.commit_all("files");
    world
}

/// Returns the file that an item edits.
pub(crate) fn file(item: u32) -> String {
    format!("src/part-{:02}.txt", item % FILES)
}

/// Returns the line that an item edits in its file.
///
/// The repository has the same size whatever the number of items, and no two items edit the
/// same line, so that nothing conflicts however late it is merged.
pub(crate) fn line(item: u32) -> u32 {
    (item / FILES) % PARTS * APART + 1
}

/// Does the work for each number below `items`, [`SLOTS`] at once, and returns the seconds per item.
///
/// The work gets the slot and the number; after its first failure nothing more is started.
pub(crate) fn run_concurrently(
    items: u32,
    work: impl Fn(u32, u32) -> Result<(), Error> + Sync,
) -> Result<f64, Error> {
    let (next, failed) = (AtomicU32::new(0), Mutex::new(None));
    let began = Instant::now();
    thread::scope(|scope| {
        for slot in 0..SLOTS {
            let (next, failed, work) = (&next, &failed, &work);
            scope.spawn(move || {
                loop {
                    let item = next.fetch_add(1, Ordering::Relaxed);
                    if item >= items {
                        return;
                    }
                    if let Err(error) = work(slot, item) {
                        next.store(items, Ordering::Relaxed);
                        failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                        return;
                    }
                }
            });
        }
    });
    let seconds = began.elapsed().as_secs_f64();
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(seconds / f64::from(items)),
    }
}

/// Runs a command whose output nobody wants.
pub(crate) fn run_silent(command: &mut Command) -> Result<(), Error> {
    program::run(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_worked_on_once() {
        let seen = Mutex::new(Vec::new());
        run_concurrently(100, |slot, item| {
            assert!(slot < SLOTS);
            seen.lock().unwrap().push(item);
            Ok(())
        })
        .unwrap();
        let mut seen = seen.into_inner().unwrap();
        seen.sort_unstable();
        assert_eq!(seen, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn each_item_has_a_line_of_its_own() {
        let places = (0..FILES * PARTS).map(|item| (file(item), line(item)));
        assert_eq!(places.collect::<std::collections::BTreeSet<_>>().len(), 1000);
    }

    #[test]
    fn a_floor_that_fails_is_no_measurement() {
        let ended = run_concurrently(100, |_, item| {
            if item == 50 { run_silent(&mut Command::new("false")) } else { Ok(()) }
        });
        assert_eq!(ended.unwrap_err().to_string(), "`false` failed (exit status: 1)");
    }
}
