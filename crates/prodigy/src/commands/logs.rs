//! `prodigy logs`.

use std::{
    collections::HashMap,
    io::{BufRead as _, BufReader, ErrorKind, Read as _, Seek as _, SeekFrom},
    mem,
    ops::{ControlFlow, Range},
    path::Path,
    time::Duration,
};

use prodigy_core::{
    duration,
    event::{Event, LogRange, Record},
    ids::JobId,
};
use prodigy_engine::store::{self, JobLock, Layout, Reader};

use super::{
    events::{Stopped, brief, is_end},
    lookup::{job_error, named_or_newest},
};
use crate::{cli::Args, error::CliError, exit::Exit, output::Output};

/// The item that the steps of a sequential workflow belong to.
const ITEM: &str = "workflow";
/// The longest piece of a line that is held in memory.
const PIECE: u64 = 64 * 1024;

/// Show what the steps of a job printed
///
/// Each step has a line above its output that says how it ended. On a terminal,
/// characters that could steer it are made visible; elsewhere the output is as it was.
#[derive(clap::Args, Debug)]
pub(crate) struct LogsArgs {
    /// The job [default: the newest]
    job: Option<JobId>,

    /// Show only this step and the steps inside it
    step: Option<String>,

    /// Go on until the job ends
    #[arg(long, short)]
    follow: bool,

    /// Show only standard error
    #[arg(long)]
    stderr: bool,
}

pub(super) fn run(args: &Args, command: &LogsArgs, out: &mut Output) -> Result<Exit, CliError> {
    let (layout, job) = named_or_newest(args, command.job.as_ref())?;
    if command.job.is_none() {
        out.note(format_args!("job {job}"));
    }
    let streams = if command.stderr { &[Stream::Err][..] } else { &[Stream::Out, Stream::Err] };
    let mut view = LogView {
        layout: &layout,
        job: &job,
        step: command.step.as_deref(),
        streams,
        names: HashMap::new(),
        open: Vec::new(),
        ended: Vec::new(),
        shown: HashMap::new(),
        announced: None,
        passed: HashMap::new(),
        live: HashMap::new(),
        unended: None,
        matched: false,
        out,
    };
    if command.follow {
        view.follow()?;
    } else {
        for record in Reader::open(&layout, &job).map_err(|error| job_error(&job, error))? {
            view.take(&record.map_err(|error| job_error(&job, error))?)?;
        }
        view.catch_up()?;
    }
    view.end_line()?;
    match (&command.step, view.matched) {
        (Some(step), false) => {
            Err(CliError::new(Exit::Usage, format!("job `{job}` ran no step `{step}`"))
                .with_hint(format!("`prodigy events {job} --type step_started` lists its steps")))
        }
        (Some(_) | None, _) => Ok(Exit::Success),
    }
}

/// One of the two files that a step prints to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stream {
    Out,
    Err,
}

/// A step that ended, and where its output is.
struct Ended {
    path: String,
    name: String,
    how: String,
    log: LogRange,
}

impl Ended {
    fn range(&self, stream: Stream) -> Range<u64> {
        let (at, length) = match stream {
            Stream::Out => (self.log.stdout_at, self.log.stdout_len),
            Stream::Err => (self.log.stderr_at, self.log.stderr_len),
        };
        at..at.saturating_add(length)
    }
}

/// What has been shown of a job's output.
struct LogView<'a> {
    layout: &'a Layout,
    job: &'a JobId,
    step: Option<&'a str>,
    streams: &'a [Stream],
    /// What the steps are called that may still print something.
    names: HashMap<String, String>,
    /// The steps that have not ended, the innermost last.
    open: Vec<String>,
    /// The steps that ended inside one that has not, whose output is still to be shown.
    ended: Vec<Ended>,
    /// The output of each step that was shown last.
    shown: HashMap<String, LogRange>,
    /// The step under whose header live output stands.
    announced: Option<String>,
    /// How far each file is taken by steps that ended.
    passed: HashMap<(u32, Stream), u64>,
    /// The part of each file of the first slot that was shown as it was written.
    live: HashMap<Stream, Range<u64>>,
    /// The file whose last line was shown without its end.
    unended: Option<Stream>,
    /// Whether any step was asked for.
    matched: bool,
    out: &'a mut Output,
}

impl LogView<'_> {
    fn follow(&mut self) -> Result<(), CliError> {
        let (layout, job) = (self.layout, self.job);
        let mut ended = false;
        let followed = store::follow(layout, job, |record| {
            if let Some(record) = record {
                ended = is_end(&record.event);
                self.take(&record)?;
                return Ok(ControlFlow::Continue(()));
            }
            self.catch_up()?;
            let over = ended || JobLock::holder(layout, job)?.is_none();
            Ok(if over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        });
        followed.map_err(|stopped: Stopped| stopped.for_people(job))
    }

    fn wants(&self, path: &str) -> bool {
        self.step.is_none_or(|step| {
            path.strip_prefix(step).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    }

    /// Takes in a record and shows the output it speaks of.
    fn take(&mut self, record: &Record) -> Result<(), CliError> {
        let (path, log, how) = match &record.event {
            Event::StepStarted { step, name, .. } => {
                self.matched |= self.wants(step);
                self.open.retain(|open| open != step);
                self.open.push(step.clone());
                self.names.insert(step.clone(), name.clone());
                self.shown.remove(step);
                return Ok(());
            }
            Event::StepSkipped { step, .. } => {
                self.open.retain(|open| open != step);
                self.names.remove(step);
                return if self.open.is_empty() { self.show_ended() } else { Ok(()) };
            }
            Event::StepCompleted(step) => {
                let took = duration::show(Duration::from_millis(step.duration_ms));
                (&step.step, &step.log, format!("exit {}, {took}", step.exit_code))
            }
            Event::StepFailed { step, failure, duration_ms, log, .. } => {
                let took = duration::show(Duration::from_millis(*duration_ms));
                let how = match failure.exit_code {
                    Some(code) => format!("exit {code}"),
                    None => failure.kind.to_string(),
                };
                (step, log, format!("{how}, {took}"))
            }
            Event::JobStarted(_)
            | Event::JobResumed { .. }
            | Event::JobPaused { .. }
            | Event::JobCompleted { .. }
            | Event::JobFailed { .. }
            | Event::PhaseStarted { .. }
            | Event::PhaseCompleted { .. }
            | Event::AgentUsage { .. }
            | Event::WorktreeCreated { .. }
            | Event::WorktreeMerged { .. }
            | Event::WorktreePreserved { .. }
            | Event::WorktreeCleaned { .. }
            | Event::MergeConflict { .. }
            | Event::GitTampering { .. }
            | Event::CheckpointCreated { .. } => return Ok(()),
        };
        self.open.retain(|open| open != path);
        let name = self.names.get(path).cloned().unwrap_or_default();
        if matches!(record.event, Event::StepCompleted(_)) {
            self.names.remove(path);
        }
        if let Some(log) = log {
            self.ended.push(Ended { path: path.clone(), name, how, log: log.clone() });
        }
        // A handler ends before the step that it belongs to, but printed after it.
        if self.open.is_empty() { self.show_ended() } else { Ok(()) }
    }

    /// Shows the output of the steps that ended, in the order in which it was printed.
    fn show_ended(&mut self) -> Result<(), CliError> {
        let mut ended = mem::take(&mut self.ended);
        ended.sort_by_key(|one| (one.log.slot, one.log.stdout_at, one.log.stderr_at));
        for one in &ended {
            // A failure that the job went on from is recorded twice, with the same output.
            let known = self.shown.insert(one.path.clone(), one.log.clone());
            if known.as_ref() != Some(&one.log) {
                self.show_one(one)?;
            }
        }
        Ok(())
    }

    /// Shows the output of a step that ended, except for what was shown as it was written.
    fn show_one(&mut self, one: &Ended) -> Result<(), CliError> {
        let slot = one.log.slot;
        let wanted = self.wants(&one.path);
        let announced = self.announced.take_if(|announced| *announced == one.path).is_some();
        let live = announced || (slot == 0 && self.was_live(one));
        if wanted && !live {
            self.header(&one.path, &one.name, &one.how)?;
        }
        for stream in [Stream::Out, Stream::Err] {
            let range = one.range(stream);
            let passed = self.passed.entry((slot, stream)).or_default();
            *passed = range.end.max(*passed);
            let parts = match self.live.get_mut(&stream) {
                Some(live) if slot == 0 => {
                    let parts = [
                        range.start..range.end.min(live.start),
                        range.start.max(live.end)..range.end,
                    ];
                    live.end = live.end.max(range.end);
                    parts
                }
                Some(_) | None => [range, 0..0],
            };
            if wanted && self.streams.contains(&stream) {
                for part in parts {
                    self.copy(slot, stream, part)?;
                }
            }
        }
        if wanted && live {
            self.end_line()?;
            self.out.line(format_args!("── {} ended: {}", one.path, one.how))?;
        }
        Ok(())
    }

    /// Returns whether a step's output, and that there was some, was shown as it was written.
    fn was_live(&self, one: &Ended) -> bool {
        let mut ranges = [Stream::Out, Stream::Err]
            .map(|stream| (stream, one.range(stream)))
            .into_iter()
            .filter(|(_, range)| !range.is_empty())
            .peekable();
        ranges.peek().is_some()
            && ranges.all(|(stream, range)| {
                self.live.get(&stream).is_some_and(|live| live.contains(&range.start))
            })
    }

    /// Shows what the step that is under way has printed so far.
    fn catch_up(&mut self) -> Result<(), CliError> {
        self.show_ended()?;
        let Some(path) = self.open.last().filter(|path| self.wants(path)).cloned() else {
            return self.out.flush();
        };
        if self.announced.as_ref() != Some(&path) {
            let held = JobLock::holder(self.layout, self.job);
            let held = held.map_err(|error| job_error(self.job, error))?.is_some();
            let name = self.names.get(&path).cloned().unwrap_or_default();
            self.header(&path, &name, if held { "running" } else { "not finished" })?;
            self.announced = Some(path);
        }
        for stream in self.streams {
            let passed = self.passed.get(&(0, *stream)).copied().unwrap_or_default();
            let from = self.live.entry(*stream).or_insert(passed..passed).end;
            let until = self.copy(0, *stream, from..u64::MAX)?;
            if let Some(live) = self.live.get_mut(stream) {
                live.end = until;
            }
        }
        self.out.flush()
    }

    fn header(&mut self, path: &str, name: &str, ending: &str) -> Result<(), CliError> {
        self.end_line()?;
        let name = brief(name);
        let space = if name.is_empty() { "" } else { " " };
        self.out.line(format_args!("── {path}{space}{name} ({ending})"))
    }

    /// Makes sure that the next line starts at the left.
    fn end_line(&mut self) -> Result<(), CliError> {
        match self.unended.take() {
            Some(_) => self.out.raw(b"\n"),
            None => Ok(()),
        }
    }

    /// Shows a part of a log file and returns where what there is of it ends.
    fn copy(&mut self, slot: u32, stream: Stream, part: Range<u64>) -> Result<u64, CliError> {
        let Range { start: from, end: until } = part;
        let (stdout, stderr) = self.layout.log_files(self.job, ITEM, slot);
        let path = match stream {
            Stream::Out => stdout,
            Stream::Err => stderr,
        };
        if from >= until {
            return Ok(from);
        }
        let file = match store::open_to_read(&path) {
            Ok(file) => file,
            Err(store::Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                if until != u64::MAX {
                    self.out.note(format_args!("warning: `{}` is gone", path.display()));
                }
                return Ok(from);
            }
            Err(error) => return Err(job_error(self.job, error)),
        };
        let mut file = BufReader::new(file);
        file.seek(SeekFrom::Start(from)).map_err(|error| unreadable(&path, error))?;
        let mut file = file.take(until - from);
        let mut at = from;
        let mut piece = Vec::new();
        loop {
            piece.clear();
            let read = (&mut file).take(PIECE).read_until(b'\n', &mut piece);
            if read.map_err(|error| unreadable(&path, error))? == 0 {
                return Ok(at);
            }
            at += u64::try_from(piece.len()).unwrap_or_default();
            if self.unended.is_some_and(|other| other != stream) {
                self.end_line()?;
            }
            self.out.printed(&piece)?;
            self.unended = Some(stream).filter(|_| !piece.ends_with(b"\n"));
        }
    }
}

fn unreadable(path: &Path, error: std::io::Error) -> CliError {
    CliError::new(Exit::Failure, format!("cannot read `{}`", path.display()))
        .with_hint("`prodigy doctor` checks the home")
        .because(error)
}
