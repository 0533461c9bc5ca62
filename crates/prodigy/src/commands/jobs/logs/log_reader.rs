//! The view of a job's output: what was shown, and what is shown next.

use std::{
    collections::HashMap,
    mem,
    ops::{ControlFlow, Range},
};

use prodigy_core::{
    event::{EventRecord, LogRange},
    ids::{ItemId, JobId},
};
use prodigy_engine::store::{self, JobLock, Layout, LogFile};

use super::log_event::LogEvent;
use crate::{
    commands::{
        jobs::events::{FollowError, is_job_end, shorten_line},
        lookup::job_error,
    },
    error::CliError,
    render::log_printer::LogPrinter,
};

/// The files that a step may print to.
pub(crate) const ALL: &[LogFile] = &[LogFile::Output, LogFile::Transcript, LogFile::Errors];

/// A step that ended, and where its output is.
struct StepOutputRange {
    path: String,
    name: StepHeading,
    how: String,
    log: LogRange,
}

/// The name of a step, and its number in the order of start.
#[derive(Clone, Debug, Default)]
struct StepHeading {
    text: String,
    number: u64,
}

impl StepOutputRange {
    /// Returns the part of a file that the step printed.
    fn range(&self, file: LogFile) -> Range<u64> {
        let (at, length) = match file {
            LogFile::Errors => (self.log.stderr_at, self.log.stderr_len),
            LogFile::Output | LogFile::Transcript => {
                if LogFile::output(self.log.transcript) != file {
                    return 0..0;
                }
                (self.log.stdout_at, self.log.stdout_len)
            }
        };
        at..at.saturating_add(length)
    }
}

/// The requested things that were found.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogMatches {
    /// The item.
    pub(crate) item: bool,
    /// An attempt of the item.
    pub(crate) attempt: bool,
    /// The step.
    pub(crate) step: bool,
    /// An item that was not asked for: the first.
    pub(crate) other: Option<ItemId>,
}

/// The view of the output of a job's own steps, or of one of its items.
pub(crate) struct LogReader<'a> {
    layout: &'a Layout,
    job: &'a JobId,
    item: Option<&'a ItemId>,
    step: Option<&'a str>,
    files: &'a [LogFile],
    /// The attempt of the item that is shown; the job's own steps have one only.
    attempt: u32,
    /// The names of the steps that may still print something.
    names: HashMap<String, StepHeading>,
    /// The number of steps that have started.
    begun: u64,
    /// The steps that have not ended, the innermost last.
    open: Vec<String>,
    /// The steps that ended inside one that has not, whose output is still to be shown.
    ended: Vec<StepOutputRange>,
    /// The output of each step that was shown last.
    shown: HashMap<String, LogRange>,
    /// The step under whose header live output stands.
    announced: Option<String>,
    /// The offset in each file up to which the output belongs to finished steps.
    passed: HashMap<(u32, LogFile), u64>,
    /// The part of each file of the first slot that was shown as it was written.
    live: HashMap<LogFile, Range<u64>>,
    /// True if the item has finished.
    is_over: bool,
    pub(crate) found: LogMatches,
    page: LogPrinter<'a>,
}

impl<'a> LogReader<'a> {
    /// Begins with nothing shown.
    pub(crate) fn new(
        (layout, job): (&'a Layout, &'a JobId),
        (item, step): (Option<&'a ItemId>, Option<&'a str>),
        files: &'a [LogFile],
        page: LogPrinter<'a>,
    ) -> Self {
        Self {
            layout,
            job,
            item,
            step,
            files,
            attempt: 1,
            names: HashMap::new(),
            begun: 0,
            open: Vec::new(),
            ended: Vec::new(),
            shown: HashMap::new(),
            announced: None,
            passed: HashMap::new(),
            live: HashMap::new(),
            is_over: false,
            found: LogMatches::default(),
            page,
        }
    }

    /// Shows everything there is, and goes on until nothing can follow.
    pub(crate) fn follow(&mut self) -> Result<(), CliError> {
        let (layout, job) = (self.layout, self.job);
        let mut ended = false;
        let followed = store::follow_journal(layout, job, |record| {
            if let Some(record) = record {
                ended = is_job_end(&record.event);
                self.handle_record(&record)?;
                return Ok(ControlFlow::Continue(()));
            }
            self.read_live()?;
            let over = ended || self.is_over || JobLock::holder(layout, job)?.is_none();
            Ok(if over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        });
        followed.map_err(|stopped: FollowError| stopped.into_cli_error(job))
    }

    fn matches_step(&self, path: &str) -> bool {
        self.step.is_none_or(|step| {
            path.strip_prefix(step).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    }

    /// Applies a record and shows the output that it refers to.
    pub(crate) fn handle_record(&mut self, record: &EventRecord) -> Result<(), CliError> {
        if record.item_id.as_ref() != self.item {
            if self.found.other.is_none() {
                self.found.other.clone_from(&record.item_id);
            }
            return Ok(());
        }
        self.found.item = self.item.is_some();
        match LogEvent::from_event(&record.event) {
            Some(LogEvent::Began { step, name }) => {
                self.is_over = false;
                self.found.step |= self.matches_step(step);
                self.open.retain(|open| open != step);
                self.open.push(step.to_owned());
                self.begun += 1;
                let name = StepHeading { text: name.to_owned(), number: self.begun };
                self.names.insert(step.to_owned(), name);
                self.shown.remove(step);
                Ok(())
            }
            Some(LogEvent::Skipped { step }) => {
                self.open.retain(|open| open != step);
                self.names.remove(step);
                if self.open.is_empty() { self.show_ended() } else { Ok(()) }
            }
            Some(LogEvent::Ended { step, how, log, is_over }) => {
                self.open.retain(|open| open != step);
                let name = self.names.get(step).cloned().unwrap_or_default();
                if is_over {
                    self.names.remove(step);
                }
                if let Some(log) = log {
                    self.ended.push(StepOutputRange {
                        path: step.to_owned(),
                        name,
                        how,
                        log: log.clone(),
                    });
                }
                // A handler ends before the step that it belongs to, but printed after it.
                if self.open.is_empty() { self.show_ended() } else { Ok(()) }
            }
            Some(LogEvent::Attempt { number }) => self.begin_attempt(number),
            Some(LogEvent::Failed { number, why }) => {
                self.show_ended()?;
                if self.step.is_none() {
                    self.page.line(format_args!("── attempt {number} failed: {why}"))?;
                }
                Ok(())
            }
            Some(LogEvent::Over) => {
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
        if ended.iter().all(|one| one.log.transcript) || !ended.iter().any(|one| one.log.transcript)
        {
            ended.sort_by_key(|one| (one.log.slot, one.log.stdout_at, one.log.stderr_at));
        } else {
            // Places in different files say nothing about what came first.
            ended.sort_by_key(|one| (one.log.slot, one.name.number));
        }
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
    fn show_one(&mut self, one: &StepOutputRange) -> Result<(), CliError> {
        let slot = one.log.slot;
        let wanted = self.matches_step(&one.path);
        let announced = self.announced.take_if(|announced| *announced == one.path).is_some();
        let live = announced || (slot == 0 && self.is_already_shown(one));
        if wanted && !live {
            self.header(&one.path, &one.name.text, &one.how)?;
        }
        for file in ALL.iter().copied() {
            let path = self.layout.log_file(self.job, self.item, self.attempt, slot, file);
            let range = LogPrinter::include_truncation_note(&path, one.range(file));
            let passed = self.passed.entry((slot, file)).or_default();
            *passed = range.end.max(*passed);
            let parts = match self.live.get_mut(&file) {
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
            if wanted && self.files.contains(&file) {
                for part in parts {
                    self.copy(slot, file, part)?;
                }
            }
        }
        if wanted && one.log.transcript && self.files.contains(&LogFile::Transcript) {
            self.page.end_step()?;
        }
        if wanted && live {
            let attempt = self.attempt_label();
            self.page.line(format_args!("── {attempt}{} ended: {}", one.path, one.how))?;
        }
        Ok(())
    }

    /// Returns whether a step's output, and that there was some, was shown as it was written.
    fn is_already_shown(&self, one: &StepOutputRange) -> bool {
        let mut ranges = ALL
            .iter()
            .map(|file| (file, one.range(*file)))
            .filter(|(_, range)| !range.is_empty())
            .peekable();
        ranges.peek().is_some()
            && ranges.all(|(file, range)| {
                self.live.get(file).is_some_and(|live| live.contains(&range.start))
            })
    }

    /// Shows what the step that is under way has printed so far.
    pub(crate) fn read_live(&mut self) -> Result<(), CliError> {
        self.show_ended()?;
        let Some(path) = self.open.last().filter(|path| self.matches_step(path)).cloned() else {
            return self.page.flush();
        };
        if self.announced.as_ref() != Some(&path) {
            let held = JobLock::holder(self.layout, self.job);
            let held = held.map_err(|error| job_error(self.job, error))?.is_some();
            let name = self.names.get(&path).cloned().unwrap_or_default();
            self.header(&path, &name.text, if held { "running" } else { "not finished" })?;
            self.announced = Some(path);
        }
        for file in self.files {
            let passed = self.passed.get(&(0, *file)).copied().unwrap_or_default();
            let from = self.live.entry(*file).or_insert(passed..passed).end;
            let until = self.copy(0, *file, from..u64::MAX)?;
            if let Some(live) = self.live.get_mut(file) {
                live.end = until;
            }
        }
        self.page.flush()
    }

    fn header(&mut self, path: &str, name: &str, ending: &str) -> Result<(), CliError> {
        self.page.begin_step();
        let name = shorten_line(name);
        let space = if name.is_empty() { "" } else { " " };
        let attempt = self.attempt_label();
        self.page.line(format_args!("── {attempt}{path}{space}{name} ({ending})"))
    }

    /// Returns which attempt it is, where there can be several.
    fn attempt_label(&self) -> String {
        self.item.map(|_| format!("attempt {}, step ", self.attempt)).unwrap_or_default()
    }

    /// Ends the last line, if that is not done.
    pub(crate) fn end_line(&mut self) -> Result<(), CliError> {
        self.page.end_line()
    }

    /// Shows a part of a log file and returns where what was shown of it ends.
    fn copy(&mut self, slot: u32, which: LogFile, part: Range<u64>) -> Result<u64, CliError> {
        let path = self.layout.log_file(self.job, self.item, self.attempt, slot, which);
        self.page.copy(self.job, &path, which, part)
    }
}
