//! Writing the journal.
//!
//! Whoever writes holds the job's [`JobLock`](crate::store::JobLock): a journal has one
//! writer. Records are in the kernel when [`JournalWriter::append`] returns, so that they
//! survive the process, and on the disk when [`JournalWriter::sync`] returns, so that
//! they survive the machine.

use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom, Write as _},
    path::PathBuf,
    sync::Arc,
};

use prodigy_core::{
    Timestamp,
    event::{EventRecord, FORMAT, NewEvent},
    ids::JobId,
};

use super::{
    beginning,
    line::{self, MAX_LINE},
    reader::{BadLine, ReadOutcome},
    segment::{self, JournalSegment},
    syncer::{SyncTicket, Syncer},
};
use crate::store::{
    Error, JournalReader, Layout,
    files::{self, OpenMode},
    tombstone::refuse_removed,
};

/// The size from which on records go to a new file.
const SEGMENT_BYTES: u64 = 64 * 1024 * 1024;

/// The approximate number of bytes per write.
const CHUNK: usize = 1024 * 1024;

/// The failures that a record survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The end of the process and of the machine.
    #[default]
    Full,
    /// The end of the process. Nothing waits for the disk.
    Relaxed,
}

/// A job's journal, open for writing.
#[derive(Debug)]
pub struct JournalWriter {
    directory: PathBuf,
    job: JobId,
    current: Option<OpenSegment>,
    next_seq: u64,
    segment_bytes: u64,
    buffer: Vec<u8>,
    syncer: Option<Syncer>,
    /// Set if the file may hold a part of the append in progress.
    touched: bool,
    failed: Option<Error>,
}

/// The segment that is written.
#[derive(Debug)]
struct OpenSegment {
    segment: JournalSegment,
    file: Arc<File>,
    /// Up to here there are whole records.
    length: u64,
}

/// The result of reopening a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalRecovery {
    /// The end that a crash tore off, if it did.
    pub torn: Option<TornTail>,
    /// The number of the last whole record; 0 if there is none.
    pub last_seq: u64,
}

/// An unfinished end of a journal, which was cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The file that was cut.
    pub file: PathBuf,
    /// The line that was not whole, from 1.
    pub line: u64,
    /// Where the bytes are that were cut.
    pub saved_to: PathBuf,
}

impl JournalWriter {
    /// Begins the journal of a new job. Its first file is made with its first record.
    ///
    /// A job that was killed before its first record takes no id: what is there of it is moved
    /// aside. The caller holds the lock of the job.
    pub fn create(layout: &Layout, job: &JobId, durability: Durability) -> Result<Self, Error> {
        let directory = layout.events_dir(job);
        refuse_removed(layout, job)?;
        let segments = segment::list_segments(&directory)?;
        if !segments.is_empty() {
            if beginning::has_begun(layout, job)? {
                return Err(Error::Exists { job: job.clone() });
            }
            beginning::move_journal_aside(&segments)?;
        }
        files::create_dir(&directory)?;
        Self::new(directory, job, durability)
    }

    /// Opens the journal of a job whose writer is gone, to go on with it.
    ///
    /// An end that a crash tore off is cut, and the bytes are kept beside the file.
    /// Any other damage is an error, and nothing is changed.
    pub fn open(
        layout: &Layout,
        job: &JobId,
        durability: Durability,
    ) -> Result<(Self, JournalRecovery), Error> {
        // The records are checked here and understood by whoever reads them.
        Self::open_after(layout, job, durability, u64::MAX, |_| Ok(()))
    }

    /// Opens the journal of a job like [`JournalWriter::open`], and hands over the records with
    /// higher numbers than `seq` on the way, so that a long journal is read only once.
    ///
    /// If `each` fails, nothing is changed.
    pub fn open_after<E: From<Error>>(
        layout: &Layout,
        job: &JobId,
        durability: Durability,
        seq: u64,
        mut each: impl FnMut(EventRecord) -> Result<(), E>,
    ) -> Result<(Self, JournalRecovery), E> {
        let mut reader = JournalReader::open_after(layout, job, seq)?;
        let torn = loop {
            match reader.read_next()? {
                ReadOutcome::Record(record) => each(*record)?,
                ReadOutcome::Passed => {}
                ReadOutcome::End => break None,
                ReadOutcome::Torn(spot) => break Some(spot),
            }
        };
        Ok(Self::open_at_end(layout, job, durability, &reader, torn)?)
    }

    /// Opens a journal for writing that was read to its end.
    fn open_at_end(
        layout: &Layout,
        job: &JobId,
        durability: Durability,
        reader: &JournalReader,
        torn: Option<BadLine>,
    ) -> Result<(Self, JournalRecovery), Error> {
        let end = reader.bad_line("").unwrap_or_default();
        let last_seq = reader.last_seq();
        let mut journal = Self::new(layout.events_dir(job), job, durability)?;
        journal.next_seq = last_seq + 1;
        let torn = torn.map(|spot| cut_torn_tail(&spot)).transpose()?;
        let last = segment::list_segments(&journal.directory)?.pop();
        if let Some(segment) = last.filter(|segment| segment.path == end.path) {
            let file = files::open_regular(&segment.path, OpenMode::Append)?;
            // What the dead writer wrote is about to be built upon, so it has to last.
            file.sync_data().map_err(|error| Error::io("sync", &segment.path, error))?;
            journal.use_segment(segment, file, end.offset);
        }
        Ok((journal, JournalRecovery { torn, last_seq }))
    }

    fn new(directory: PathBuf, job: &JobId, durability: Durability) -> Result<Self, Error> {
        let syncer = match durability {
            Durability::Full => Some(Syncer::start()?),
            Durability::Relaxed => None,
        };
        Ok(Self {
            directory,
            job: job.clone(),
            current: None,
            next_seq: 1,
            segment_bytes: SEGMENT_BYTES,
            buffer: Vec::new(),
            syncer,
            touched: false,
            failed: None,
        })
    }

    /// Sets the size from which on records go to a new file; for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn with_segment_bytes(mut self, bytes: u64) -> Self {
        self.segment_bytes = bytes;
        self
    }

    /// Appends records to the journal, with one write unless they are very many.
    ///
    /// They are synced at most a few milliseconds later. After an error of the disk
    /// the journal is closed for good, and every later call returns that error:
    /// what did not reach the disk did not happen.
    pub fn append<T: Into<NewEvent>>(
        &mut self,
        facts: Vec<T>,
        now: Timestamp,
    ) -> Result<Vec<EventRecord>, Error> {
        self.check()?;
        self.touched = false;
        let appended = self.encode(facts, now).and_then(|records| {
            self.write(now)?;
            Ok(records)
        });
        match &appended {
            Ok(records) => self.next_seq += u64::try_from(records.len()).unwrap_or_default(),
            // What is in the file already is not known to the caller and cannot be taken back.
            Err(error) if self.touched => self.failed = Some(error.clone()),
            Err(_) => {}
        }
        appended
    }

    /// Waits until everything appended so far would survive a power failure.
    pub fn sync(&self) -> Result<(), Error> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.syncer.as_ref().map_or(Ok(()), Syncer::wait)
    }

    /// Asks for everything appended so far to be made durable, to wait for it without
    /// blocking the thread.
    pub fn sync_ticket(&self) -> SyncTicket {
        match (&self.failed, &self.syncer) {
            (Some(error), _) => SyncTicket::ready(Err(error.clone())),
            (None, Some(syncer)) => syncer.ticket(),
            (None, None) => SyncTicket::ready(Ok(())),
        }
    }

    /// Takes a journal back whose first records could not be made durable.
    pub fn discard(self) {
        // What cannot be removed is a job without a beginning, and is reported as that.
        if let Some(current) = &self.current {
            std::fs::remove_file(&current.segment.path).ok();
        }
        std::fs::remove_dir(&self.directory).ok();
    }

    fn check(&self) -> Result<(), Error> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.syncer.as_ref().map_or(Ok(()), Syncer::check)
    }

    /// Numbers the events and puts their lines into the buffer.
    fn encode<T: Into<NewEvent>>(
        &mut self,
        facts: Vec<T>,
        now: Timestamp,
    ) -> Result<Vec<EventRecord>, Error> {
        self.buffer.clear();
        let mut records = Vec::with_capacity(facts.len());
        for (seq, fact) in (self.next_seq..).zip(facts) {
            let (format, timestamp, job_id) = (FORMAT, now, self.job.clone());
            let NewEvent { agent_id, item_id, event } = fact.into();
            let record = EventRecord { format, seq, timestamp, job_id, agent_id, item_id, event };
            let start = self.buffer.len();
            line::encode(&record, &mut self.buffer)
                .map_err(|reason| Error::Encode { path: self.directory.clone(), reason })?;
            let bytes = self.buffer.len() - start;
            if bytes > MAX_LINE {
                return Err(Error::TooLong { bytes, limit: MAX_LINE });
            }
            records.push(record);
            if self.buffer.len() >= CHUNK {
                self.write(now)?;
            }
        }
        Ok(records)
    }

    /// Writes the buffer and empties it.
    fn write(&mut self, now: Timestamp) -> Result<(), Error> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.touched = true;
        let bytes = u64::try_from(self.buffer.len()).unwrap_or(u64::MAX);
        if self.current.as_ref().is_none_or(|current| {
            current.length > 0 && current.length.saturating_add(bytes) > self.segment_bytes
        }) {
            self.start_segment(now)?;
        }
        let Some(current) = &mut self.current else { return Ok(()) };
        if let Err(error) = (&*current.file).write_all(&self.buffer) {
            // Half a line would have to be cut at the next start. If this fails too,
            // for the disk may be gone, then that is what will happen.
            current.file.set_len(current.length).ok();
            return Err(Error::io("write", &current.segment.path, error));
        }
        current.length += bytes;
        self.buffer.clear();
        if let Some(syncer) = &self.syncer {
            syncer.notify_write();
        }
        Ok(())
    }

    /// Begins a new segment. The old one is made durable first: only the end of the
    /// last segment may ever be torn.
    fn start_segment(&mut self, now: Timestamp) -> Result<(), Error> {
        let last = match self.current.take() {
            Some(current) => {
                // The kernel reports a failed sync only once, so all of them are done
                // where everybody who waits for one learns of it.
                let synced = match &self.syncer {
                    Some(syncer) => syncer.wait(),
                    None => current
                        .file
                        .sync_data()
                        .map_err(|error| Error::io("sync", &current.segment.path, error)),
                };
                synced?;
                Some(current.segment)
            }
            None => segment::list_segments(&self.directory)?.pop(),
        };
        let segment = JournalSegment::next(&self.directory, last.as_ref(), now);
        let file = files::create_file(&segment.path)
            .map_err(|error| Error::io("create", &segment.path, error))?;
        files::sync_dir(&self.directory)?;
        self.use_segment(segment, file, 0);
        Ok(())
    }

    /// Returns the name of the file that is written.
    pub fn segment_name(&self) -> Option<String> {
        let name = self.current.as_ref()?.segment.path.file_name()?;
        Some(name.to_string_lossy().into_owned())
    }

    fn use_segment(&mut self, segment: JournalSegment, file: File, length: u64) {
        let file = Arc::new(file);
        if let Some(syncer) = &self.syncer {
            syncer.switch_to(&file, &segment.path);
        }
        self.current = Some(OpenSegment { segment, file, length });
    }
}

/// Cuts a torn end and keeps it beside the file.
fn cut_torn_tail(spot: &BadLine) -> Result<TornTail, Error> {
    let mut file = files::open_regular(&spot.path, OpenMode::Append)?;
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(spot.offset))
        .and_then(|_| file.read_to_end(&mut tail))
        .map_err(|error| Error::io("read", &spot.path, error))?;
    let saved_to = files::unused_name(&spot.path, ".torn")?;
    files::write_atomic(&saved_to, &tail)?;
    file.set_len(spot.offset)
        .and_then(|()| file.sync_all())
        .map_err(|error| Error::io("cut", &spot.path, error))?;
    Ok(TornTail { file: spot.path.clone(), line: spot.line, saved_to })
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        io::{BufRead as _, BufReader},
        path::Path,
        time::Instant,
    };

    use proptest::prelude::*;

    use super::*;
    use crate::store::fixture::{self, TestHome, at, event};

    fn open(home: &TestHome) -> Result<(JournalWriter, JournalRecovery), Error> {
        JournalWriter::open(&home.layout, &home.job, Durability::Full)
    }

    fn set_len(path: &Path, length: usize) {
        let file = File::options().write(true).open(path).unwrap();
        file.set_len(u64::try_from(length).unwrap()).unwrap();
    }

    #[test]
    fn records_are_numbered_from_one_and_go_on_after_opening() {
        let home = TestHome::new();
        let mut journal = home.create();
        let records = journal.append(vec![event("a"), event("b")], at(0)).unwrap();
        assert_eq!(records.iter().map(|r| r.seq).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(journal.append(Vec::<NewEvent>::new(), at(0)).unwrap(), []);
        drop(journal);
        let (mut journal, opened) = open(&home).unwrap();
        assert_eq!(opened, JournalRecovery { torn: None, last_seq: 2 });
        assert_eq!(journal.append(vec![event("c")], at(9)).unwrap()[0].seq, 3);
        assert_eq!(home.records().len(), 3);
        assert_eq!(home.files().len(), 1);
    }

    #[test]
    fn a_new_job_does_not_take_over_an_old_one() {
        let home = TestHome::with(vec![event("a")]);
        let error = JournalWriter::create(&home.layout, &home.job, Durability::Full).unwrap_err();
        insta::assert_snapshot!(error, @"there is already a job `job-1`");
        assert_eq!(home.records().len(), 1);
    }

    #[test]
    fn a_job_that_died_before_its_first_record_can_be_created_again() {
        let home = TestHome::new();
        drop(home.create());
        home.create().append(vec![event("a")], at(0)).unwrap();
        assert_eq!(home.records().len(), 1);
    }

    #[test]
    fn a_full_segment_is_followed_by_another() {
        let home = TestHome::new();
        let mut journal = home.create().with_segment_bytes(600);
        for second in 0..6 {
            journal.append(vec![event("some text")], at(second / 4)).unwrap();
        }
        journal.append(vec![event(&"x".repeat(2000))], at(1)).unwrap();
        let names: Vec<_> =
            home.files().into_iter().map(|(n, b)| format!("{n} {}", b.len())).collect();
        insta::assert_snapshot!(names.join("\n"), @"
        events-20260102T030405Z.jsonl 480
        events-20260102T030405Z_000001.jsonl 480
        events-20260102T030406Z.jsonl 2151
        ");
        assert_eq!(home.records().len(), 7);
        drop(journal);
        let (mut journal, _) = open(&home).unwrap();
        journal.append(vec![event("on")], at(2)).unwrap();
        assert_eq!(home.records().len(), 8);
    }

    #[test]
    fn a_tail_cut_at_any_byte_is_saved_aside_and_the_job_goes_on() {
        let whole = {
            let home = TestHome::with(vec![event("one"), event("two"), event("three")]);
            fs::read(home.segment()).unwrap()
        };
        let last = whole[..whole.len() - 1].iter().rposition(|b| *b == b'\n').unwrap() + 1;
        for length in last + 1..whole.len() {
            let home = TestHome::with(vec![event("one"), event("two"), event("three")]);
            set_len(&home.segment(), length);
            let (mut journal, opened) = open(&home).unwrap();
            let torn = opened.torn.unwrap();
            assert_eq!((opened.last_seq, torn.line), (2, 3));
            assert_eq!(torn.file, home.segment());
            assert_eq!(fs::read(&torn.saved_to).unwrap(), whole[last..length]);
            journal.append(vec![event("again")], at(1)).unwrap();
            journal.sync().unwrap();
            let seqs: Vec<_> = home.records().iter().map(|r| r.seq).collect();
            assert_eq!(seqs, [1, 2, 3]);
        }
    }

    #[test]
    fn zeros_and_rubbish_after_a_power_failure_are_a_torn_tail() {
        for tail in [&b"\0\0\0\0"[..], b"\0\0\n\0\0\n", b"{\"format\":1\n{\"format\":1\n"] {
            let home = TestHome::with(vec![event("one")]);
            let mut bytes = fs::read(home.segment()).unwrap();
            bytes.extend_from_slice(tail);
            files::write_atomic(&home.segment(), &bytes).unwrap();
            let (_, opened) = open(&home).unwrap();
            let torn = opened.torn.unwrap();
            assert_eq!((opened.last_seq, torn.line), (1, 2));
            assert_eq!(fs::read(&torn.saved_to).unwrap(), tail);
            let (_, opened) = open(&home).unwrap();
            assert_eq!(opened.torn, None);
        }
    }

    #[test]
    fn a_second_torn_tail_does_not_overwrite_the_first() {
        let home = TestHome::with(vec![event("one")]);
        for tail in ["a", "b"] {
            let mut bytes = fs::read(home.segment()).unwrap();
            bytes.extend_from_slice(tail.as_bytes());
            files::write_atomic(&home.segment(), &bytes).unwrap();
            open(&home).unwrap();
        }
        let tails: Vec<_> = home.files().into_iter().skip(1).collect();
        let named = |name: &str, tail: &[u8]| {
            (format!("events-20260102T030405Z.jsonl.{name}"), tail.to_vec())
        };
        assert_eq!(tails, [named("torn", b"a"), named("torn-2", b"b")]);
    }

    #[test]
    fn a_format_of_the_future_is_refused_and_nothing_is_changed() {
        let home = TestHome::with(vec![event("one")]);
        let text = fs::read_to_string(home.segment()).unwrap();
        let (body, _) = text.split_once(",\"crc\"").unwrap();
        let body = body.replace("\"format\":1", "\"format\":2");
        let line = format!("{body},\"crc\":\"{:08x}\"}}\n", crc32fast::hash(body.as_bytes()));
        files::write_atomic(&home.segment(), line.as_bytes()).unwrap();
        let error = open(&home).unwrap_err();
        insta::assert_snapshot!(home.show(error), @"`$HOME/events/repo/job-1/events-20260102T030405Z.jsonl` line 1 was written by a newer prodigy: its format is 2");
        assert_eq!(home.files()[0].1, line.as_bytes());
    }

    #[test]
    fn a_full_disk_ends_the_journal_at_a_whole_record() {
        if let Some(directory) = fixture::in_child() {
            let layout = Layout::new(directory, "repo".parse().unwrap());
            let job = "job-1".parse().unwrap();
            let mut journal = JournalWriter::create(&layout, &job, Durability::Full).unwrap();
            journal.append(vec![event("fits")], at(0)).unwrap();
            journal.sync().unwrap();
            let error = journal.append(vec![event(&"x".repeat(100_000))], at(0)).unwrap_err();
            assert!(error.is_disk_full(), "{error:?}");
            for error in [
                journal.append(vec![event("would fit")], at(0)).unwrap_err(),
                journal.sync().unwrap_err(),
            ] {
                assert!(error.is_disk_full(), "{error:?}");
            }
            return;
        }
        let home = TestHome::new();
        fixture::run_child(
            "store::journal::writer::tests::a_full_disk_ends_the_journal_at_a_whole_record",
            "trap '' XFSZ; ulimit -f 8; exec \"$@\"",
            &home.directory,
        );
        let (_, opened) = open(&home).unwrap();
        assert_eq!(opened, JournalRecovery { torn: None, last_seq: 1 });
    }

    #[test]
    fn what_was_appended_survives_the_death_of_its_process() {
        if let Some(directory) = fixture::in_child() {
            let layout = Layout::new(directory, "repo".parse().unwrap());
            let mut journal =
                JournalWriter::create(&layout, &"job-1".parse().unwrap(), Durability::Full)
                    .unwrap();
            loop {
                let seq = journal.append(vec![event("x")], at(0)).unwrap()[0].seq;
                println!("\nappended {seq}");
            }
        }
        let home = TestHome::new();
        let mut child = fixture::child(
            "store::journal::writer::tests::what_was_appended_survives_the_death_of_its_process",
            "exec \"$@\"",
            &home.directory,
        )
        .spawn()
        .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut appended = lines.filter_map(|line| line.strip_prefix("appended ")?.parse().ok());
        assert_eq!(appended.nth(199), Some(200));
        child.kill().unwrap();
        child.wait().unwrap();
        let last: u64 = appended.last().unwrap_or(200);
        let (_, opened) = open(&home).unwrap();
        assert!(opened.last_seq >= last, "{} of {last}", opened.last_seq);
    }

    #[test]
    fn a_failed_sync_is_never_tried_again() {
        let home = TestHome::new();
        let mut journal = home.create();
        journal.append(vec![event("one")], at(0)).unwrap();
        journal.sync().unwrap();
        // A pipe cannot be synced.
        let (_reader, writer) = rustix::pipe::pipe().unwrap();
        let pipe = Arc::new(File::from(writer));
        journal.syncer.as_ref().unwrap().switch_to(&pipe, Path::new("/pipe"));
        journal.append(vec![event("two")], at(0)).unwrap();
        let lost = journal.sync().unwrap_err();
        insta::assert_snapshot!(lost, @"cannot sync `/pipe`");
        let file = Arc::clone(&journal.current.as_ref().unwrap().file);
        journal.syncer.as_ref().unwrap().switch_to(&file, &home.segment());
        assert_eq!(journal.sync().unwrap_err().to_string(), lost.to_string());
        let again = journal.append(vec![event("three")], at(0)).unwrap_err();
        assert_eq!(again.to_string(), lost.to_string());
    }

    #[test]
    fn a_new_segment_does_not_hide_that_the_old_one_was_lost() {
        let home = TestHome::new();
        let mut journal = home.create().with_segment_bytes(400);
        journal.append(vec![event("one")], at(0)).unwrap();
        journal.sync().unwrap();
        // A pipe cannot be synced.
        let (_reader, writer) = rustix::pipe::pipe().unwrap();
        let pipe = Arc::new(File::from(writer));
        journal.syncer.as_ref().unwrap().switch_to(&pipe, Path::new("/pipe"));
        journal.append(vec![event("two")], at(0)).unwrap();
        // This comes before the syncing has found out by itself.
        let error = journal.append(vec![event(&"x".repeat(400))], at(0)).unwrap_err();
        insta::assert_snapshot!(error, @"cannot sync `/pipe`");
        let later = block_on(journal.sync_ticket().wait()).unwrap_err();
        insta::assert_snapshot!(later, @"cannot sync `/pipe`");
        assert_eq!(home.files().len(), 1);
    }

    #[test]
    fn many_records_share_one_sync() {
        let home = TestHome::new();
        let mut journal = home.create();
        let start = Instant::now();
        for _ in 0..1000 {
            journal.append(vec![event("x")], at(0)).unwrap();
        }
        journal.sync().unwrap();
        let spent = start.elapsed();
        let syncs = journal.syncer.as_ref().unwrap().syncs();
        // At most one for every 10 ms that passed, and the one that was waited for.
        let most = u64::try_from(spent.as_millis()).unwrap() / 10 + 2;
        assert!((1..=most).contains(&syncs), "{syncs} syncs in {spent:?}");
        journal.sync().unwrap();
        assert_eq!(journal.syncer.as_ref().unwrap().syncs(), syncs);
    }

    #[test]
    fn records_become_durable_without_being_waited_for() {
        let home = TestHome::new();
        let mut journal = home.create();
        journal.append(vec![event("x")], at(0)).unwrap();
        let start = Instant::now();
        while journal.syncer.as_ref().unwrap().syncs() == 0 {
            assert!(start.elapsed().as_secs() < 10);
            std::thread::yield_now();
        }
    }

    #[test]
    fn relaxed_durability_starts_no_thread_and_never_syncs() {
        let home = TestHome::new();
        let mut journal =
            JournalWriter::create(&home.layout, &home.job, Durability::Relaxed).unwrap();
        journal.append(vec![event("x")], at(0)).unwrap();
        journal.sync().unwrap();
        block_on(journal.sync_ticket().wait()).unwrap();
        assert!(journal.syncer.is_none());
    }

    #[test]
    fn very_many_records_are_written_in_pieces_and_over_segments() {
        const RECORDS: usize = 12_000;
        let home = TestHome::new();
        let mut journal = home.create().with_segment_bytes(u64::try_from(CHUNK).unwrap() + 1000);
        let events = (0..RECORDS).map(|_| event(&"x".repeat(200))).collect();
        let written = journal.append(events, at(0)).unwrap();
        assert_eq!(written.len(), RECORDS);
        assert!(journal.buffer.capacity() < 3 * CHUNK, "{}", journal.buffer.capacity());
        journal.append(vec![event("and one more")], at(0)).unwrap();
        journal.sync().unwrap();
        let sizes: Vec<_> = home.files().into_iter().map(|(_, bytes)| bytes.len()).collect();
        let total: usize = sizes.iter().sum();
        assert_eq!(sizes.len(), total.div_ceil(CHUNK));
        let records = home.records();
        assert_eq!(records[..RECORDS], written);
        assert_eq!(records.len(), RECORDS + 1);
    }

    #[test]
    fn a_journal_that_took_half_of_what_it_was_given_takes_no_more() {
        let home = TestHome::new();
        let mut journal = home.create();
        let piece = event(&"x".repeat(CHUNK));
        let events = vec![piece.clone(), event("small"), event(&"x".repeat(MAX_LINE)), piece];
        let error = journal.append(events, at(0)).unwrap_err();
        assert!(matches!(error, Error::TooLong { .. }), "{error:?}");
        let again = journal.append(vec![event("more")], at(0)).unwrap_err();
        assert_eq!(again.to_string(), error.to_string());
        drop(journal);
        let (mut journal, opened) = open(&home).unwrap();
        assert_eq!(opened, JournalRecovery { torn: None, last_seq: 1 });
        assert_eq!(journal.append(vec![event("more")], at(0)).unwrap()[0].seq, 2);
    }

    #[test]
    fn opening_hands_over_the_records_that_were_asked_for() {
        let home = TestHome::with(vec![event("one"), event("two"), event("three")]);
        let mut seen = Vec::new();
        let (_, opened) = JournalWriter::open_after::<Error>(
            &home.layout,
            &home.job,
            Durability::Full,
            1,
            |record| {
                seen.push(record.seq);
                Ok(())
            },
        )
        .unwrap();
        assert_eq!((opened.last_seq, seen), (3, vec![2, 3]));

        let length = fs::metadata(home.segment()).unwrap().len();
        set_len(&home.segment(), usize::try_from(length - 1).unwrap());
        let before = home.files();
        let refuse = |_| Err(Error::NoJob { job: home.job.clone() });
        JournalWriter::open_after(&home.layout, &home.job, Durability::Full, 1, refuse)
            .unwrap_err();
        assert_eq!(home.files(), before);
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    #[test]
    fn a_ticket_is_good_for_what_was_appended_before_it() {
        let home = TestHome::new();
        let mut journal = home.create();
        let before_anything = journal.sync_ticket();
        let mut tickets = vec![before_anything];
        for _ in 0..50 {
            journal.append(vec![event("x")], at(0)).unwrap();
            tickets.push(journal.sync_ticket());
        }
        block_on(async {
            for ticket in tickets {
                ticket.wait().await.unwrap();
            }
        });
        let syncer = journal.syncer.as_ref().unwrap();
        assert!((1..=50).contains(&syncer.syncs()), "{}", syncer.syncs());
        let syncs = syncer.syncs();
        block_on(journal.sync_ticket().wait()).unwrap();
        assert_eq!(syncer.syncs(), syncs);
    }

    #[test]
    fn a_ticket_is_honoured_over_a_roll_and_after_the_end_of_the_journal() {
        let home = TestHome::new();
        let mut journal = home.create().with_segment_bytes(1);
        journal.append(vec![event("one")], at(0)).unwrap();
        let rolled = journal.sync_ticket();
        journal.append(vec![event("two")], at(0)).unwrap();
        let closed = journal.sync_ticket();
        block_on(rolled.wait()).unwrap();
        drop(journal);
        block_on(closed.wait()).unwrap();
        assert_eq!(home.files().len(), 2);
    }

    #[test]
    fn a_ticket_of_a_failed_sync_says_so_and_one_from_before_does_not() {
        let home = TestHome::new();
        let mut journal = home.create();
        journal.append(vec![event("one")], at(0)).unwrap();
        let before = journal.sync_ticket();
        journal.sync().unwrap();
        // A pipe cannot be synced.
        let (_reader, writer) = rustix::pipe::pipe().unwrap();
        let pipe = Arc::new(File::from(writer));
        journal.syncer.as_ref().unwrap().switch_to(&pipe, Path::new("/pipe"));
        journal.append(vec![event("two")], at(0)).unwrap();
        let lost = journal.sync_ticket();
        block_on(before.wait()).unwrap();
        insta::assert_snapshot!(block_on(lost.wait()).unwrap_err(), @"cannot sync `/pipe`");
        let later = block_on(journal.sync_ticket().wait()).unwrap_err();
        insta::assert_snapshot!(later, @"cannot sync `/pipe`");
    }

    #[test]
    fn a_record_that_no_reader_would_take_is_refused_and_harms_nothing() {
        let home = TestHome::new();
        let mut journal = home.create();
        let error = journal.append(vec![event(&"x".repeat(MAX_LINE))], at(0)).unwrap_err();
        insta::assert_snapshot!(error, @"a record of 33554583 bytes is too long for the journal, which takes 33554432");
        journal.append(vec![event("small")], at(0)).unwrap();
        assert_eq!(home.records().len(), 1);
    }

    #[test]
    #[ignore = "a measurement; run it alone and optimised"]
    fn how_long_half_a_million_records_take() {
        const RECORDS: usize = 500_000;
        let home = TestHome::new();
        let mut journal = home.create();
        let completed = fixture::read(serde_json::json!({
            "event_type": "step_completed", "step": "1", "attempt": 1, "status": "success",
            "exit_code": 0, "duration_ms": 1234, "output": "some output of the step\n",
        }));
        let mut events: Vec<_> = (0..RECORDS)
            .map(|at| if at % 2 == 0 { event("some text of a name") } else { completed.clone() })
            .collect();
        let queued = events.split_off(RECORDS - 100_000);
        journal.append(events, at(0)).unwrap();
        let start = Instant::now();
        drop(journal.append(queued, at(0)).unwrap());
        println!("append 100000 {:?}", start.elapsed());
        let start = Instant::now();
        journal.sync().unwrap();
        println!("sync {:?}", start.elapsed());
        drop(journal);
        let bytes: usize = home.files().iter().map(|(_, bytes)| bytes.len()).sum();
        println!("{} bytes a record", bytes / RECORDS);
        let start = Instant::now();
        assert_eq!(JournalReader::open(&home.layout, &home.job).unwrap().count(), RECORDS);
        println!("read {:?}", start.elapsed());
        let start = Instant::now();
        assert_eq!(
            JournalReader::open_after(&home.layout, &home.job, u64::MAX).unwrap().count(),
            0
        );
        println!("pass over {:?}", start.elapsed());
        let start = Instant::now();
        open(&home).unwrap();
        println!("open {:?}", start.elapsed());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Records survive a round trip, whatever their texts are and wherever segments end.
        #[test]
        fn any_records_come_back(
            batches in prop::collection::vec(prop::collection::vec(".{0,40}", 0..4), 0..8),
            segment_bytes in 1_u64..2000,
        ) {
            let home = TestHome::new();
            let mut journal = home.create().with_segment_bytes(segment_bytes);
            let mut written = Vec::new();
            for batch in &batches {
                let events = batch.iter().map(|text| event(text)).collect();
                written.extend(journal.append(events, at(0)).unwrap());
            }
            drop(journal);
            if !written.is_empty() {
                prop_assert_eq!(home.records(), written);
            }
        }

        /// A changed byte is refused by name with nothing touched, unless it is in the
        /// last line, where it cannot be told from a torn write.
        #[test]
        fn a_changed_byte_before_the_last_line_is_refused(
            texts in prop::collection::vec(".{0,40}", 2..6),
            place in any::<prop::sample::Index>(),
            bit in 0..8,
        ) {
            let home = TestHome::with(texts.iter().map(|text| event(text)).collect());
            let mut bytes = fs::read(home.segment()).unwrap();
            let last = bytes[..bytes.len() - 1].iter().rposition(|b| *b == b'\n').unwrap() + 1;
            let place = place.index(last);
            let line = bytes[..place].split(|b| *b == b'\n').count();
            bytes[place] ^= 1_u8 << bit;
            files::write_atomic(&home.segment(), &bytes).unwrap();
            let before = home.files();
            match open(&home) {
                Err(Error::Damaged { path, line: named, .. }) => {
                    prop_assert_eq!(path, home.segment());
                    prop_assert_eq!(named, u64::try_from(line).unwrap());
                }
                other => prop_assert!(false, "{other:?}"),
            }
            prop_assert_eq!(home.files(), before);
        }

        /// Whatever stands in the file, opening it ends and does not panic.
        #[test]
        fn any_bytes_can_be_opened(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let home = TestHome::with(vec![event("one")]);
            let mut all = fs::read(home.segment()).unwrap();
            all.extend_from_slice(&bytes);
            files::write_atomic(&home.segment(), &all).unwrap();
            let (_, opened) = open(&home).unwrap();
            prop_assert_eq!(opened.torn.is_some(), !bytes.is_empty());
            prop_assert_eq!(opened.last_seq, 1);
        }
    }
}
