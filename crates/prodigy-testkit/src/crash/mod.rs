//! Starting prodigy, killing it, and resuming it until a job is done.

pub(crate) mod attempt_log;
pub mod dlq;
pub mod effects;
pub(crate) mod failed_work;
pub(crate) mod journal_watch;
pub(crate) mod kill_point;
pub mod map;
pub mod merge;
pub mod races;
pub(crate) mod repository_checks;
pub(crate) mod seeded_random;
pub mod sequential;

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, ExitStatus},
    time::{Duration, Instant},
};

use crate::{
    TestEnv,
    crash::{journal_watch::JournalWatch, seeded_random::SeededRandom},
};

pub use crate::crash::kill_point::KillCounts;
pub(crate) use crate::crash::kill_point::{FIRST_WRITE, KillPoint};

/// The longest that one start of prodigy may take.
const START_LIMIT: Duration = Duration::from_secs(60);

/// The time in which a resume that is killed at once has not got far.
const BURST: Duration = Duration::from_millis(300);

/// The longest that processes of a finished job may linger.
const LINGER_LIMIT: Duration = Duration::from_secs(20);

/// The maximum number of kills in one trial.
const MOST_KILLS: u64 = 4;

/// The maximum number of starts of prodigy in one trial, so that a job that never ends is noticed.
const MOST_STARTS: u32 = 12;

/// The time between two looks at the journals when a record is waited for.
const LOOK_EVERY: Duration = Duration::from_micros(100);

/// A trial that went well.
#[derive(Clone, Debug)]
pub struct TrialReport {
    /// The number of starts of prodigy.
    pub starts: u32,
    /// The number of kills.
    pub kills: u32,
    /// The kills among these that came right after a record, by its kind.
    pub by_kind: KillCounts,
    /// The duration of the whole trial.
    pub duration: Duration,
}

/// A trial that did not.
#[derive(Debug)]
pub struct TrialFailure {
    /// The error.
    pub message: String,
    /// The log of the trial.
    pub transcript: String,
    /// The world in which it happened.
    pub world: TestEnv,
}

impl std::fmt::Display for TrialFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}\n{}", self.message, self.transcript)
    }
}

/// A workflow that is started, killed and resumed in a world of its own.
pub(crate) struct CrashTrial {
    pub(crate) world: TestEnv,
    /// The number of kills of prodigy.
    pub(crate) kills: u32,
    by_kind: KillCounts,
    file: String,
    random: SeededRandom,
    transcript: Vec<String>,
    began: Instant,
    starts: u32,
    runs: u32,
    limit: Duration,
    bursts: bool,
    leaves_dead: bool,
    kinds: &'static [&'static str],
}

impl CrashTrial {
    pub(crate) fn new(world: TestEnv, file: &str, seed: u64) -> Self {
        Self {
            world,
            kills: 0,
            by_kind: KillCounts::default(),
            file: file.to_owned(),
            random: SeededRandom(seed),
            transcript: Vec::new(),
            began: Instant::now(),
            starts: 0,
            runs: 0,
            limit: START_LIMIT,
            bursts: false,
            leaves_dead: false,
            kinds: &[],
        }
    }

    /// Lets one start of prodigy take so long.
    pub(crate) fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Kills some starts when they have hardly begun, which is when a resume tidies up.
    pub(crate) fn with_bursts(mut self) -> Self {
        self.bursts = true;
        self
    }

    /// Kills about half of the starts right after a record of one of these kinds; the kind
    /// [`FIRST_WRITE`] is the first thing that is written of a job.
    pub(crate) fn with_records(mut self, kinds: &'static [&'static str]) -> Self {
        self.kinds = kinds;
        self
    }

    /// Leaves dead letters alone, so that each item ends once.
    pub(crate) fn without_replays(mut self) -> Self {
        self.leaves_dead = true;
        self
    }

    /// Returns what it took to get the job done.
    pub(crate) fn report(&self) -> TrialReport {
        let (starts, kills, by_kind) = (self.starts, self.kills, self.by_kind.clone());
        TrialReport { starts, kills, by_kind, duration: self.began.elapsed() }
    }

    /// Returns everything that a person needs to find out what went wrong.
    pub(crate) fn fail(self, message: String) -> TrialFailure {
        let transcript = self.transcript.join("\n");
        TrialFailure { message, transcript, world: self.world }
    }

    /// Starts, kills and resumes until the job is done, and returns the job.
    ///
    /// After each kill, `after_kill` gets the job and checks what must hold.
    pub(crate) fn run_to_completion(
        &mut self,
        span: Duration,
        after_kill: impl Fn(&Self, &str) -> Result<(), String>,
    ) -> Result<String, String> {
        let mut kills_left = if span.is_zero() { 0 } else { 1 + self.random.below(MOST_KILLS) };
        let (mut job, mut known, mut left) = (self.next_job(), false, span);
        loop {
            if self.starts == MOST_STARTS {
                return Err(format!("not done after {MOST_STARTS} starts"));
            }
            let kill = (kills_left > 0).then(|| self.kill_point(left));
            let began = Instant::now();
            let file = self.file.clone();
            let args: Vec<&str> = if known {
                let mut args = vec!["resume", &job, "-y"];
                args.extend(self.leaves_dead.then_some("--no-dlq"));
                args
            } else {
                vec!["run", &file, "-y", "--job-id", &job]
            };
            let end = self.start(&args, kill)?;
            if let Some(status) = end {
                return if status.success() || self.is_completed(&job) {
                    Ok(job)
                } else {
                    Err(format!("`prodigy {}` ended with {status}", args.join(" ")))
                };
            }
            kills_left -= 1;
            // What is done is not done again, so the next run is shorter.
            left = left.saturating_sub(began.elapsed()).max(span / 10);
            after_kill(self, &job)?;
            known = !self.records(&job).is_empty();
            if !known {
                // Killed before the job existed: as if it had never been started.
                job = self.next_job();
            }
        }
    }

    pub(crate) fn next_job(&mut self) -> String {
        self.runs += 1;
        format!("crash-{}", self.runs)
    }

    /// Returns a number below `bound`, which is not zero.
    pub(crate) fn random_below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    /// Returns when the next start is killed: within `span`, or right after a record.
    pub(crate) fn kill_point(&mut self, span: Duration) -> KillPoint {
        if !self.kinds.is_empty() && self.random.below(2) == 0 {
            let (kinds, is_first) = (self.kinds, self.starts == 0);
            return KillPoint::after_record(kinds, is_first, |bound| self.random.below(bound));
        }
        let is_burst = self.bursts && self.starts > 0 && self.random.below(3) == 0;
        let span = if is_burst { span.min(BURST) } else { span };
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        KillPoint::Elapsed(Duration::from_micros(self.random.below(micros.max(1))))
    }

    /// Runs prodigy and returns how it ended, or `None` if it was killed on the way.
    pub(crate) fn start(
        &mut self,
        args: &[&str],
        kill: Option<KillPoint>,
    ) -> Result<Option<ExitStatus>, String> {
        self.starts += 1;
        let log = self.log(self.starts);
        // Files, not pipes: an orphan that holds a pipe open must not hold up the trial.
        let output = File::create(&log).unwrap();
        let errors = output.try_clone().unwrap();
        let began = Instant::now();
        let home = self.world.home();
        let mut watch = match kill {
            Some(KillPoint::Record { kind, nth, .. }) => {
                Some(JournalWatch::for_record(&home, kind, nth))
            }
            Some(KillPoint::FirstWrite) => Some(JournalWatch::for_first_write(&home)),
            Some(KillPoint::Elapsed(_) | KillPoint::File { .. } | KillPoint::Change { .. })
            | None => None,
        };
        let limit = match kill {
            Some(KillPoint::Elapsed(after)) => after,
            Some(
                KillPoint::Record { .. }
                | KillPoint::FirstWrite
                | KillPoint::File { .. }
                | KillPoint::Change { .. },
            )
            | None => self.limit,
        };
        let delay = match kill {
            Some(KillPoint::Record { delay, .. } | KillPoint::File { delay, .. }) => delay,
            Some(KillPoint::Elapsed(_) | KillPoint::FirstWrite | KillPoint::Change { .. })
            | None => Duration::ZERO,
        };
        let file = match kill {
            Some(KillPoint::File { path, .. }) => Some((self.world.repo().join(path), None)),
            Some(KillPoint::Change { path }) => {
                let path = self.world.repo().join(path);
                let before = fs::read(&path).unwrap_or_default();
                Some((path, Some(before)))
            }
            Some(KillPoint::Record { .. } | KillPoint::FirstWrite | KillPoint::Elapsed(_))
            | None => None,
        };
        let mut child =
            self.world.prodigy_command(args).stdout(output).stderr(errors).spawn().unwrap();
        let mut is_due = || match (&mut watch, &file) {
            (Some(watch), _) => watch.is_due(),
            (None, file) => file.as_ref().is_some_and(|(path, before)| {
                fs::read(path).is_ok_and(|now| before.as_ref() != Some(&now))
            }),
        };
        let is_watching = !matches!(kill, Some(KillPoint::Elapsed(_)) | None);
        let end = wait(&mut child, limit, is_watching.then_some((&mut is_due, delay)));
        let killed = end.is_none();
        let how = match (end, kill) {
            (Some(status), _) => status.to_string(),
            (None, Some(KillPoint::Record { kind, nth, delay })) => {
                format!("killed {} µs after {kind} {nth}", delay.as_micros())
            }
            (None, Some(KillPoint::File { path, delay })) => {
                format!("killed {} µs after {path}", delay.as_micros())
            }
            (None, Some(KillPoint::Change { path })) => format!("killed at a change of {path}"),
            (None, Some(KillPoint::FirstWrite)) => "killed at its first write".to_owned(),
            (None, Some(KillPoint::Elapsed(_)) | None) => "killed".to_owned(),
        };
        self.transcript.push(format!(
            "$ prodigy {}   # {how} after {} ms\n{}",
            args.join(" "),
            began.elapsed().as_millis(),
            fs::read_to_string(&log).unwrap_or_default().trim_end(),
        ));
        let is_late = began.elapsed() >= self.limit;
        if killed && (kill.is_none() || is_late) {
            return Err(format!("`prodigy {}` did not end in time", args.join(" ")));
        }
        self.kills += u32::from(killed);
        self.by_kind.count(kill.filter(|_| killed));
        Ok(end)
    }

    fn log(&self, start: u32) -> PathBuf {
        self.world.root().join(format!("start-{start}.log"))
    }

    /// Returns the job's records as `prodigy events` prints them; nothing for an unknown job.
    pub(crate) fn records(&self, job: &str) -> String {
        self.world.prodigy(&["events", job, "--json"]).stdout
    }

    fn is_completed(&self, job: &str) -> bool {
        self.records(job).contains(r#""event_type":"job_completed""#)
    }
}

/// Runs prodigy and kills it right after its `nth` record of a kind, from 1.
///
/// Panics if it ends before that.
pub fn kill_at_record(world: &TestEnv, args: &[&str], kind: &str, nth: u32) {
    let mut watch = JournalWatch::for_record(&world.home(), kind, nth);
    let log = world.root().join("killed.log");
    let output = File::create(&log).unwrap();
    let errors = output.try_clone().unwrap();
    let mut child = world.prodigy_command(args).stdout(output).stderr(errors).spawn().unwrap();
    let mut is_due = || watch.is_due();
    let end = wait(&mut child, START_LIMIT, Some((&mut is_due, Duration::ZERO)));
    let said = fs::read_to_string(&log).unwrap_or_default();
    assert!(end.is_none() && watch.is_due(), "no {kind} {nth}: {end:?}\n{said}");
}

/// Checks that no process of a world is left: each has the world's home in its environment.
pub fn check_processes(world: &TestEnv) -> Result<(), String> {
    let until = Instant::now() + LINGER_LIMIT;
    loop {
        let left = processes_with(&world.home());
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > until {
            return Err(format!("processes are left:\n{}", left.join("\n")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits for a child at most so long, or until what is watched for is there and some time has
/// passed; then it is killed and `None` is returned.
fn wait(
    child: &mut Child,
    limit: Duration,
    mut watch: Option<(&mut dyn FnMut() -> bool, Duration)>,
) -> Option<ExitStatus> {
    let mut until = Instant::now() + limit;
    let most = if watch.is_some() { LOOK_EVERY } else { Duration::from_millis(2) };
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        if let Some((_, delay)) = watch.take_if(|(is_due, _)| is_due()) {
            until = Instant::now() + delay;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            child.kill().unwrap();
            child.wait().unwrap();
            return None;
        }
        std::thread::sleep(left.min(most));
    }
}

/// Returns the processes whose environment holds a path, as `pid command`.
fn processes_with(path: &Path) -> Vec<String> {
    let path = path.to_string_lossy().into_owned();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        // A process may end while we look, and others are not ours to read.
        let environ = fs::read(entry.path().join("environ")).unwrap_or_default();
        if String::from_utf8_lossy(&environ).contains(&path) {
            let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            found.push(format!("{name} {}", command.trim_end()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_is_found_by_its_environment() {
        let directory = tempfile::tempdir().unwrap();
        let mut child =
            Command::new("sleep").arg("60").env("MARK", directory.path()).spawn().unwrap();
        // The kernel lets us go on a moment before the new program's environment can be seen.
        let start = Instant::now();
        let found = loop {
            let found = processes_with(directory.path());
            if !found.is_empty() || start.elapsed() > Duration::from_secs(5) {
                break found;
            }
        };
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found, [format!("{} sleep 60", child.id())]);
        assert_eq!(processes_with(directory.path()), Vec::<String>::new());
    }

    #[test]
    fn a_seed_always_gives_the_same_numbers() {
        let numbers = |seed| {
            let mut random = SeededRandom(seed);
            (0..4).map(|_| random.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(numbers(1), numbers(1));
        assert_ne!(numbers(1), numbers(2));
    }
}
