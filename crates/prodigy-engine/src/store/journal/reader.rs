//! Reading a journal while somebody else may be writing it.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom},
    ops::ControlFlow,
    path::PathBuf,
    thread,
    time::Duration,
};

use prodigy_core::{event::EventRecord, ids::JobId};

use super::{
    line::{self, LineError, MAX_LINE},
    segment::{self, JournalSegment},
};
use crate::store::{
    Error, Layout,
    files::{self, OpenMode},
};

/// The polling interval of [`follow_journal`].
const POLL: Duration = Duration::from_millis(150);
/// The longest end of a file that is searched for whole records behind a bad line.
const MAX_TAIL: u64 = 128 * 1024 * 1024;

/// The number of bytes read at once.
const CHUNK: usize = 64 * 1024;

/// The records of a job, one after the other, in constant memory.
///
/// A line that is not finished is the end: its writer is at work, or died at it.
/// The iterator is not fused: after `None`, a later call returns what was written
/// in the meantime. After an error there is nothing more.
#[derive(Debug)]
pub struct JournalReader {
    directory: PathBuf,
    job: JobId,
    place: Option<ReadPosition>,
    buffer: Vec<u8>,
    /// The records up to this one are checked and passed over.
    pass: u64,
    last_seq: u64,
    failed: bool,
}

/// Where the next line is.
#[derive(Debug)]
struct ReadPosition {
    segment: JournalSegment,
    file: BufReader<File>,
    /// Where the next line starts, in bytes.
    offset: u64,
    /// The number of the next line, from 1.
    line: u64,
}

/// The content at a position of the journal.
#[derive(Debug)]
pub(crate) enum ReadOutcome {
    /// A whole record.
    Record(Box<EventRecord>),
    /// A whole record that nobody asked for.
    Passed,
    /// Nothing (yet).
    End,
    /// Bytes of the last segment that no whole record follows.
    Torn(BadLine),
}

/// A place in the journal that has to be named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BadLine {
    /// The file.
    pub(crate) path: PathBuf,
    /// The line, from 1.
    pub(crate) line: u64,
    /// The line's first byte.
    pub(crate) offset: u64,
    /// The defect of the line.
    pub(crate) reason: String,
}

impl JournalReader {
    /// Opens the journal of a job that may be running.
    pub fn open(layout: &Layout, job: &JobId) -> Result<Self, Error> {
        Self::open_after(layout, job, 0)
    }

    /// Opens the journal of a job to read the records with higher numbers than `seq`.
    ///
    /// Those before are checked as well -- that they are whole, in order, of this job and
    /// of a kind that is known -- but not read, which is several times faster.
    pub fn open_after(layout: &Layout, job: &JobId, seq: u64) -> Result<Self, Error> {
        let directory = layout.events_dir(job);
        if segment::list_segments(&directory)?.is_empty() {
            return Err(Error::NoJob { job: job.clone() });
        }
        Ok(Self {
            directory,
            job: job.clone(),
            place: None,
            buffer: Vec::new(),
            pass: seq,
            last_seq: 0,
            failed: false,
        })
    }

    /// Returns the number of the last record returned or passed over, 0 before the first.
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// Reads on.
    pub(crate) fn read_next(&mut self) -> Result<ReadOutcome, Error> {
        if self.place.is_none() && !self.advance()? {
            return Ok(ReadOutcome::End);
        }
        loop {
            if self.read_line()? {
                return self.take_line();
            }
            if self.newer()?.is_none() {
                let torn = self.bad_line("it is not finished").filter(|_| !self.buffer.is_empty());
                return Ok(torn.map_or(ReadOutcome::End, ReadOutcome::Torn));
            }
            // A newer segment is there, so nothing is written to this one any more --
            // but its last lines may have come after we looked.
            if self.read_line()? {
                return self.take_line();
            }
            if !self.buffer.is_empty() {
                return Err(self.damaged("it is cut off, and more records follow"));
            }
            self.advance()?;
        }
    }

    /// Reads the next line into the buffer, without its newline.
    ///
    /// Returns `false` if the file ends before the newline; the place stays.
    fn read_line(&mut self) -> Result<bool, Error> {
        self.buffer.clear();
        let Some(place) = &mut self.place else { return Ok(false) };
        let limit = u64::try_from(MAX_LINE).unwrap_or(u64::MAX);
        (&mut place.file)
            .take(limit)
            .read_until(b'\n', &mut self.buffer)
            .map_err(|error| Error::io("read", &place.segment.path, error))?;
        if self.buffer.pop_if(|byte| *byte == b'\n').is_some() {
            return Ok(true);
        }
        if self.buffer.len() >= MAX_LINE {
            return Err(self.damaged(&format!("it is longer than {MAX_LINE} bytes")));
        }
        place.rewind()?;
        Ok(false)
    }

    /// Makes a record of the line in the buffer.
    fn take_line(&mut self) -> Result<ReadOutcome, Error> {
        let looked = if self.last_seq < self.pass {
            line::decode_header(&self.buffer)
                .map(|(seq, job)| (self.misplaced(seq, &job), ReadOutcome::Passed))
        } else {
            line::decode(&self.buffer).map(|record| {
                let misplaced = self.misplaced(record.seq, record.job_id.as_str());
                (misplaced, ReadOutcome::Record(Box::new(record)))
            })
        };
        let found = match looked {
            Ok((None, found)) => found,
            Ok((Some(error), _)) => return Err(error),
            Err(LineError::Future(reason)) => {
                let BadLine { path, line, .. } = self.bad_line(&reason).unwrap_or_default();
                return Err(Error::Future { path, line, reason });
            }
            Err(LineError::Damaged(reason)) => return self.torn_or_damaged(&reason),
        };
        self.last_seq += 1;
        if let Some(place) = &mut self.place {
            place.offset += u64::try_from(self.buffer.len()).unwrap_or_default() + 1;
            place.line += 1;
        }
        Ok(found)
    }

    /// Returns what is wrong with the place of a record, if anything is.
    fn misplaced(&self, seq: u64, job: &str) -> Option<Error> {
        let last = self.last_seq;
        if seq != last + 1 {
            return Some(self.damaged(&format!("record {seq} follows record {last}")));
        }
        (job != self.job.as_str()).then(|| self.damaged(&format!("it belongs to the job `{job}`")))
    }

    /// Tells the end that a crash tore off from damage that came later.
    fn torn_or_damaged(&mut self, reason: &str) -> Result<ReadOutcome, Error> {
        let last = self.newer()?.is_none();
        let Some(place) = &mut self.place else { return Ok(ReadOutcome::End) };
        place.rewind()?;
        let mut tail = Vec::new();
        let read = (&mut place.file).take(MAX_TAIL).read_to_end(&mut tail);
        read.map_err(|error| Error::io("read", &place.segment.path, error))?;
        place.rewind()?;
        let bounded = u64::try_from(tail.len()).is_ok_and(|length| length < MAX_TAIL);
        match self.bad_line(reason) {
            Some(spot) if last && bounded && !line::holds_records(&tail) => {
                Ok(ReadOutcome::Torn(spot))
            }
            Some(_) | None => Err(self.damaged(reason)),
        }
    }

    /// Returns the segment behind the current one, if there is one by now.
    fn newer(&self) -> Result<Option<JournalSegment>, Error> {
        let segments = segment::list_segments(&self.directory)?;
        let here = self.place.as_ref().map(|place| place.segment.order());
        Ok(segments.into_iter().find(|segment| Some(segment.order()) > here))
    }

    /// Goes to the start of the next segment; `false` if there is none.
    fn advance(&mut self) -> Result<bool, Error> {
        let Some(segment) = self.newer()? else { return Ok(false) };
        let file = files::open_regular(&segment.path, OpenMode::Read)?;
        let file = BufReader::with_capacity(CHUNK, file);
        self.place = Some(ReadPosition { segment, file, offset: 0, line: 1 });
        Ok(true)
    }

    /// Names the next line and what is wrong with it.
    pub(crate) fn bad_line(&self, reason: &str) -> Option<BadLine> {
        self.place.as_ref().map(|place| BadLine {
            path: place.segment.path.clone(),
            line: place.line,
            offset: place.offset,
            reason: reason.to_owned(),
        })
    }

    fn damaged(&self, reason: &str) -> Error {
        let BadLine { path, line, reason, .. } = self.bad_line(reason).unwrap_or_default();
        Error::Damaged { path, line, reason }
    }
}

impl ReadPosition {
    /// Goes back to the start of the line, whatever was read of it.
    fn rewind(&mut self) -> Result<(), Error> {
        self.file
            .seek(SeekFrom::Start(self.offset))
            .map(drop)
            .map_err(|error| Error::io("read", &self.segment.path, error))
    }
}

impl Iterator for JournalReader {
    type Item = Result<EventRecord, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        loop {
            match self.read_next() {
                Ok(ReadOutcome::Passed) => {}
                Ok(ReadOutcome::Record(record)) => return Some(Ok(*record)),
                Ok(ReadOutcome::End | ReadOutcome::Torn(_)) => return None,
                Err(error) => {
                    self.failed = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

/// Returns the number of the last record of a job, without reading the others.
pub fn read_last_seq(layout: &Layout, job: &JobId) -> Result<u64, Error> {
    let Some(last) = segment::list_segments(&layout.events_dir(job))?.pop() else {
        return Err(Error::NoJob { job: job.clone() });
    };
    let mut file = files::open_regular(&last.path, OpenMode::Read)?;
    let seek = |error| Error::io("read", &last.path, error);
    let end = file.seek(SeekFrom::End(0)).map_err(seek)?;
    let mut tail = Vec::new();
    let start = end.saturating_sub(u64::try_from(CHUNK).unwrap_or_default());
    file.seek(SeekFrom::Start(start)).map_err(seek)?;
    (&mut file).take(end - start).read_to_end(&mut tail).map_err(seek)?;
    // The last piece is empty, or a line that is not finished; the first may be cut.
    let mut lines = tail.rsplit(|byte| *byte == b'\n').skip(1);
    let seq = lines.next().and_then(|line| line::decode_header(line).ok()).map(|(seq, _)| seq);
    if let Some(seq) = seq {
        return Ok(seq);
    }
    // The line is longer than that, or there is something wrong with it.
    let mut reader = JournalReader::open_after(layout, job, u64::MAX)?;
    reader.by_ref().try_for_each(|record| record.map(drop))?;
    Ok(reader.last_seq())
}

/// Returns the number of a job's last record, once it would survive a power failure.
pub fn durable_seq(layout: &Layout, job: &JobId) -> Result<u64, Error> {
    let seq = read_last_seq(layout, job)?;
    if let Some(last) = segment::list_segments(&layout.events_dir(job))?.pop() {
        let file = files::open_regular(&last.path, OpenMode::Read)?;
        file.sync_data().map_err(|error| Error::io("sync", &last.path, error))?;
    }
    Ok(seq)
}

/// Hands over the records of a job as they are written, those already there first.
///
/// `None` means that there is nothing new; it comes several times a second. The
/// following ends when `each` breaks.
pub fn follow_journal<E: From<Error>>(
    layout: &Layout,
    job: &JobId,
    mut each: impl FnMut(Option<EventRecord>) -> Result<ControlFlow<()>, E>,
) -> Result<(), E> {
    let mut reader = JournalReader::open(layout, job)?;
    loop {
        for record in &mut reader {
            if each(Some(record?))?.is_break() {
                return Ok(());
            }
        }
        if each(None)?.is_break() {
            return Ok(());
        }
        wait();
    }
}

/// Waits until it is worth looking at a growing file again.
#[expect(clippy::disallowed_methods, reason = "files of another process are polled in real time")]
fn wait() {
    thread::sleep(POLL);
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write as _};

    use super::*;
    use crate::store::{
        Durability, JournalWriter,
        fixture::{TestHome, at, event},
    };

    fn three() -> TestHome {
        TestHome::with(vec![event("one"), event("two"), event("three")])
    }

    fn outcome(home: &TestHome) -> String {
        let whole = outcome_after(home, 0);
        // What is wrong is found in the same way in records that are passed over.
        let bad: Vec<_> = whole.lines().filter(|line| !line.starts_with("record")).collect();
        assert_eq!(outcome_after(home, u64::MAX), bad.join("\n"));
        whole
    }

    fn outcome_after(home: &TestHome, seq: u64) -> String {
        let records = JournalReader::open_after(&home.layout, &home.job, seq).unwrap();
        let lines: Vec<_> = records
            .map(|record| match record {
                Ok(record) => format!("record {}", record.seq),
                Err(error) => home.show(error),
            })
            .collect();
        lines.join("\n")
    }

    #[test]
    fn records_come_back_in_order() {
        insta::assert_snapshot!(outcome(&three()), @"
        record 1
        record 2
        record 3
        ");
    }

    #[test]
    fn records_up_to_a_number_are_passed_over() {
        let home = three();
        for seq in 0..=4_u64 {
            let mut reader = JournalReader::open_after(&home.layout, &home.job, seq).unwrap();
            let seqs: Vec<_> = reader.by_ref().map(|record| record.unwrap().seq).collect();
            assert_eq!(seqs, (seq + 1..=3).collect::<Vec<_>>());
            assert_eq!(reader.last_seq(), 3);
        }
    }

    #[test]
    fn the_last_record_is_found_without_reading_the_others() {
        let home = TestHome::new();
        let last = || read_last_seq(&home.layout, &home.job);
        assert!(matches!(last(), Err(Error::NoJob { .. })));
        let mut journal = home.create().with_segment_bytes(400);
        for number in 1..8 {
            // A line that is longer than what is read at once is found as well.
            let text = if number == 5 { "x".repeat(2 * CHUNK) } else { "x".to_owned() };
            journal.append(vec![event(&text)], at(number)).unwrap();
            assert_eq!(last().unwrap(), u64::try_from(number).unwrap());
        }
        let newest =
            segment::list_segments(&home.layout.events_dir(&home.job)).unwrap().pop().unwrap();
        let mut file = fs::File::options().append(true).open(newest.path).unwrap();
        file.write_all(b"{\"format\":1,\"seq\":8").unwrap();
        assert_eq!(last().unwrap(), 7);
    }

    #[test]
    fn an_unfinished_line_is_the_end_until_it_is_finished() {
        let home = three();
        let whole = fs::read(home.segment()).unwrap();
        let third = whole.iter().rposition(|byte| *byte == b',').unwrap();
        let mut file = fs::File::options().append(true).open(home.segment()).unwrap();
        file.set_len(u64::try_from(third).unwrap()).unwrap();
        let mut reader = JournalReader::open(&home.layout, &home.job).unwrap();
        assert_eq!(reader.by_ref().map(Result::unwrap).count(), 2);
        assert!(reader.next().is_none());
        file.write_all(&whole[third..]).unwrap();
        assert_eq!(reader.by_ref().map(Result::unwrap).count(), 1);
        assert!(reader.next().is_none());
    }

    #[test]
    fn a_reader_follows_its_writer_over_segments() {
        let home = TestHome::new();
        let mut journal = home.create().with_segment_bytes(400);
        journal.append(vec![event("0")], at(0)).unwrap();
        let mut reader = JournalReader::open(&home.layout, &home.job).unwrap();
        let mut seen = 0;
        for round in 1..20 {
            seen += reader.by_ref().map(Result::unwrap).count();
            assert_eq!(seen, round);
            journal.append(vec![event("more")], at(0)).unwrap();
        }
        assert!(home.files().len() > 5);
    }

    #[test]
    fn a_reader_misses_nothing_of_a_writer_that_rolls_all_the_time() {
        const RECORDS: u64 = 300;
        let home = TestHome::new();
        let mut journal = JournalWriter::create(&home.layout, &home.job, Durability::Relaxed)
            .unwrap()
            .with_segment_bytes(2000);
        journal.append(vec![event("0")], at(0)).unwrap();
        let mut reader = JournalReader::open(&home.layout, &home.job).unwrap();
        thread::scope(|scope| {
            scope.spawn(move || {
                for number in 1..RECORDS {
                    journal
                        .append(vec![event("more")], at(i64::try_from(number).unwrap()))
                        .unwrap();
                }
            });
            // Each record that is returned is the one after the last, or it would be an error.
            while reader.last_seq() < RECORDS {
                reader.by_ref().for_each(|record| drop(record.unwrap()));
            }
        });
    }

    #[test]
    fn damage_before_the_end_names_its_line() {
        let home = three();
        let mut bytes = fs::read(home.segment()).unwrap();
        let second = bytes.iter().position(|b| *b == b'\n').unwrap() + 20;
        bytes[second] ^= 1;
        files::write_atomic(&home.segment(), &bytes).unwrap();
        insta::assert_snapshot!(outcome(&home), @"
        record 1
        `$HOME/events/repo/job-1/events-20260102T030405Z.jsonl` is damaged at line 2: the checksum does not match
        ");
    }

    #[test]
    fn a_missing_record_and_a_record_of_another_job_are_damage() {
        let home = three();
        let text = fs::read_to_string(home.segment()).unwrap();
        let lines: Vec<_> = text.lines().collect();
        let without = format!("{}\n{}\n", lines[0], lines[2]);
        files::write_atomic(&home.segment(), without.as_bytes()).unwrap();
        insta::assert_snapshot!(outcome(&home), @"
        record 1
        `$HOME/events/repo/job-1/events-20260102T030405Z.jsonl` is damaged at line 2: record 3 follows record 1
        ");

        let other = TestHome { job: "job-2".parse().unwrap(), ..three() };
        let directory = other.layout.events_dir(&other.job);
        fs::create_dir(&directory).unwrap();
        fs::copy(home.segment(), directory.join("events-20260102T030405Z.jsonl")).unwrap();
        insta::assert_snapshot!(outcome(&other), @"`$HOME/events/repo/job-2/events-20260102T030405Z.jsonl` is damaged at line 1: it belongs to the job `job-1`");
    }

    #[test]
    fn a_cut_segment_before_the_last_is_damage() {
        let home = TestHome::new();
        let mut journal = home.create().with_segment_bytes(1);
        journal.append(vec![event("one")], at(0)).unwrap();
        journal.append(vec![event("two")], at(1)).unwrap();
        let length = fs::metadata(home.segment()).unwrap().len();
        fs::File::options().write(true).open(home.segment()).unwrap().set_len(length - 1).unwrap();
        insta::assert_snapshot!(outcome(&home), @"`$HOME/events/repo/job-1/events-20260102T030405Z.jsonl` is damaged at line 1: it is cut off, and more records follow");
    }

    #[test]
    fn a_line_without_end_is_refused_in_bounded_memory() {
        let home = three();
        let file = fs::File::options().write(true).open(home.segment()).unwrap();
        file.set_len(u64::try_from(MAX_LINE).unwrap() * 2).unwrap();
        insta::assert_snapshot!(outcome(&home), @"
        record 1
        record 2
        record 3
        `$HOME/events/repo/job-1/events-20260102T030405Z.jsonl` is damaged at line 4: it is longer than 33554432 bytes
        ");
    }

    #[test]
    fn a_job_that_was_never_recorded_does_not_exist() {
        let home = TestHome::new();
        let error = JournalReader::open(&home.layout, &home.job).unwrap_err();
        insta::assert_snapshot!(error, @"there is no job `job-1`");
        // A directory without a file is a job that died before its first record.
        drop(home.create());
        assert!(matches!(JournalReader::open(&home.layout, &home.job), Err(Error::NoJob { .. })));
    }

    #[test]
    fn following_sees_what_a_live_writer_adds_and_ends_when_told() {
        let home = TestHome::with(vec![event("one")]);
        let (mut journal, _) =
            JournalWriter::open(&home.layout, &home.job, Durability::Relaxed).unwrap();
        journal = journal.with_segment_bytes(400);
        let mut seen = Vec::new();
        follow_journal::<Error>(&home.layout, &home.job, |record| {
            match record {
                Some(record) if record.seq == 5 => return Ok(ControlFlow::Break(())),
                Some(record) => seen.push(record.seq),
                None => drop(journal.append(vec![event("more")], at(1))?),
            }
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
        assert_eq!(seen, [1, 2, 3, 4]);

        let mut idle = 0;
        follow_journal::<Error>(&home.layout, &home.job, |record| {
            idle += u32::from(record.is_none());
            Ok(if idle == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })
        .unwrap();
        assert_eq!(idle, 2);
    }

    /// Journals of earlier releases stay readable, to the last field.
    #[test]
    fn journals_of_format_one_are_read() {
        let goldens = [
            (
                "workflow-20260824-101500-a1b2c3d4",
                include_str!("../../../tests/golden/v1/every-event.jsonl"),
            ),
            (
                "mapreduce-20260824-101500-a1b2",
                include_str!("../../../tests/golden/v1/items.jsonl"),
            ),
            ("agents-20261116-091500-e5f6", include_str!("../../../tests/golden/v1/agents.jsonl")),
            (
                "governed-20261116-090000-c3d4",
                include_str!("../../../tests/golden/v1/governed.jsonl"),
            ),
            (
                "watched-20261206-090000-d4e5",
                include_str!("../../../tests/golden/v1/checkout.jsonl"),
            ),
            (
                "conflict-20261206-100000-f6a7",
                include_str!("../../../tests/golden/v1/conflict.jsonl"),
            ),
            ("kept-20261207-100000-a7b8", include_str!("../../../tests/golden/v1/kept-work.jsonl")),
            (
                "handler-20261118-090000-b7c8",
                include_str!("../../../tests/golden/v1/handler.jsonl"),
            ),
            ("cut-20261118-110000-c8d9", include_str!("../../../tests/golden/v1/lost-end.jsonl")),
            (
                "guarded-20261118-120000-d9ea",
                include_str!("../../../tests/golden/v1/guarded.jsonl"),
            ),
            (
                "suspended-20261118-130000-eafb",
                include_str!("../../../tests/golden/v1/suspended.jsonl"),
            ),
        ];
        for (job, golden) in goldens {
            is_read(job, golden);
        }
    }

    fn is_read(job: &str, golden: &str) {
        let home = TestHome::new();
        let job = job.parse().unwrap();
        let directory = home.layout.events_dir(&job);
        files::create_dir(&directory).unwrap();
        files::write_atomic(&directory.join("events-20260824T101500Z.jsonl"), golden.as_bytes())
            .unwrap();
        let records: Vec<EventRecord> =
            JournalReader::open(&home.layout, &job).unwrap().map(Result::unwrap).collect();
        assert_eq!(records.len(), golden.lines().count());
        for (record, line) in records.iter().zip(golden.lines()) {
            let (body, _) = line.rsplit_once(",\"crc\"").unwrap();
            let written: serde_json::Value = serde_json::from_str(&format!("{body}}}")).unwrap();
            // Nothing of it is lost; fields that came later are written with their defaults.
            let read = serde_json::to_value(record).unwrap();
            for (name, value) in written.as_object().unwrap() {
                // The positions of external steps are not needed any more.
                let is_known = |value: &serde_json::Value| {
                    let mut value = value.clone();
                    value.as_object_mut().and_then(|fields| fields.remove("external"));
                    value
                };
                assert_eq!(read.get(name).map(is_known), Some(is_known(value)), "{name} of {line}");
            }
        }
    }
}
