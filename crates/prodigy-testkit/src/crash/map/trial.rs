//! One MapReduce job that is killed and resumed until it is done.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{check, workflow};
use crate::{
    TestEnv,
    crash::{CrashTrial, FIRST_WRITE, TrialFailure, TrialReport},
};

/// The longest that one start of prodigy may take, for each item.
const LIMIT_PER_ITEM: Duration = Duration::from_millis(600);

/// The records right after which a job is killed.
const KINDS: &[&str] = &[
    FIRST_WRITE,
    "job_started",
    "job_resumed",
    "phase_started",
    "items_selected",
    "item_queued",
    "agent_started",
    "step_started",
    "step_failed",
    "agent_failed",
    "agent_retrying",
    "item_dead_lettered",
    "worktree_preserved",
    "work_kept",
    "agent_completed",
    "worktree_merged",
    "circuit_open",
    "circuit_half_open",
    "circuit_closed",
    "phase_completed",
    "step_completed",
    "checkpoint_created",
    "checkout_update_started",
    "worktree_cleaned",
    "job_completed",
];

/// A job that survived, and what was in it.
#[derive(Clone, Debug)]
pub struct MapTrialReport {
    /// The starts, the kills and the time.
    pub survived: TrialReport,
    /// The number of items that succeeded.
    pub successful: u32,
    /// The number of items that were dead-lettered.
    pub dead: u32,
    /// The number of these that were in flight in too many crashes.
    pub poison: u32,
    /// The number of times the circuit breaker opened.
    pub opened: u32,
}

/// Runs the job once without killing it, checks it, and returns how long it took.
pub fn run_map_without_kills(
    binary: &Path,
    items: u32,
) -> Result<MapTrialReport, Box<TrialFailure>> {
    run_map_trial(binary, 0, Duration::ZERO, items)
}

/// Runs the job, kills it at moments within `span` that `seed` decides, resumes it until it is
/// done, and checks what became of each item. A `span` of zero kills nothing.
pub fn run_map_trial(
    binary: &Path,
    seed: u64,
    span: Duration,
    items: u32,
) -> Result<MapTrialReport, Box<TrialFailure>> {
    let world = TestEnv::with_repo(binary);
    let path = attempt_log_dir(&world);
    fs::create_dir(&path).unwrap();
    let world = world.env("LEDGER", &path.to_string_lossy());
    world.write("map.yml", workflow::text(items, !seed.is_multiple_of(3)));
    world.commit_all("workflow");
    let base = world.git(&["rev-parse", "HEAD"]);
    let works: Vec<_> = workflow::map_cases(items).collect();
    let mut trial = CrashTrial::new(world, "map.yml", seed)
        .limit(Duration::from_secs(60) + LIMIT_PER_ITEM * items)
        .with_bursts()
        .with_records(KINDS)
        .without_replays();
    let done =
        trial.run_to_completion(span, |trial, job| check::check_killed(trial, job, &base, &works));
    let checked = done.and_then(|job| check::check(&trial, &job, &base, &works));
    let account = match checked {
        Ok(account) => account,
        Err(message) => return Err(Box::new(trial.fail(message))),
    };
    let (successful, dead, poison) = account.totals();
    let opened = account.opened;
    Ok(MapTrialReport { survived: trial.report(), successful, dead, poison, opened })
}

/// Returns where the items write down what they do.
pub(crate) fn attempt_log_dir(world: &TestEnv) -> PathBuf {
    world.root().join("ledger")
}
