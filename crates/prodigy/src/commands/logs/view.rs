//! What has been shown of a job's output, and what is shown next.

use std::{
    collections::HashMap,
    io::{BufRead as _, BufReader, ErrorKind, Read as _, Seek as _, SeekFrom},
    mem,
    ops::{ControlFlow, Range},
    path::Path,
};

use prodigy_core::{
    event::{LogRange, Record},
    ids::{ItemId, JobId},
};
use prodigy_engine::store::{self, JobLock, Layout};

use super::{
    super::{
        events::{Stopped, brief, is_end},
        lookup::job_error,
    },
    happened::Happened,
};
use crate::{error::CliError, exit::Exit, output::Output};

/// The longest piece of a line that is held in memory.
const PIECE: u64 = 64 * 1024;

/// One of the two files that a step prints to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stream {
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

/// What of the things asked for was found.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    /// The item.
    pub(super) item: bool,
    /// An attempt of the item.
    pub(super) attempt: bool,
    /// The step.
    pub(super) step: bool,
    /// An item that was not asked for: the first.
    pub(super) other: Option<ItemId>,
}

/// What has been shown of the output of a job's own steps, or of one of its items.
pub(super) struct LogView<'a> {
    layout: &'a Layout,
    job: &'a JobId,
    item: Option<&'a ItemId>,
    step: Option<&'a str>,
    streams: &'a [Stream],
    /// The attempt of the item that is shown; the job's own steps have one only.
    attempt: u32,
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
    /// Whether the item has come to its end.
    is_over: bool,
    pub(super) found: Found,
    out: &'a mut Output,
}

impl<'a> LogView<'a> {
    /// Begins with nothing shown.
    pub(super) fn new(
        (layout, job): (&'a Layout, &'a JobId),
        (item, step): (Option<&'a ItemId>, Option<&'a str>),
        streams: &'a [Stream],
        out: &'a mut Output,
    ) -> Self {
        Self {
            layout,
            job,
            item,
            step,
            streams,
            attempt: 1,
            names: HashMap::new(),
            open: Vec::new(),
            ended: Vec::new(),
            shown: HashMap::new(),
            announced: None,
            passed: HashMap::new(),
            live: HashMap::new(),
            unended: None,
            is_over: false,
            found: Found::default(),
            out,
        }
    }

    /// Shows everything there is, and goes on until nothing can follow.
    pub(super) fn follow(&mut self) -> Result<(), CliError> {
        let (layout, job) = (self.layout, self.job);
        let mut ended = false;
        let followed = store::follow(layout, job, |record| {
            if let Some(record) = record {
                ended = is_end(&record.event);
                self.take(&record)?;
                return Ok(ControlFlow::Continue(()));
            }
            self.catch_up()?;
            let over = ended || self.is_over || JobLock::holder(layout, job)?.is_none();
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
    pub(super) fn take(&mut self, record: &Record) -> Result<(), CliError> {
        if record.item_id.as_ref() != self.item {
            if self.found.other.is_none() {
                self.found.other.clone_from(&record.item_id);
            }
            return Ok(());
        }
        self.found.item = self.item.is_some();
        match Happened::of(&record.event) {
            Some(Happened::Began { step, name }) => {
                self.is_over = false;
                self.found.step |= self.wants(step);
                self.open.retain(|open| open != step);
                self.open.push(step.to_owned());
                self.names.insert(step.to_owned(), name.to_owned());
                self.shown.remove(step);
                Ok(())
            }
            Some(Happened::Skipped { step }) => {
                self.open.retain(|open| open != step);
                self.names.remove(step);
                if self.open.is_empty() { self.show_ended() } else { Ok(()) }
            }
            Some(Happened::Ended { step, how, log, is_over }) => {
                self.open.retain(|open| open != step);
                let name = self.names.get(step).cloned().unwrap_or_default();
                if is_over {
                    self.names.remove(step);
                }
                if let Some(log) = log {
                    self.ended.push(Ended { path: step.to_owned(), name, how, log: log.clone() });
                }
                // A handler ends before the step that it belongs to, but printed after it.
                if self.open.is_empty() { self.show_ended() } else { Ok(()) }
            }
            Some(Happened::Attempt { number }) => self.begin_attempt(number),
            Some(Happened::Failed { number, why }) => {
                self.show_ended()?;
                if self.step.is_none() {
                    self.end_line()?;
                    self.out.line(format_args!("── attempt {number} failed: {why}"))?;
                }
                Ok(())
            }
            Some(Happened::Over) => {
                self.is_over = self.item.is_some();
                self.show_ended()
            }
            None => Ok(()),
        }
    }

    /// Forgets the attempt before this one.
    fn begin_attempt(&mut self, number: u32) -> Result<(), CliError> {
        self.show_ended()?;
        self.found.attempt = true;
        self.is_over = false;
        self.names.clear();
        self.open.clear();
        self.shown.clear();
        self.announced = None;
        // An attempt that a crash cut off is made again under its number, into its files.
        if number != self.attempt {
            self.passed.clear();
            self.live.clear();
            self.attempt = number;
        }
        Ok(())
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
            let attempt = self.attempt_shown();
            self.out.line(format_args!("── {attempt}{} ended: {}", one.path, one.how))?;
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
    pub(super) fn catch_up(&mut self) -> Result<(), CliError> {
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
        let attempt = self.attempt_shown();
        self.out.line(format_args!("── {attempt}{path}{space}{name} ({ending})"))
    }

    /// Returns which attempt it is, where there can be several.
    fn attempt_shown(&self) -> String {
        self.item.map(|_| format!("attempt {}, step ", self.attempt)).unwrap_or_default()
    }

    /// Makes sure that the next line starts at the left.
    pub(super) fn end_line(&mut self) -> Result<(), CliError> {
        match self.unended.take() {
            Some(_) => self.out.raw(b"\n"),
            None => Ok(()),
        }
    }

    /// Shows a part of a log file and returns where what there is of it ends.
    fn copy(&mut self, slot: u32, stream: Stream, part: Range<u64>) -> Result<u64, CliError> {
        let Range { start: from, end: until } = part;
        let (stdout, stderr) = self.layout.log_files(self.job, self.item, self.attempt, slot);
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
