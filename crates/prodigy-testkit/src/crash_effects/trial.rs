//! One job that changes things outside, killed on the way, until no more can be done.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::{
    check::{Told, check_end, check_now},
    workflow::{self, Case, PROGRAM},
};
use crate::{
    World,
    killing::{Broken, Survived, Trial},
};

/// The longest that one start of prodigy may take, for each item.
const LIMIT_PER_ITEM: Duration = Duration::from_secs(1);

/// How often prodigy is killed after the first run of a trial, at most.
const MOST_KILLS: u64 = 6;

/// How often it is started at most after that, so that a job that never ends is noticed.
const MOST_STARTS: u32 = 40;

/// A job whose changes outside survived.
#[derive(Clone, Copy, Debug)]
pub struct EffectsSurvived {
    /// The starts, the kills and the time.
    pub survived: Survived,
    /// How long the run took, if it was not killed.
    pub run: Duration,
    /// How many changes were made.
    pub made: u32,
    /// How many dead letters are left of which nobody knows what they changed.
    pub unknown: u32,
}

/// Runs the job without killing anything, and checks it.
pub fn effects_undisturbed(binary: &Path, items: u32) -> Result<EffectsSurvived, Box<Broken>> {
    effects_trial(binary, 0, Duration::ZERO, items)
}

/// Runs the job, checks and replays its dead letters until only those are left that need a
/// person, kills prodigy on the way at moments within `span` that `seed` decides, and checks
/// after each kill what was changed outside. A `span` of zero kills nothing.
pub fn effects_trial(
    binary: &Path,
    seed: u64,
    span: Duration,
    items: u32,
) -> Result<EffectsSurvived, Box<Broken>> {
    let world = World::with_repo(binary);
    let ledger = world.root().join("ledger");
    fs::create_dir(&ledger).unwrap();
    fs::write(ledger.join("make"), PROGRAM).unwrap();
    fs::write(outside(&world), "").unwrap();
    let world = world.env("LEDGER", &ledger.to_string_lossy());
    let cases = workflow::cases(items);
    world.write("effects.yml", workflow::text(&cases));
    world.commit_all("workflow");
    let mut trial = Trial::new(world, "effects.yml", seed)
        .limit(Duration::from_secs(60) + LIMIT_PER_ITEM * items)
        .without_replays()
        .with_bursts();
    let began = Instant::now();
    match run(&mut trial, span, &cases) {
        Ok((told, run)) => Ok(EffectsSurvived {
            survived: trial.survived(),
            run: run.saturating_duration_since(began),
            made: u32::try_from(fs::read_to_string(outside(&trial.world)).unwrap().lines().count())
                .unwrap(),
            unknown: u32::try_from(told.dead.len()).unwrap(),
        }),
        Err(message) => Err(Box::new(trial.broken(message))),
    }
}

/// Returns the file that the steps add to.
pub(super) fn outside(world: &World) -> PathBuf {
    world.root().join("ledger/outside")
}

/// Runs the trial; returns what the journal says in the end, and when the first run was done.
fn run(trial: &mut Trial, span: Duration, cases: &[Case]) -> Result<(Told, Instant), String> {
    let job = trial.until_done(span, |trial, job| match trial.records(job).as_str() {
        "" => Ok(()),
        _ => check_now(trial, job).map(drop),
    })?;
    let done = Instant::now();
    let mut kills_left = if span.is_zero() { 0 } else { trial.pick(MOST_KILLS + 1) };
    for _ in 0..MOST_STARTS {
        let told = check_now(trial, &job)?;
        let Some(args) = next(trial, &job, &told, cases) else {
            return Ok((check_end(trial, &job, cases)?, done));
        };
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        let kill = (kills_left > 0).then(|| trial.moment(span / 2));
        match trial.start(&args, kill)? {
            None => kills_left -= 1,
            // What cannot be checked stays unknown, and `dlq check` says so.
            Some(status) if matches!(status.code(), Some(0 | 1)) => {}
            Some(status) => {
                return Err(format!("`prodigy {}` ended with {status}", args.join(" ")));
            }
        }
    }
    Err(format!("not done after {MOST_STARTS} starts"))
}

/// Returns what is started next; nothing once only a person can decide what is left.
fn next(trial: &mut Trial, job: &str, told: &Told, cases: &[Case]) -> Option<Vec<String>> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let is_open = |case: &Case| told.is_open(&case.key(job));
    // Of what cannot be checked and may have been made, a person would have to decide.
    let is_left =
        |case: &&Case| told.dead.contains(&case.id()) && (case.can_check || !is_open(case));
    let left: Vec<String> = cases.iter().filter(is_left).map(|case| case.id()).collect();
    if !told.is_over && (left.is_empty() || trial.pick(2) == 0) {
        return Some(words(&["resume", job, "-y", "--no-dlq"]));
    }
    let first = left.first()?;
    if cases.iter().any(|case| is_left(&case) && is_open(case)) && trial.pick(3) > 0 {
        let all = words(&["dlq", "check", job]);
        return Some(if trial.pick(2) == 0 { all } else { words(&["dlq", "check", job, first]) });
    }
    if let Some(id) = left.iter().find(|id| told.quarantined.contains(*id)) {
        return Some(words(&["dlq", "release", job, id, "--reason=it was not its fault"]));
    }
    // The check of a step is asked once more before it is run, so nobody has to look first.
    let mut args = words(&["dlq", "retry", job, "-y", "--reason=it was looked at"]);
    for (at, id) in left.iter().enumerate() {
        if at == 0 || trial.pick(2) == 0 {
            args.extend(words(&["--force", id]));
        }
    }
    Some(args)
}
