//! The daily spend of agents: one ledger for all repositories of a home.
//!
//! It follows from the journals and is written after them. Lines that are missing are added
//! when the job is resumed.

use std::{
    fs::{self, File},
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use jiff::{civil::Date, tz::TimeZone};
use prodigy_core::{
    Timestamp,
    agent::TokenUsage,
    event::{Event, EventRecord},
    ids::{JobId, RepoName},
    job::Job,
};
use serde::{Deserialize, Serialize};

use super::{Error, JournalReader, Layout, open_to_append, open_to_read};

/// The longest line that is read; ours are far shorter.
const MAX_LINE: u64 = 64 * 1024;
/// Sums of money that differ by less are the same.
const TINY: f64 = 1e-9;

/// One line of the daybook: what one agent cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpendRecord {
    /// When it said so.
    pub at: Timestamp,
    /// The repository.
    pub repo: RepoName,
    /// The job.
    pub job_id: JobId,
    /// The cost, including amounts that could not be written before.
    pub cost_usd: f64,
    /// The tokens it used.
    #[serde(flatten)]
    pub tokens: TokenUsage,
    /// The total cost of the job so far.
    pub total_usd: f64,
}

/// The book in which jobs note what they spend, as one of them uses it.
#[derive(Debug)]
pub struct DailySpend {
    directory: PathBuf,
    repo: RepoName,
    job: JobId,
    /// The total cost of the job as of its last line.
    noted_usd: f64,
    /// The spend that could not be written since.
    unwritten: (f64, TokenUsage),
    /// The file that was written to last, while nothing is wrong with it.
    file: Option<(Date, File)>,
    /// The day that was read last.
    seen: Option<DayTotal>,
}

/// The spend of one day, as far as it was read.
#[derive(Debug)]
struct DayTotal {
    date: Date,
    /// The offset up to which its file was read.
    read_to: u64,
    sum_usd: f64,
}

impl DailySpend {
    /// Takes the book to hand. Nothing is read or made.
    pub fn new(layout: &Layout, job: &JobId) -> Self {
        Self {
            directory: Layout::spending_dir(layout.home()),
            repo: layout.repo().clone(),
            job: job.clone(),
            noted_usd: 0.0,
            unwritten: (0.0, TokenUsage::default()),
            file: None,
            seen: None,
        }
    }

    /// Notes what a record says was spent, if it says so. The record must be in the journal.
    pub fn record(&mut self, record: &EventRecord) -> Result<(), Error> {
        let Some((cost_usd, tokens)) = cost(&record.event) else { return Ok(()) };
        self.unwritten.0 += cost_usd;
        self.unwritten.1 += tokens;
        let (cost_usd, tokens) = self.unwritten;
        let total_usd = self.noted_usd + cost_usd;
        let (repo, job_id, at) = (self.repo.clone(), self.job.clone(), record.timestamp);
        self.write(&SpendRecord { at, repo, job_id, cost_usd, tokens, total_usd })?;
        self.noted_usd = total_usd;
        self.unwritten = (0.0, TokenUsage::default());
        Ok(())
    }

    /// Adds a line in one write, so that the lines of several jobs do not mix.
    fn write(&mut self, spent: &SpendRecord) -> Result<(), Error> {
        let date = utc_date(spent.at);
        let path = day_file(&self.directory, date);
        let encode = |error: serde_json::Error| {
            let reason = error.to_string();
            Error::Encode { path: path.clone(), reason }
        };
        let mut line = serde_json::to_vec(spent).map_err(encode)?;
        line.push(b'\n');
        let file = match self.file.take() {
            Some((day, file)) if day == date => file,
            Some(_) | None => {
                let file = open_to_append(&path)?;
                if is_torn(&file).map_err(|error| Error::io("read", &path, error))? {
                    // Somebody was cut off. Their line does not count, even if only its end is
                    // missing: they note it once more.
                    line.splice(0..0, *b"#\n");
                }
                file
            }
        };
        (&file).write_all(&line).map_err(|error| Error::io("write", &path, error))?;
        // After a failure it is looked at anew.
        self.file = Some((date, file));
        Ok(())
    }

    /// Notes what the journal says and the book does not, because a run was cut off.
    ///
    /// It is noted under the day on which it was spent.
    pub fn catch_up(&mut self, layout: &Layout, job: &Job) -> Result<(), Error> {
        let known_usd = self.last_total(job.started_at)?;
        if job.cost_usd <= known_usd + TINY {
            // After a loss of power the book may know more than the journal: it was spent.
            self.noted_usd = job.cost_usd;
            return Ok(());
        }
        self.noted_usd = known_usd;
        let mut total_usd = 0.0;
        for record in JournalReader::open(layout, &self.job)? {
            let record = record?;
            total_usd += cost(&record.event).map_or(0.0, |(cost_usd, _)| cost_usd);
            if total_usd > known_usd + TINY {
                self.record(&record)?;
            }
        }
        Ok(())
    }

    /// Returns what the job has cost as its last line says; it cannot be older than the job.
    fn last_total(&self, began: Option<Timestamp>) -> Result<f64, Error> {
        let began = began.map(utc_date);
        for date in list_days(&self.directory)?.into_iter().rev() {
            if began.is_some_and(|began| date < began) {
                break;
            }
            let mut last = None;
            read_day(&self.directory, date, |spent| {
                if spent.repo == self.repo && spent.job_id == self.job {
                    last = Some(spent.total_usd);
                }
            })?;
            if let Some(total_usd) = last {
                return Ok(total_usd);
            }
        }
        Ok(0.0)
    }

    /// Returns what all jobs have spent on the day of `now`; `total_usd` is what this one has
    /// cost by its journal, some of which may not be noted yet.
    ///
    /// Only what is new since the last time is read.
    pub fn today_usd(&mut self, now: Timestamp, total_usd: f64) -> Result<f64, Error> {
        let date = utc_date(now);
        let mut day = match self.seen.take() {
            Some(day) if day.date == date => day,
            Some(_) | None => DayTotal { date, read_to: 0, sum_usd: 0.0 },
        };
        day.read_on(&self.directory)?;
        let sum_usd = day.sum_usd;
        self.seen = Some(day);
        Ok(sum_usd + (total_usd - self.noted_usd).max(0.0))
    }
}

/// The spending of all jobs of a day, as one of them reads it beside its dispatcher.
#[derive(Debug)]
pub struct TodaySpend {
    directory: PathBuf,
    repo: RepoName,
    job: JobId,
    /// The total cost of the job as of its last line.
    noted_usd: f64,
    day: Option<DayTotal>,
}

impl TodaySpend {
    /// Begins with a job that has cost so much, all of which is noted.
    pub fn new(layout: &Layout, job: &JobId, noted_usd: f64) -> Self {
        let (directory, repo) = (Layout::spending_dir(layout.home()), layout.repo().clone());
        Self { directory, repo, job: job.clone(), noted_usd, day: None }
    }

    /// Returns what all jobs have spent on the day of `now`; `total_usd` is what this one has cost.
    pub fn usd(&mut self, now: Timestamp, total_usd: f64) -> Result<f64, Error> {
        let date = utc_date(now);
        let mut day = match self.day.take() {
            Some(day) if day.date == date => day,
            Some(_) | None => DayTotal { date, read_to: 0, sum_usd: 0.0 },
        };
        let (repo, job, noted_usd) = (&self.repo, &self.job, &mut self.noted_usd);
        day.read_each(&self.directory, |spent| {
            if spent.repo == *repo && spent.job_id == *job {
                *noted_usd = noted_usd.max(spent.total_usd);
            }
        })?;
        let sum_usd = day.sum_usd;
        self.day = Some(day);
        Ok(sum_usd + (total_usd - self.noted_usd).max(0.0))
    }
}

impl DayTotal {
    /// Reads what is new.
    fn read_on(&mut self, directory: &Path) -> Result<(), Error> {
        self.read_each(directory, |_| ())
    }

    /// Reads what is new, and calls `each` with it.
    fn read_each(
        &mut self,
        directory: &Path,
        mut each: impl FnMut(&SpendRecord),
    ) -> Result<(), Error> {
        let path = day_file(directory, self.date);
        let Some(file) = opened(&path)? else { return Ok(()) };
        let length = file.metadata().map_err(|error| Error::io("look at", &path, error))?.len();
        if length < self.read_to {
            // It was put in the place of the one that was read.
            (self.read_to, self.sum_usd) = (0, 0.0);
        }
        let sum_usd = &mut self.sum_usd;
        let each = |spent: SpendRecord| {
            each(&spent);
            *sum_usd += spent.cost_usd;
        };
        self.read_to = lines(&path, file, self.read_to, each)?;
        Ok(())
    }
}

/// Returns the days on which something was spent, the newest last.
pub fn list_days(directory: &Path) -> Result<Vec<Date>, Error> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io("list", directory, error)),
    };
    let mut days = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| Error::io("list", directory, error))?;
        let name = entry.file_name();
        let date = name.to_str().and_then(|name| name.strip_suffix(".jsonl"));
        days.extend(date.and_then(|date| date.parse::<Date>().ok()));
    }
    days.sort_unstable();
    Ok(days)
}

/// Calls `each` with everything that was noted on a day, in order.
pub fn read_day(directory: &Path, date: Date, each: impl FnMut(SpendRecord)) -> Result<(), Error> {
    let path = day_file(directory, date);
    match opened(&path)? {
        Some(file) => lines(&path, file, 0, each).map(drop),
        None => Ok(()),
    }
}

/// Returns the day of a moment, the same all over the world.
pub fn utc_date(at: Timestamp) -> Date {
    at.to_zoned(TimeZone::UTC).date()
}

/// Returns what a record says was spent.
fn cost(event: &Event) -> Option<(f64, TokenUsage)> {
    let Event::AgentUsage { cost_usd: Some(cost_usd), tokens, .. } = event else { return None };
    (*cost_usd > 0.0).then_some((*cost_usd, *tokens))
}

fn day_file(directory: &Path, date: Date) -> PathBuf {
    directory.join(format!("{date}.jsonl"))
}

/// Opens a file to read it, if it is there.
fn opened(path: &Path) -> Result<Option<File>, Error> {
    match open_to_read(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns whether the last line of a file is not whole.
fn is_torn(file: &File) -> io::Result<bool> {
    let Some(last) = file.metadata()?.len().checked_sub(1) else { return Ok(false) };
    let mut byte = [0];
    file.read_exact_at(&mut byte, last)?;
    Ok(byte != *b"\n")
}

/// Calls `each` with what the whole lines from a place on say; returns where the last one ends.
///
/// A line that was cut off is passed over: whoever wrote it notes it once more.
fn lines(
    path: &Path,
    file: File,
    from: u64,
    mut each: impl FnMut(SpendRecord),
) -> Result<u64, Error> {
    let failed = |error| Error::io("read", path, error);
    let mut reader = BufReader::new(file);
    reader.seek(SeekFrom::Start(from)).map_err(failed)?;
    let (mut at, mut line) = (from, Vec::new());
    loop {
        line.clear();
        let read = reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line).map_err(failed)?;
        let read = u64::try_from(read).unwrap_or(MAX_LINE);
        if read == 0 || (read < MAX_LINE && !line.ends_with(b"\n")) {
            return Ok(at);
        }
        at = at.saturating_add(read);
        if let Ok(spent) = serde_json::from_slice::<SpendRecord>(&line)
            && spent.cost_usd > 0.0
        {
            each(spent);
        }
    }
}

#[cfg(test)]
mod tests;
