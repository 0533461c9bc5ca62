//! Log files, as they are shown.

use std::{
    fmt,
    io::{BufRead, BufReader, ErrorKind, Read, Seek as _, SeekFrom},
    ops::Range,
    path::Path,
};

use prodigy_core::ids::JobId;
use prodigy_engine::{
    process::{LineSplitter, truncated_bytes},
    store::{self, LogFile},
};

use super::transcript::{StyledLine, TranscriptPrinter};
use crate::{commands::lookup::job_error, error::CliError, exit::Exit, render::console::Console};

/// The longest piece of a line that is held in memory.
const PIECE: u64 = 64 * 1024;

/// The longest line that says what was not kept.
const NOTE: u64 = 80;

/// Where log files are shown.
pub(crate) struct LogPrinter<'a> {
    out: &'a mut Console,
    /// The file whose last line was shown without its end.
    unended: Option<LogFile>,
    /// The transcript of the agent that is shown; `None` if transcripts are shown raw.
    transcript: Option<TranscriptPrinter>,
}

impl<'a> LogPrinter<'a> {
    /// Begins an empty page. Raw transcripts are shown as they are.
    pub(crate) fn new(out: &'a mut Console, is_raw: bool) -> Self {
        let transcript = (!is_raw).then(|| TranscriptPrinter::new(out.width()));
        Self { out, unended: None, transcript }
    }

    /// Shows a line of our own.
    pub(crate) fn line(&mut self, line: impl fmt::Display) -> Result<(), CliError> {
        self.end_line()?;
        self.out.line(line)
    }

    /// Makes sure that the next line starts at the left.
    pub(crate) fn end_line(&mut self) -> Result<(), CliError> {
        match self.unended.take() {
            Some(_) => self.out.raw(b"\n"),
            None => Ok(()),
        }
    }

    /// Makes sure that everything shown so far is out.
    pub(crate) fn flush(&mut self) -> Result<(), CliError> {
        self.out.flush()
    }

    /// Forgets the agent whose transcript was shown, because another one follows.
    pub(crate) fn begin_step(&mut self) {
        if let Some(transcript) = &mut self.transcript {
            *transcript = TranscriptPrinter::new(self.out.width());
        }
    }

    /// Says so if the transcript that was shown has no end.
    pub(crate) fn end_step(&mut self) -> Result<(), CliError> {
        let mut shown = self.transcript.as_mut().map(TranscriptPrinter::finish).unwrap_or_default();
        self.show(&mut shown)
    }

    /// Returns a part of a log file with the line behind it that says what was not kept of it.
    pub(crate) fn include_truncation_note(path: &Path, part: Range<u64>) -> Range<u64> {
        if part.is_empty() {
            return part;
        }
        let mut behind = Vec::new();
        let read = store::open_to_read(path).ok().and_then(|mut file| {
            file.seek(SeekFrom::Start(part.end)).ok()?;
            file.take(NOTE).read_to_end(&mut behind).ok()
        });
        // Whoever shows the part itself says why it cannot be read.
        if read.is_none() {
            return part;
        }
        let lines = behind.split_inclusive(|byte| *byte == b'\n').take(2);
        let mut length = 0;
        for line in lines {
            length += line.len() as u64;
            if truncated_bytes(line).is_some() {
                return part.start..part.end + length;
            }
            if line != b"\n" {
                break;
            }
        }
        part
    }

    /// Shows a part of a log file and returns where what was shown of it ends.
    pub(crate) fn copy(
        &mut self,
        job: &JobId,
        path: &Path,
        which: LogFile,
        part: Range<u64>,
    ) -> Result<u64, CliError> {
        let Range { start: from, end: until } = part;
        if from >= until {
            return Ok(from);
        }
        let file = match store::open_to_read(path) {
            Ok(file) => file,
            Err(store::Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                if until != u64::MAX {
                    self.out.note(format_args!("warning: `{}` is gone", path.display()));
                }
                return Ok(from);
            }
            Err(error) => return Err(job_error(job, error)),
        };
        let mut file = BufReader::new(file);
        file.seek(SeekFrom::Start(from)).map_err(|error| unreadable(path, error))?;
        let mut file = file.take(until - from);
        let shown = match self.transcript.take_if(|_| which == LogFile::Transcript) {
            Some(mut transcript) => {
                let told =
                    self.print_transcript(path, &mut file, until == u64::MAX, &mut transcript);
                self.transcript = Some(transcript);
                told
            }
            None => self.print(path, &mut file, which),
        };
        Ok(from + shown?)
    }

    /// Shows what a program printed and returns how much it was.
    fn print(
        &mut self,
        path: &Path,
        file: &mut impl BufRead,
        which: LogFile,
    ) -> Result<u64, CliError> {
        let mut at = 0;
        let mut piece = Vec::new();
        loop {
            piece.clear();
            let read = file.take(PIECE).read_until(b'\n', &mut piece);
            if read.map_err(|error| unreadable(path, error))? == 0 {
                return Ok(at);
            }
            at += piece.len() as u64;
            if self.unended.is_some_and(|other| other != which) {
                self.end_line()?;
            }
            self.out.program_output(&piece)?;
            self.unended = Some(which).filter(|_| !piece.ends_with(b"\n"));
        }
    }

    /// Shows what an agent told and returns how much of the file that was.
    ///
    /// If more may come, a line without an end is left for later.
    fn print_transcript(
        &mut self,
        path: &Path,
        file: &mut impl Read,
        may_grow: bool,
        transcript: &mut TranscriptPrinter,
    ) -> Result<u64, CliError> {
        let (mut at, mut whole) = (0, 0);
        let mut lines = LineSplitter::default();
        let mut piece = Vec::new();
        let mut shown = Vec::new();
        loop {
            piece.clear();
            let read = file.take(PIECE).read_to_end(&mut piece);
            if read.map_err(|error| unreadable(path, error))? == 0 {
                break;
            }
            let end = piece.iter().rposition(|byte| *byte == b'\n');
            whole = end.map_or(whole, |end| at + end as u64 + 1);
            at += piece.len() as u64;
            lines.feed(&piece, |line| shown.extend(transcript.push_line(line)));
            self.show(&mut shown)?;
        }
        if !may_grow {
            lines.finish(|line| shown.extend(transcript.push_line(line)));
            whole = at;
        }
        if lines.dropped() > 0 {
            shown.push(TranscriptPrinter::skipped_events_line(lines.dropped()));
        }
        self.show(&mut shown)?;
        Ok(whole)
    }

    fn show(&mut self, shown: &mut Vec<StyledLine>) -> Result<(), CliError> {
        for StyledLine { style, text } in shown.drain(..) {
            self.end_line()?;
            self.out.styled(style, &text)?;
        }
        Ok(())
    }
}

fn unreadable(path: &Path, error: std::io::Error) -> CliError {
    CliError::new(Exit::Failure, format!("cannot read `{}`", path.display()))
        .with_hint("`prodigy doctor` checks the home")
        .with_source(error)
}
