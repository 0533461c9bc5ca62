//! The needs of 100,000 items: memory, the time to select them, the time to resume their job.

use std::{
    fmt::Write as _,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use prodigy_testkit::TestEnv;
use serde_json::Value;

use super::{
    memory::peak,
    table::BenchRow,
    timing::{Samples, time},
};
use crate::error::Error;

const ITEMS: u32 = 100_000;
const MOST_MEGABYTES: f64 = 300.0;
const MOST_SELECTING: f64 = 2.0;
const MOST_RESUMING: f64 = 3.0;
const ROUNDS: usize = 3;
const LIMIT: Duration = Duration::from_secs(3600);
const JOB: &str = "items";

/// The time between two looks at a process.
const PAUSE: Duration = Duration::from_millis(10);

/// The last phase fails, so that there is a job to resume with every item finished.
const WORKFLOW: &str = "name: items
mode: mapreduce
map:
  input: {file: items.json}
  max_parallel: 10
  isolation: shared
  agent_template:
    - shell: \":\"
reduce:
  - shell: exit 1
";

pub(super) fn measure(binary: &Path) -> Result<Vec<BenchRow>, Error> {
    let world = TestEnv::with_repo(binary);
    world.write("items.json", items(ITEMS));
    world.write("items.yml", WORKFLOW);
    world.commit_all("items");
    let mut plan = Samples::default();
    for _ in 0..ROUNDS {
        plan.add(time(&mut world.prodigy_command(&["plan", "items.yml"]))?.as_secs_f64());
    }
    let kilobytes = peak_of_run(&world)?;
    let journal = JournalTimings::read(&world)?;
    if journal.completed != ITEMS {
        return Err(Error::Incomplete(format!("{} of {ITEMS} items ended", journal.completed)));
    }
    let mut resume = Samples::default();
    for round in 1..=ROUNDS {
        let began = Instant::now();
        let mut child = start(&mut world.prodigy_command(&["resume", JOB, "-y"]))?;
        check_expected_failure(wait(&mut child, PAUSE, |_| ())?)?;
        resume.add(began.elapsed().as_secs_f64());
        let failures = JournalTimings::read(&world)?.failures;
        if failures != round + 1 {
            return Err(Error::Incomplete(format!(
                "`reduce` ran {failures} times, not {}",
                round + 1
            )));
        }
    }
    let megabytes = f64::from(kilobytes) * 1.024 / 1000.0;
    Ok(vec![
        row(
            "peak memory, 100,000 items of 1 KB",
            format!("{megabytes:.1} MB"),
            megabytes,
            MOST_MEGABYTES,
            "MB",
        ),
        seconds("`prodigy plan`, 100,000 items", &plan, MOST_SELECTING),
        row(
            "start of `map` to the first item, 100,000 items",
            format!("{:.2} s", journal.selecting),
            journal.selecting,
            MOST_SELECTING,
            "s",
        ),
        seconds("`prodigy resume` with 100,000 items finished", &resume, MOST_RESUMING),
    ])
}

fn seconds(what: &str, samples: &Samples, most: f64) -> BenchRow {
    let shown = format!("{:.2} s / {:.2} s", samples.best(), samples.median());
    row(what, shown, samples.best(), most, "s")
}

fn row(what: &str, measured: String, value: f64, most: f64, unit: &str) -> BenchRow {
    BenchRow {
        what: what.to_owned(),
        measured,
        floor: "–".to_owned(),
        ratio: value / most,
        budget: format!("{most:.0} {unit}"),
        limit: Some(1.0),
    }
}

/// Returns a JSON list of objects of about a kilobyte each.
fn items(count: u32) -> String {
    let mut text = String::from("[\n");
    for number in 0..count {
        let comma = if number == 0 { "" } else { ",\n" };
        // Writing to a string cannot go wrong.
        write!(text, "{comma}{{\"n\":{number},\"path\":\"src/module-{number}/lib.rs\",\"text\":\"{:x<960}\"}}", "").ok();
    }
    text.push_str("\n]\n");
    text
}

/// Runs the job and returns the most memory that prodigy itself had, in kibibytes.
fn peak_of_run(world: &TestEnv) -> Result<u32, Error> {
    let mut most = 0;
    let mut child =
        start(&mut world.prodigy_command(&["run", "items.yml", "-y", "--job-id", JOB]))?;
    let status = wait(&mut child, PAUSE, |pid| most = most.max(peak(pid).unwrap_or(0)))?;
    check_expected_failure(status)?;
    Ok(most)
}

pub(super) fn start(command: &mut Command) -> Result<Child, Error> {
    let program = format!("{command:?}");
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    child.map_err(|source| Error::Start { program, source })
}

/// Waits for the end of a process and has a look at it again and again until then.
pub(super) fn wait(
    child: &mut Child,
    pause: Duration,
    mut look: impl FnMut(u32),
) -> Result<ExitStatus, Error> {
    let until = Instant::now() + LIMIT;
    loop {
        look(child.id());
        let ended = child.try_wait();
        match ended.map_err(|source| Error::Start { program: "prodigy".to_owned(), source })? {
            Some(status) => return Ok(status),
            None if Instant::now() > until => {
                // The supervisor ends the rest once its parent is gone.
                child.kill().and_then(|()| child.wait()).ok();
                return Err(Error::Incomplete("the job was still running".to_owned()));
            }
            None => std::thread::sleep(pause),
        }
    }
}

fn check_expected_failure(status: ExitStatus) -> Result<(), Error> {
    match status.code() {
        Some(1) => Ok(()),
        _ => Err(Error::Incomplete(format!("`reduce` should have failed the job, not {status}"))),
    }
}

/// The facts of the run, read from the journal.
#[derive(Debug, Default, PartialEq)]
struct JournalTimings {
    /// The number of items that succeeded.
    completed: u32,
    /// The number of times the job failed.
    failures: usize,
    /// The seconds from the start of the map phase to the start of the first item.
    selecting: f64,
}

impl JournalTimings {
    /// Reads the journal line by line: it is as large as the job.
    fn read(world: &TestEnv) -> Result<Self, Error> {
        let mut command = world.prodigy_command(&["events", JOB, "--json"]);
        let unread = |source| Error::Start { program: "prodigy events".to_owned(), source };
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().map_err(unread)?;
        let lines = child.stdout.take().map(|pipe| BufReader::new(pipe).lines());
        let lines = lines.into_iter().flatten().collect::<Result<Vec<_>, _>>().map_err(unread)?;
        child.wait().map_err(unread)?;
        Ok(Self::parse(lines.iter().map(String::as_str)))
    }

    fn parse<'a>(lines: impl Iterator<Item = &'a str>) -> Self {
        let mut journal = Self { selecting: f64::INFINITY, ..Self::default() };
        let mut began = None;
        for line in lines {
            let has = |kind: &str| line.contains(&format!("\"event_type\":\"{kind}\""));
            if has("agent_completed") {
                journal.completed += 1;
            } else if has("job_failed") {
                journal.failures += 1;
            } else if has("phase_started") && line.contains("\"phase\":\"map\"") {
                began = began.or_else(|| moment(line));
            } else if journal.selecting.is_infinite() && has("agent_started") {
                let waited = began.zip(moment(line)).map(|(from, to)| to.duration_since(from));
                journal.selecting = waited.map_or(f64::INFINITY, |waited| waited.as_secs_f64());
            }
        }
        journal
    }
}

fn moment(line: &str) -> Option<Timestamp> {
    let record: Value = serde_json::from_str(line).ok()?;
    record.get("timestamp")?.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_has_a_kilobyte() {
        let text = items(10);
        let list: Vec<Value> = serde_json::from_str(&text).unwrap();
        assert_eq!(list.len(), 10);
        assert!((1000..1050).contains(&(text.len() / 10)), "{}", text.len());
    }

    #[test]
    fn the_wait_for_the_first_item_is_read_from_the_journal() {
        let lines = [
            r#"{"timestamp":"2026-01-01T00:00:00.000Z","event_type":"phase_started","phase":"setup"}"#,
            r#"{"timestamp":"2026-01-01T00:00:01.000Z","event_type":"phase_started","phase":"map"}"#,
            r#"{"timestamp":"2026-01-01T00:00:01.250Z","event_type":"agent_started"}"#,
            r#"{"timestamp":"2026-01-01T00:00:02.000Z","event_type":"agent_started"}"#,
            r#"{"timestamp":"2026-01-01T00:00:03.000Z","event_type":"agent_completed"}"#,
            r#"{"timestamp":"2026-01-01T00:00:04.000Z","event_type":"job_failed"}"#,
        ];
        let journal = JournalTimings::parse(lines.into_iter());
        assert_eq!(journal, JournalTimings { completed: 1, failures: 1, selecting: 0.25 });
        assert!(JournalTimings::parse(std::iter::empty()).selecting.is_infinite());
    }
}
