//! One job that changes things outside, killed on the way, until no more can be done.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::{
    check::{EffectJournal, check_end, check_now},
    workflow::{self, EffectCase, PROGRAM, WorkflowVariant},
};
use crate::{
    TestEnv,
    crash::{CrashTrial, TrialFailure, TrialReport},
};

/// The longest that one start of prodigy may take, for each item.
const LIMIT_PER_ITEM: Duration = Duration::from_secs(1);

/// The maximum number of kills in a trial.
const MOST_KILLS: u64 = 10;

/// The maximum number of starts of prodigy, so that a job that never ends is noticed.
const MOST_STARTS: u32 = 60;

/// Every so many jobs, one has steps and no items.
const STEPS_EVERY: u64 = 4;

/// The kinds of records right after which prodigy is killed.
const KINDS: &[&str] = &["effect_prepared", "effect_committed"];

/// A job whose changes outside survived.
#[derive(Clone, Debug)]
pub struct EffectTrialReport {
    /// The starts, the kills and the time.
    pub survived: TrialReport,
    /// The duration of the run, if it was not killed.
    pub run: Duration,
    /// The number of side effects that were made.
    pub made: u32,
    /// The number of dead letters left whose side effects are unknown.
    pub unknown: u32,
    /// The number of times the job continued with a changed workflow.
    pub changed: u32,
    /// The number of changed workflows that were refused for want of the step of a side effect.
    pub refused: u32,
}

/// Runs the job without killing anything, and checks it.
pub fn run_effects_without_kills(
    binary: &Path,
    items: u32,
) -> Result<EffectTrialReport, Box<TrialFailure>> {
    run_effects_trial(binary, 1, Duration::ZERO, items)
}

/// Runs the job, checks and replays its dead letters until only those are left that need a
/// person, kills prodigy on the way at moments within `span` that `seed` decides, inserts and
/// removes steps of the workflow in between, and checks after each kill what was changed
/// outside. A `span` of zero kills and changes nothing.
pub fn run_effects_trial(
    binary: &Path,
    seed: u64,
    span: Duration,
    items: u32,
) -> Result<EffectTrialReport, Box<TrialFailure>> {
    let world = TestEnv::with_repo(binary);
    let ledger = world.root().join("ledger");
    fs::create_dir(&ledger).unwrap();
    fs::write(ledger.join("make"), PROGRAM).unwrap();
    fs::write(effects_file(&world), "").unwrap();
    let world = world.env("LEDGER", &ledger.to_string_lossy());
    let cases = if seed.is_multiple_of(STEPS_EVERY) { Vec::new() } else { workflow::cases(items) };
    let file = ledger.join("effects.yml");
    let trial = CrashTrial::new(world, &file.to_string_lossy(), seed)
        .limit(Duration::from_secs(60) + LIMIT_PER_ITEM * items)
        .with_records(KINDS)
        .with_bursts();
    let mut course = EffectTrial { trial, cases, file, changed: 0, refused: 0 };
    let began = Instant::now();
    match course.run(span) {
        Ok((told, run)) => Ok(EffectTrialReport {
            survived: course.trial.report(),
            run: run.saturating_duration_since(began),
            made: u32::try_from(lines(&course.trial.world).len()).unwrap(),
            unknown: u32::try_from(told.dead.len()).unwrap(),
            changed: course.changed,
            refused: course.refused,
        }),
        Err(message) => Err(Box::new(course.trial.fail(message))),
    }
}

/// Returns the file that the steps add to.
pub(crate) fn effects_file(world: &TestEnv) -> PathBuf {
    world.root().join("ledger/outside")
}

/// Returns the changes that were made, one line each.
fn lines(world: &TestEnv) -> Vec<String> {
    fs::read_to_string(effects_file(world)).unwrap().lines().map(str::to_owned).collect()
}

/// A trial that is under way.
struct EffectTrial {
    trial: CrashTrial,
    cases: Vec<EffectCase>,
    file: PathBuf,
    changed: u32,
    refused: u32,
}

impl EffectTrial {
    /// Runs the trial; returns what the journal says in the end, and when the first run was
    /// done.
    fn run(&mut self, span: Duration) -> Result<(EffectJournal, Instant), String> {
        let mut variant = WorkflowVariant::first(&mut self.trial, &self.cases);
        fs::write(&self.file, &variant.text).unwrap();
        let mut kills_left =
            if span.is_zero() { 0 } else { 1 + self.trial.random_below(MOST_KILLS) };
        let job = self.begin(span, &mut kills_left)?;
        let mut done = Instant::now();
        for _ in 0..MOST_STARTS {
            let told = check_now(&self.trial, &job)?;
            let Some(mut args) = self.next_command(&job, &told) else {
                return Ok((check_end(&self.trial, &job, &self.cases)?, done));
            };
            let takes_current = args.iter().any(|word| matches!(word.as_str(), "resume" | "retry"));
            let is_changed = takes_current && !span.is_zero() && self.trial.random_below(2) == 0;
            let other =
                is_changed.then(|| variant.with_changed_steps(&mut self.trial, &self.cases));
            if let Some(other) = &other {
                fs::write(&self.file, &other.text).unwrap();
                args.push("--use-current-workflow".to_owned());
            }
            let args: Vec<_> = args.iter().map(String::as_str).collect();
            let kill = (kills_left > 0).then(|| self.trial.kill_point(span / 2));
            match self.trial.start(&args, kill)?.map(|status| (status, status.code())) {
                None => kills_left -= 1,
                // What cannot be checked stays unknown, and `dlq check` says so.
                Some((_, Some(0 | 1))) => {}
                Some((_, Some(2))) if other.is_some() => {
                    // It lacked a step whose change is made.
                    self.refused += 1;
                    fs::write(&self.file, &variant.text).unwrap();
                    continue;
                }
                Some((status, _)) => {
                    return Err(format!("`prodigy {}` ended with {status}", args.join(" ")));
                }
            }
            self.changed += u32::from(other.is_some());
            variant = other.unwrap_or(variant);
            if !told.is_over {
                done = Instant::now();
            }
        }
        Err(format!("not done after {MOST_STARTS} starts"))
    }

    /// Starts the job, as often as it takes to have a first record; returns its name.
    fn begin(&mut self, span: Duration, kills_left: &mut u64) -> Result<String, String> {
        loop {
            let job = self.trial.next_job();
            let file = self.file.to_string_lossy().into_owned();
            let args = ["run", &file, "-y", "--job-id", &job];
            let kill = (*kills_left > 0).then(|| self.trial.kill_point(span));
            match self.trial.start(&args, kill)? {
                None => *kills_left -= 1,
                Some(status) if matches!(status.code(), Some(0 | 1)) => {}
                Some(status) => return Err(format!("`prodigy run` ended with {status}")),
            }
            if !self.trial.records(&job).is_empty() {
                return Ok(job);
            }
        }
    }

    /// Returns what is started next; nothing once only a person can decide what is left.
    fn next_command(&mut self, job: &str, told: &EffectJournal) -> Option<Vec<String>> {
        let words =
            |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let is_open = |case: &EffectCase| told.is_open(&case.id());
        // Of what cannot be checked and may have been made, a person would have to decide.
        let is_left = |case: &&EffectCase| {
            told.dead.contains(&case.id()) && (case.can_check || !is_open(case))
        };
        let left: Vec<String> = self.cases.iter().filter(is_left).map(|case| case.id()).collect();
        if !told.is_over && (left.is_empty() || self.trial.random_below(2) == 0) {
            let mut args = words(&["resume", job, "-y"]);
            args.extend((!self.cases.is_empty()).then(|| "--no-dlq".to_owned()));
            return Some(args);
        }
        let first = left.first()?;
        let is_unknown = self.cases.iter().any(|case| is_left(&case) && is_open(case));
        if is_unknown && self.trial.random_below(3) > 0 {
            let all = words(&["dlq", "check", job]);
            let is_all = self.trial.random_below(2) == 0;
            return Some(if is_all { all } else { words(&["dlq", "check", job, first]) });
        }
        if let Some(id) = left.iter().find(|id| told.quarantined.contains(*id)) {
            return Some(words(&["dlq", "release", job, id, "--reason=it was not its fault"]));
        }
        // The check of a step is asked once more before it is run, so nobody has to look first.
        let mut args = words(&["dlq", "retry", job, "-y", "--reason=it was looked at"]);
        for (at, id) in left.iter().enumerate() {
            if at == 0 || self.trial.random_below(2) == 0 {
                args.extend(words(&["--force", id]));
            }
        }
        Some(args)
    }
}
