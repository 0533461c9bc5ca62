//! One job whose dead letters are replayed, killed on the way, until all is done.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::{
    check::{check_end, check_now},
    journal::{DlqItemHistory, DlqJournal},
    workflow::{self, DlqCase},
};
use crate::{
    TestEnv,
    crash::{CrashTrial, TrialFailure, TrialReport},
};

/// The longest that one start of prodigy may take, for each item.
const LIMIT_PER_ITEM: Duration = Duration::from_secs(1);

/// The number of kills of replays in one trial, at least and at most.
const KILLS: std::ops::RangeInclusive<u64> = 3..=9;

/// The maximum number of replays in one trial, so that one that never ends is noticed.
const MOST_REPLAYS: u32 = 40;

/// The records right after which a run or a replay is killed.
const KINDS: &[&str] = &[
    "job_resumed",
    "replay_started",
    "agent_started",
    "agent_failed",
    "item_dead_lettered",
    "worktree_preserved",
    "agent_completed",
    "worktree_merged",
    "phase_started",
    "phase_completed",
    "step_started",
    "step_completed",
    "worktree_created",
    "checkout_update_started",
    "worktree_cleaned",
    "job_completed",
];

/// A job whose dead letters survived, and what was in it.
#[derive(Clone, Debug)]
pub struct DlqTrialReport {
    /// The starts, the kills and the time.
    pub survived: TrialReport,
    /// The duration of the first replay that was not killed.
    pub replay: Duration,
    /// The number of times items were dead-lettered.
    pub deaths: u32,
    /// The number of replays of dead letters.
    pub replays: u32,
    /// The number of attempts that were cut off.
    pub lost: u32,
    /// The number of dead letters that are open in the end.
    pub open: u32,
}

/// Runs the job and replays its dead letters without killing anything, and checks it.
pub fn run_dlq_without_kills(
    binary: &Path,
    items: u32,
) -> Result<DlqTrialReport, Box<TrialFailure>> {
    run_dlq_trial(binary, 0, Duration::ZERO, items)
}

/// Runs the job and replays its dead letters until none is left that may be, kills the replays at
/// moments within `span` that `seed` decides, and checks the dead letters after each kill. A
/// `span` of zero kills nothing.
pub fn run_dlq_trial(
    binary: &Path,
    seed: u64,
    span: Duration,
    items: u32,
) -> Result<DlqTrialReport, Box<TrialFailure>> {
    let world = TestEnv::with_repo(binary);
    let path = attempt_log_dir(&world);
    fs::create_dir(&path).unwrap();
    let world = world.env("LEDGER", &path.to_string_lossy());
    let cases = workflow::cases(items);
    world.write("dlq.yml", workflow::text(&cases));
    world.write(".prodigy/replay-policy.yml", workflow::POLICY);
    world.commit_all("workflow");
    let base = world.git(&["rev-parse", "HEAD"]);
    let mut trial = CrashTrial::new(world, "dlq.yml", seed)
        .limit(Duration::from_secs(60) + LIMIT_PER_ITEM * items)
        .with_bursts()
        .with_records(KINDS);
    match run(&mut trial, span, &base, &cases) {
        Ok((story, replay)) => Ok(trial_report(&trial, &story, replay)),
        Err(message) => Err(Box::new(trial.fail(message))),
    }
}

/// Returns where the items write down what they do.
pub(crate) fn attempt_log_dir(world: &TestEnv) -> PathBuf {
    world.root().join("ledger")
}

fn trial_report(trial: &CrashTrial, story: &DlqJournal, replay: Duration) -> DlqTrialReport {
    let count = |of: fn(&DlqItemHistory) -> usize| {
        u32::try_from(story.items.values().map(of).sum::<usize>()).unwrap()
    };
    DlqTrialReport {
        survived: trial.report(),
        replay,
        deaths: story.items.values().map(|life| life.deaths).sum(),
        replays: story.items.values().map(|life| life.replays).sum(),
        lost: count(|life| life.failures.len() - life.failed.len()),
        open: count(|life| usize::from(life.is_dead())),
    }
}

fn run(
    trial: &mut CrashTrial,
    span: Duration,
    base: &str,
    cases: &[DlqCase],
) -> Result<(DlqJournal, Duration), String> {
    // The run before the first replay is the business of another trial; now and then it is
    // killed all the same, because what it leaves is what is replayed.
    let first = if trial.random_below(4) == 0 { span } else { Duration::ZERO };
    let job = trial.run_to_completion(first, |trial, job| match trial.records(job).as_str() {
        "" => Ok(()),
        _ => check_now(trial, job, cases).map(drop),
    })?;
    let most = KILLS.end() - KILLS.start() + 1;
    let mut kills_left = if span.is_zero() { 0 } else { KILLS.start() + trial.random_below(most) };
    let mut replay = None;
    for _ in 0..MOST_REPLAYS {
        let story = check_now(trial, &job, cases)?;
        let Some(args) = next_command(trial, &job, &story, cases) else {
            return Ok((check_end(trial, &job, base, cases)?, replay.unwrap_or_default()));
        };
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        let kill = (kills_left > 0).then(|| trial.kill_point(span));
        let began = Instant::now();
        match trial.start(&args, kill)? {
            None => kills_left -= 1,
            // It ends with 3 if nothing that it replayed was resolved.
            Some(status) if matches!(status.code(), Some(0 | 3)) => {
                replay.get_or_insert(began.elapsed());
            }
            Some(status) => {
                return Err(format!("`prodigy {}` ended with {status}", args.join(" ")));
            }
        }
    }
    Err(format!("not done after {MOST_REPLAYS} replays"))
}

/// Returns what is started next; nothing once the job is over and all is replayed that may be.
fn next_command(
    trial: &mut CrashTrial,
    job: &str,
    story: &DlqJournal,
    cases: &[DlqCase],
) -> Option<Vec<String>> {
    let stays = |id: &String| cases.iter().any(|case| case.stays_dead() && case.id() == *id);
    let is_left = |life: &DlqItemHistory| matches!(life.status(), Some("open" | "replaying"));
    let left: Vec<_> =
        story.items.iter().filter(|(id, life)| is_left(life) && !stays(id)).collect();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    if left.is_empty() {
        return (!story.is_over).then(|| words(&["resume", job, "-y"]));
    }
    if !story.is_over && trial.random_below(3) == 0 {
        return Some(words(&["resume", job, "-y"]));
    }
    let mut args = words(&["dlq", "retry", job, "-y"]);
    if trial.random_below(4) == 0 {
        args.push("--rerun-reduce".to_owned());
    }
    if trial.random_below(3) > 0 && left.iter().any(|(_, life)| !life.is_refused()) {
        return Some(args);
    }
    let sure = usize::try_from(trial.random_below(left.len() as u64)).unwrap_or_default();
    for (at, (id, life)) in left.iter().enumerate() {
        if at != sure && trial.random_below(2) == 0 {
            continue;
        }
        if life.is_refused() {
            args.extend(words(&["--force", id]));
        } else {
            args.push((*id).clone());
        }
    }
    args.push("--reason=it was mended".to_owned());
    Some(args)
}
