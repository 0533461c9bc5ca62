//! The cost of reading the event stream of an agent.
//!
//! An agent of our own prints events of 1 KB, as many in a second as a busy agent would. What
//! the supervisor and our side of it spend on them is held against a plain copy of the same
//! bytes from a pipe into a file. A second agent prints as much as it can: that shows the memory.

use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    ops::ControlFlow,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use prodigy_core::agent::{StreamDialect, StreamState};
use prodigy_engine::process::{Launch, LineSplitter, ProcessStatus, StopToken, SupervisorClient};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{memory::peak, table::BenchRow, timing::Samples};
use crate::error::Error;

const ROUNDS: u32 = 3;
/// The number of events that an agent prints in one round, and in each second.
const EVENTS: u32 = 5000;
const PER_SECOND: u32 = 1000;
/// The number of events in a flood, of 1 KB each.
const FLOOD: u32 = 100_000;
const LARGE_FLOOD: u32 = 1_000_000;

/// The most that 1,000 events may take, in seconds: at 1,000 in a second, 2 % of a core.
const MOST_SECONDS: f64 = 0.020;
const MOST_MEGABYTES: f64 = 40.0;
const LIMIT: Duration = Duration::from_secs(600);

/// Print events as an agent does
#[derive(clap::Args, Debug)]
pub(crate) struct EmitArgs {
    /// Number of events
    events: u32,

    /// Number of events per second [default: as many as possible]
    per_second: Option<u32>,
}

/// Prints events.
pub(crate) fn emit_events(args: &EmitArgs) -> Result<(), Error> {
    let events = events();
    let mut stdout = io::stdout().lock();
    let began = Instant::now();
    for (number, event) in (0..args.events).zip(events.iter().cycle()) {
        if let Some(per_second) = args.per_second {
            let at = Duration::from_secs(1) * number / per_second;
            std::thread::sleep(at.saturating_sub(began.elapsed()));
        }
        // One write each, as agents do it.
        let printed = stdout.write_all(event.as_bytes()).and_then(|()| stdout.flush());
        printed.map_err(|source| file_error("standard output".into(), source))?;
    }
    Ok(())
}

/// Returns a tool that is used, what it answers, and what is said about it: 1 KB each.
fn events() -> Vec<String> {
    let text = "fn main() {\n\tprintln!(\"Hello, \\u{1F30D}!\");\n}\n// and so on, as code does.\n";
    let usage =
        json!({"input_tokens": 12, "output_tokens": 345, "cache_read_input_tokens": 67_890});
    let said = |id: &str, block: Value| {
        json!({
            "type": "assistant", "session_id": "0a1b2c3d-0000-4000-8000-000000000000",
            "message": {"id": id, "model": "claude", "role": "assistant", "content": [block], "usage": usage},
        })
    };
    let make = |length: usize| {
        let text: String = text.chars().cycle().take(length).collect();
        [
            said(
                "m1",
                json!({"type": "tool_use", "id": "t1", "name": "Write", "input": {"file_path": "src/main.rs", "content": text}}),
            ),
            json!({
                "type": "user", "session_id": "0a1b2c3d-0000-4000-8000-000000000000",
                "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "is_error": false, "content": text}]},
            }),
            said("m2", json!({"type": "text", "text": text})),
        ]
    };
    let shortest = make(0).map(|event| event.to_string().len());
    shortest
        .into_iter()
        .enumerate()
        .filter_map(|(which, taken)| {
            // Quotes and ends of lines take two characters, so there is some room to spare.
            let mut length = 1023_usize.saturating_sub(taken);
            loop {
                let event = make(length).get(which)?.to_string() + "\n";
                if event.len() <= 1024 {
                    return Some(event);
                }
                length = length.checked_sub(1)?;
            }
        })
        .collect()
}

/// Measures the work that events are, and with `large` the memory that a gigabyte of them takes.
pub(super) fn measure(binary: &Path, large: bool) -> Result<Vec<BenchRow>, Error> {
    let directory =
        tempfile::tempdir().map_err(|source| file_error("a directory".into(), source))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|source| file_error("a runtime".into(), source))?;
    let (mut ours, mut floor) = (Samples::default(), Samples::default());
    let mut supervisor = Samples::default();
    for _ in 0..ROUNDS {
        let heard = runtime.block_on(listen(binary, &directory, EVENTS, Some(PER_SECOND)))?;
        ours.add((heard.ours + heard.supervisor).as_secs_f64());
        supervisor.add(heard.supervisor.as_secs_f64());
        floor.add(copy(&directory, EVENTS, Some(PER_SECOND))?.as_secs_f64());
    }
    let thousands = f64::from(EVENTS) / 1000.0;
    let [ours, supervisor, floor] =
        [ours, supervisor, floor].map(|samples| samples.divided(thousands));
    let mut rows = vec![work(&ours, &supervisor, &floor)];
    let events = if large { LARGE_FLOOD } else { FLOOD };
    let copied = copy(&directory, events, None)?;
    let heard = runtime.block_on(listen(binary, &directory, events, None))?;
    rows.extend(flood(events, copied, &heard));
    Ok(rows)
}

fn work(ours: &Samples, supervisor: &Samples, floor: &Samples) -> BenchRow {
    let allowed = MOST_SECONDS / floor.best();
    BenchRow {
        what: "1,000 events of an agent in a second, CPU".to_owned(),
        measured: format!(
            "{}, {:.1} % of a core (supervisor {:.1} %)",
            ours.shown(),
            ours.best() * 100.0,
            supervisor.best() * 100.0
        ),
        floor: format!("copying them: {}", floor.shown()),
        ratio: ours.best() / floor.best(),
        budget: format!("{:.0} % of a core", MOST_SECONDS * 100.0),
        limit: Some(allowed),
    }
}

fn flood(events: u32, copied: Duration, heard: &StreamCost) -> Vec<BenchRow> {
    let megabytes = events / 1000;
    let spent = (heard.ours + heard.supervisor).as_secs_f64();
    let mut rows = vec![BenchRow {
        what: format!("{megabytes} MB of events at once, CPU"),
        measured: format!("{spent:.2} s (supervisor {:.2} s)", heard.supervisor.as_secs_f64()),
        floor: format!("copying them: {:.2} s", copied.as_secs_f64()),
        ratio: spent / copied.as_secs_f64(),
        budget: "–".to_owned(),
        limit: None,
    }];
    for (who, kilobytes) in [("listening", heard.peak), ("supervisor", heard.supervisor_peak)] {
        let peak = kilobytes.map_or(f64::INFINITY, |peak| f64::from(peak) * 1.024 / 1000.0);
        rows.push(BenchRow {
            what: format!("peak memory of the {who} process, {megabytes} MB of events"),
            measured: format!("{peak:.1} MB"),
            floor: "–".to_owned(),
            ratio: peak / MOST_MEGABYTES,
            budget: format!("{MOST_MEGABYTES:.0} MB"),
            limit: Some(1.0),
        });
    }
    rows
}

/// The CPU time and the peak memory of reading a stream.
struct StreamCost {
    ours: Duration,
    supervisor: Duration,
    peak: Option<u32>,
    supervisor_peak: Option<u32>,
}

/// Listens to an agent: its events are masked, stored, handed on, cut into lines and understood.
async fn listen(
    binary: &Path,
    directory: &TempDir,
    events: u32,
    per_second: Option<u32>,
) -> Result<StreamCost, Error> {
    let failed = |error: prodigy_engine::process::Error| Error::Incomplete(error.to_string());
    let mut supervisor = SupervisorClient::start(binary, directory.path()).await.map_err(failed)?;
    let pid = supervisor.id().unwrap_or_default();
    let launch = launch(directory, events, per_second)?;
    let mut lines = LineSplitter::default();
    let mut heard = StreamState::new(StreamDialect::Claude);
    // Whatever else was measured before: only what is needed from here on counts.
    fs::write("/proc/self/clear_refs", "5")
        .map_err(|source| file_error("/proc/self".into(), source))?;
    let before = (cpu_time("self")?, cpu_time(&pid.to_string())?);
    let ended = supervisor
        .run_streaming(&launch, &StopToken::new(), &mut |piece| {
            lines.feed(piece, |line| drop(heard.handle_line(line)));
            ControlFlow::Continue(())
        })
        .await
        .map_err(failed)?;
    let after = (cpu_time("self")?, cpu_time(&pid.to_string())?);
    let listened = StreamCost {
        ours: after.0.saturating_sub(before.0),
        supervisor: after.1.saturating_sub(before.1),
        peak: peak(std::process::id()),
        supervisor_peak: peak(pid),
    };
    supervisor.close().await;
    if ended.status != ProcessStatus::Exited(0) || heard.events() != u64::from(events) {
        let message = format!("{} of {events} events: {:?}", heard.events(), ended.status);
        return Err(Error::Incomplete(message));
    }
    Ok(listened)
}

fn launch(directory: &TempDir, events: u32, per_second: Option<u32>) -> Result<Launch, Error> {
    let agent = agent(events, per_second)?;
    let argv = std::iter::once(agent.get_program()).chain(agent.get_args());
    Ok(Launch {
        argv: argv.map(ToOwned::to_owned).collect(),
        env: Vec::new(),
        cwd: directory.path().to_owned(),
        root: None,
        stdin: Vec::new(),
        log: Some((directory.path().join("heard.jsonl"), directory.path().join("heard.err"))),
        log_cap: u64::MAX,
        timeout: Some(LIMIT),
        idle_timeout: Some(LIMIT),
        grace: Duration::from_secs(10),
        secrets: ["sk-ant-api03-0123456789abcdef", "ghp_0123456789abcdef", "correct horse battery"]
            .map(str::to_owned)
            .to_vec(),
        stream: true,
    })
}

/// Copies what an agent prints into a file, and returns the time that this took.
fn copy(directory: &TempDir, events: u32, per_second: Option<u32>) -> Result<Duration, Error> {
    let path = directory.path().join("copied.jsonl");
    let mut into = File::create(&path).map_err(|source| file_error(path.clone(), source))?;
    let mut agent = agent(events, per_second)?;
    let start = |source| Error::Start { program: "an agent".to_owned(), source };
    let mut child = agent.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().map_err(start)?;
    let Some(mut from) = child.stdout.take() else {
        return Err(Error::Incomplete("the agent has no output".to_owned()));
    };
    let before = cpu_time("self")?;
    // Not `io::copy`, which moves the bytes within the kernel.
    let mut buffer = vec![0; 64 << 10];
    let mut copied = || -> io::Result<()> {
        loop {
            let count = from.read(&mut buffer)?;
            match buffer.get(..count) {
                Some(bytes) if count > 0 => into.write_all(bytes)?,
                Some(_) | None => return Ok(()),
            }
        }
    };
    copied().map_err(|source| file_error(path, source))?;
    let took = cpu_time("self")?.saturating_sub(before);
    child.wait().map_err(start)?;
    Ok(took)
}

/// Returns this program, as an agent.
fn agent(events: u32, per_second: Option<u32>) -> Result<Command, Error> {
    let program =
        std::env::current_exe().map_err(|source| file_error("this program".into(), source))?;
    let mut agent = Command::new(program);
    agent.arg("__tell").arg(events.to_string());
    agent.args(per_second.map(|number| number.to_string()));
    Ok(agent)
}

/// Returns how long a process with one thread has had a processor.
fn cpu_time(process: &str) -> Result<Duration, Error> {
    let path = PathBuf::from(format!("/proc/{process}/schedstat"));
    let text = fs::read_to_string(&path).map_err(|source| file_error(path, source))?;
    let first = text.split_whitespace().next().and_then(|number| number.parse().ok());
    first
        .map(Duration::from_nanos)
        .ok_or_else(|| Error::Incomplete("the kernel does not tell who had a processor".to_owned()))
}

fn file_error(path: PathBuf, source: io::Error) -> Error {
    Error::File { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_a_kilobyte_and_are_understood() {
        let mut heard = StreamState::new(StreamDialect::Claude);
        for event in events() {
            assert!((1000..=1024).contains(&event.len()), "{}", event.len());
            heard.handle_line(event.as_bytes());
        }
        assert_eq!((heard.events(), heard.unparsed_lines()), (3, 0));
    }

    #[test]
    fn more_than_two_percent_miss_the_budget() {
        let samples = |seconds: f64| {
            let mut samples = Samples::default();
            samples.add(seconds);
            samples
        };
        let row = |seconds| work(&samples(seconds), &samples(0.01), &samples(0.005));
        assert!(row(0.019).is_met());
        assert!(!row(0.021).is_met());
    }
}
