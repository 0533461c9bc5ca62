//! `prodigy events JOB`, `ls`, `follow` and `search`.

use std::{collections::VecDeque, ops::ControlFlow};

use prodigy_core::{
    event::{Event, EventRecord},
    ids::JobId,
};
use prodigy_engine::store::{self, JobLock, JournalReader, Layout};

use super::filter::EventFilter;
use crate::{
    cli::Cli,
    commands::lookup::{job_error, job_or_latest},
    error::CliError,
    exit::Exit,
    render::{console::Console, event_line::EventFormatter},
};

/// The number of polls, a few per second, that must find a job abandoned before following ends.
const PATIENCE: u32 = 5;

/// The choice to end at the last event, or to wait for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FollowMode {
    /// Show what there is.
    Once,
    /// Go on until the job ends.
    Follow,
}

/// Shows events.
pub(crate) fn list(
    args: &Cli,
    job: Option<&JobId>,
    filter: EventFilter,
    how: FollowMode,
    out: &mut Console,
) -> Result<Exit, CliError> {
    let (layout, id) = job_or_latest(args, job)?;
    if job.is_none() {
        out.note(format_args!("job {id}"));
    }
    let mut view = EventListPrinter {
        filter,
        lines: EventFormatter::default(),
        day: String::new(),
        held: VecDeque::new(),
        live: false,
        matched: false,
        out,
    };
    match how {
        FollowMode::Once => {
            for record in
                JournalReader::open(&layout, &id).map_err(|error| job_error(&id, error))?
            {
                match record {
                    Ok(record) => view.push(&record)?,
                    Err(error) => {
                        // What was read is shown before what is wrong is said.
                        view.flush_held()?;
                        return Err(job_error(&id, error));
                    }
                }
            }
            view.flush_held()?;
        }
        FollowMode::Follow => follow(&layout, &id, &mut view)?,
    }
    if !view.matched {
        view.out.note("no event matches");
    }
    Ok(Exit::Success)
}

/// Shows events until the job ends or nobody works on it any more.
fn follow(layout: &Layout, id: &JobId, view: &mut EventListPrinter<'_>) -> Result<(), CliError> {
    let mut ended = false;
    let mut abandoned = 0;
    let followed = store::follow_journal(layout, id, |record| {
        if let Some(record) = record {
            ended = is_job_end(&record.event);
            abandoned = 0;
            view.push(&record)?;
            return Ok(ControlFlow::Continue(()));
        }
        view.flush_held()?;
        if ended {
            return Ok(ControlFlow::Break(()));
        }
        // A job that nobody holds will write nothing, but it may be about to be taken up.
        abandoned = if JobLock::holder(layout, id)?.is_some() { 0 } else { abandoned + 1 };
        Ok(if abandoned < PATIENCE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    });
    followed.map_err(|stopped: FollowError| stopped.into_cli_error(id))?;
    if !ended {
        view.out.note(format_args!(
            "nobody works on the job any more; `prodigy resume {id}` takes it up"
        ));
    }
    Ok(())
}

/// Returns whether a job stops with an event.
pub(crate) fn is_job_end(event: &Event) -> bool {
    matches!(event, Event::JobCompleted { .. } | Event::JobFailed { .. } | Event::JobPaused { .. })
}

/// The reason that following stopped.
pub(crate) enum FollowError {
    /// The journal could not be read.
    Store(store::Error),
    /// The output failed.
    Cli(CliError),
}

impl FollowError {
    /// Returns what people are told.
    pub(crate) fn into_cli_error(self, job: &JobId) -> CliError {
        match self {
            Self::Store(error) => job_error(job, error),
            Self::Cli(error) => error,
        }
    }
}

impl From<store::Error> for FollowError {
    fn from(error: store::Error) -> Self {
        Self::Store(error)
    }
}

impl From<CliError> for FollowError {
    fn from(error: CliError) -> Self {
        Self::Cli(error)
    }
}

/// The state of a listing: the records seen, and the lines shown of them.
struct EventListPrinter<'a> {
    filter: EventFilter,
    lines: EventFormatter,
    /// The day that was shown last.
    day: String,
    /// The last lines, each with its day, as long as more records are there already.
    held: VecDeque<(String, String)>,
    /// Everything that was there has been shown; the rest is shown as it comes.
    live: bool,
    /// A record was wanted; nobody should have to guess why nothing is shown.
    matched: bool,
    out: &'a mut Console,
}

impl EventListPrinter<'_> {
    /// Handles a record, and shows it if it matches the filter.
    fn push(&mut self, record: &EventRecord) -> Result<(), CliError> {
        self.lines.observe(record);
        if !self.filter.matches(record) {
            return Ok(());
        }
        self.matched = true;
        let line = if self.filter.json {
            // What the journal's reader could parse can be written again.
            (String::new(), serde_json::to_string(record).unwrap_or_default())
        } else {
            self.lines.format(record)
        };
        match self.filter.limit {
            Some(limit) if !self.live => {
                if self.held.len() == limit.get() {
                    self.held.pop_front();
                }
                self.held.push_back(line);
                Ok(())
            }
            Some(_) | None => self.show(line),
        }
    }

    /// Shows everything that was held back.
    fn flush_held(&mut self) -> Result<(), CliError> {
        self.live = true;
        while let Some(line) = self.held.pop_front() {
            self.show(line)?;
        }
        self.out.flush()
    }

    fn show(&mut self, (day, line): (String, String)) -> Result<(), CliError> {
        if self.filter.json {
            return self.out.raw(format!("{line}\n").as_bytes());
        }
        if day != self.day {
            self.out.line(&day)?;
            self.day = day;
        }
        self.out.line(line)
    }
}
