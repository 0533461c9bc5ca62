//! Making a damaged journal usable again, without losing a byte of it.

use std::{
    fs::File,
    io::{self, BufRead as _, Read as _, Seek as _, Write as _},
    path::{Path, PathBuf},
};

use prodigy_core::{
    Timestamp,
    event::{EventRecord, FORMAT, NewEvent},
    ids::JobId,
};
use rustix::{
    fs::{CWD, RenameFlags},
    io::Errno,
};

use super::{
    line,
    reader::{BadLine, ReadOutcome},
    salvage,
    segment::{self, JournalSegment},
};
use crate::store::{
    Error, JobLock, JournalReader, Layout,
    files::{self, OpenMode},
};

/// The health of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalHealth {
    /// The number of whole records before any damage.
    pub records: u64,
    /// The first damage, if there is any.
    pub damage: Option<JournalDamage>,
}

/// The first line of a journal that is not what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalDamage {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: u64,
    /// Where the line starts, in bytes.
    pub offset: u64,
    /// The defect of the line.
    pub reason: String,
    /// The number of whole records behind it; a repair keeps only the effect records of these.
    pub records_behind: u64,
    /// True for a torn tail: an end that a crash cut off, which `resume` truncates by itself.
    pub torn: bool,
}

/// The result of a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalRepair {
    /// The number of records kept.
    pub kept: u64,
    /// The number of effect records behind the damage that were carried over.
    pub carried: u64,
    /// The damage that was repaired.
    pub damage: JournalDamage,
    /// Where the journal is as it was.
    pub aside: PathBuf,
}

/// Reads a whole journal and says how it is. Nothing is changed.
pub fn inspect_journal(layout: &Layout, job: &JobId) -> Result<JournalHealth, Error> {
    let mut reader = JournalReader::open(layout, job)?;
    let (spot, torn) = loop {
        match reader.read_next() {
            Ok(ReadOutcome::Record(_) | ReadOutcome::Passed) => {}
            Ok(ReadOutcome::End) => {
                return Ok(JournalHealth { records: reader.last_seq(), damage: None });
            }
            Ok(ReadOutcome::Torn(spot)) => break (spot, true),
            Err(Error::Damaged { reason, .. }) => {
                break (reader.bad_line(&reason).unwrap_or_default(), false);
            }
            Err(error) => return Err(error),
        }
    };
    let records_behind = count_behind(&segment::list_segments(&layout.events_dir(job))?, &spot)?;
    let BadLine { path, line, offset, reason } = spot;
    let damage = JournalDamage { path, line, offset, reason, records_behind, torn };
    Ok(JournalHealth { records: reader.last_seq(), damage: Some(damage) })
}

/// Replaces a damaged journal by the records before the first damage.
///
/// The records of effects behind it are carried over: what they tell is still so outside.
/// The journal as it was is moved aside, not changed, and so is the checkpoint,
/// which may know of records that are left out. Returns `None` if there is nothing
/// to repair.
pub fn repair_journal(
    layout: &Layout,
    job: &JobId,
    now: Timestamp,
) -> Result<Option<JournalRepair>, Error> {
    // A job that does not exist must not be given a lock file.
    JournalReader::open(layout, job)?;
    let _lock = JobLock::take(layout, job)?;
    let JournalHealth { records, damage } = inspect_journal(layout, job)?;
    let Some(damage) = damage else { return Ok(None) };
    if records == 0 {
        let JournalDamage { path, line, .. } = damage;
        return Err(Error::NothingToKeep { job: job.clone(), path, line });
    }
    let directory = layout.events_dir(job);
    // `~` cannot stand in the name of a job, so neither directory is taken for one.
    let time = now.strftime("%Y%m%dT%H%M%SZ").to_string();
    let fresh = files::unused_name(&directory, &format!("~repair-{time}"))?;
    let aside = files::unused_name(&directory, &format!("~damaged-{time}"))?;
    files::create_dir(&fresh)?;
    let segments = segment::list_segments(&directory)?;
    let spot = BadLine {
        path: damage.path.clone(),
        line: damage.line,
        offset: damage.offset,
        reason: damage.reason.clone(),
    };
    let carried = salvage::effects_after_damage(layout, job, &segments, &spot)?;
    for segment in segments {
        let here = segment.path == damage.path;
        let limit = if here { damage.offset } else { u64::MAX };
        copy(&segment.path, &fresh, limit)?;
        if here {
            append_records(&segment.path, &fresh, job, records, &carried, now)?;
            break;
        }
    }
    files::sync_dir(&fresh)?;
    swap_directories(&fresh, &directory, &aside)?;
    files::sync_dir(files::parent(&directory))?;
    set_views_aside(layout, job, now)?;
    let carried = u64::try_from(carried.len()).unwrap_or(u64::MAX);
    Ok(Some(JournalRepair { kept: records, carried, damage, aside }))
}

/// Counts the whole records behind the damaged line.
fn count_behind(segments: &[JournalSegment], spot: &BadLine) -> Result<u64, Error> {
    let mut count = 0;
    let from = segments.iter().position(|segment| segment.path == spot.path).unwrap_or_default();
    for segment in segments.iter().skip(from) {
        let file = files::open_regular(&segment.path, OpenMode::Read)?;
        let skip = if segment.path == spot.path { spot.offset } else { 0 };
        let reading = |error| Error::io("read", &segment.path, error);
        let mut file = io::BufReader::new(file);
        file.seek(io::SeekFrom::Start(skip)).map_err(reading)?;
        let limit = u64::try_from(line::MAX_LINE).unwrap_or(u64::MAX);
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            let read = (&mut file).take(limit).read_until(b'\n', &mut bytes);
            if read.map_err(reading)? == 0 {
                break;
            }
            count += line::count_records(&bytes);
        }
    }
    Ok(count)
}

/// Copies the start of a segment into another directory.
fn copy(segment: &Path, directory: &Path, limit: u64) -> Result<(), Error> {
    let target = directory.join(segment.file_name().unwrap_or_default());
    let mut source = files::open_regular(segment, OpenMode::Read)?.take(limit);
    let copied = files::create_file(&target).and_then(|mut file: File| {
        io::copy(&mut source, &mut file)?;
        file.sync_all()
    });
    copied.map_err(|error| Error::io("write", target, error))
}

/// Appends records to the last segment of the new journal.
fn append_records(
    segment: &Path,
    directory: &Path,
    job: &JobId,
    last_seq: u64,
    facts: &[NewEvent],
    now: Timestamp,
) -> Result<(), Error> {
    let target = directory.join(segment.file_name().unwrap_or_default());
    let mut lines = Vec::new();
    for (seq, fact) in (last_seq + 1..).zip(facts) {
        let NewEvent { agent_id, item_id, event } = fact.clone();
        let (format, timestamp, job_id) = (FORMAT, now, job.clone());
        let record = EventRecord { format, seq, timestamp, job_id, agent_id, item_id, event };
        line::encode(&record, &mut lines)
            .map_err(|error| Error::io("write", &target, io::Error::other(error)))?;
    }
    let appended = File::options().append(true).open(&target).and_then(|mut file| {
        file.write_all(&lines)?;
        file.sync_all()
    });
    appended.map_err(|error| Error::io("write", target, error))
}

/// Puts `fresh` in the place of `directory`, and `directory` aside.
///
/// Where the file system can swap two names in one step, there is no moment
/// without a journal.
fn swap_directories(fresh: &Path, directory: &Path, aside: &Path) -> Result<(), Error> {
    match rustix::fs::renameat_with(CWD, fresh, CWD, directory, RenameFlags::EXCHANGE) {
        Ok(()) => files::rename(fresh, aside),
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            files::rename(directory, aside)?;
            files::rename(fresh, directory)
        }
        Err(errno) => Err(Error::io("replace", directory, errno)),
    }
}

/// Moves the files aside that may know of records which are gone: the checkpoint, and the dead
/// letters, which are made again from the journal. Returns where they are.
pub fn set_views_aside(
    layout: &Layout,
    job: &JobId,
    now: Timestamp,
) -> Result<Vec<PathBuf>, Error> {
    let time = now.strftime("%Y%m%dT%H%M%SZ").to_string();
    let views = [
        layout.checkpoint(job),
        layout.dlq_log(job),
        layout.dlq_index(job),
        layout.dlq_items_dir(job),
        layout.dlq_resolved_dir(job),
    ];
    let mut aside = Vec::new();
    for path in views.into_iter().filter(|path| path.symlink_metadata().is_ok()) {
        let place = files::unused_name(&path, &format!("~damaged-{time}"))?;
        files::rename(&path, &place)?;
        files::sync_dir(files::parent(&path))?;
        aside.push(place);
    }
    Ok(aside)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::store::{
        Durability, JournalWriter,
        fixture::{self, TestHome, at, event},
        save_checkpoint,
    };

    /// Returns a journal of four segments with one record each.
    fn home() -> TestHome {
        let home = TestHome::new();
        let mut journal = home.create().with_segment_bytes(1);
        for text in ["one", "two", "three", "four"] {
            journal.append(vec![event(text)], at(0)).unwrap();
        }
        home
    }

    fn damage(home: &TestHome, index: usize) {
        let path =
            segment::list_segments(&home.layout.events_dir(&home.job)).unwrap().remove(index).path;
        let mut bytes = fs::read(&path).unwrap();
        bytes[30] ^= 1;
        files::write_atomic(&path, &bytes).unwrap();
    }

    #[test]
    fn a_whole_journal_is_left_alone() {
        let home = home();
        let before = home.files();
        assert_eq!(
            inspect_journal(&home.layout, &home.job).unwrap(),
            JournalHealth { records: 4, damage: None }
        );
        assert_eq!(repair_journal(&home.layout, &home.job, at(9)).unwrap(), None);
        assert_eq!(home.files(), before);
    }

    #[test]
    fn the_records_before_the_damage_are_kept_and_the_rest_moved_aside() {
        let home = home();
        save_checkpoint(&home.layout, &home.job, &"covers 4").unwrap();
        damage(&home, 2);
        let before = home.files();
        let health = inspect_journal(&home.layout, &home.job).unwrap();
        insta::assert_snapshot!(home.show(format!("{health:#?}")), @r#"
        JournalHealth {
            records: 2,
            damage: Some(
                JournalDamage {
                    path: "$HOME/events/repo/job-1/events-20260102T030405Z_000002.jsonl",
                    line: 1,
                    offset: 0,
                    reason: "the checksum does not match",
                    records_behind: 1,
                    torn: false,
                },
            ),
        }
        "#);
        assert_eq!(home.files(), before);

        let repaired = repair_journal(&home.layout, &home.job, at(9)).unwrap().unwrap();
        assert_eq!(Some(&repaired.damage), health.damage.as_ref());
        insta::assert_snapshot!(home.show(repaired.aside.display()), @"$HOME/events/repo/job-1~damaged-20260102T030414Z");
        assert_eq!(home.records().iter().map(|r| r.seq).collect::<Vec<_>>(), [1, 2]);
        let (mut journal, opened) =
            JournalWriter::open(&home.layout, &home.job, Durability::Full).unwrap();
        assert_eq!((opened.torn, opened.last_seq), (None, 2));
        journal.append(vec![event("on")], at(10)).unwrap();
        assert_eq!(home.records().len(), 3);
        assert_eq!(home.layout.jobs().unwrap(), std::slice::from_ref(&home.job));

        assert_eq!(fixture::files_in(&repaired.aside), before);

        let state: Vec<_> = fs::read_dir(home.layout.state_dir(&home.job))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "lock")
            .collect();
        assert_eq!(state, ["checkpoint.json~damaged-20260102T030414Z"]);
    }

    #[test]
    fn a_torn_tail_can_be_repaired_as_well() {
        let home = TestHome::with(vec![event("one"), event("two")]);
        let length = fs::metadata(home.segment()).unwrap().len();
        fs::File::options().write(true).open(home.segment()).unwrap().set_len(length - 5).unwrap();
        let repaired = repair_journal(&home.layout, &home.job, at(9)).unwrap().unwrap();
        assert_eq!((repaired.kept, repaired.damage.torn), (1, true));
        assert_eq!(home.records().len(), 1);
    }

    #[test]
    fn two_repairs_in_one_second_keep_both_journals() {
        let home = home();
        damage(&home, 2);
        let first = repair_journal(&home.layout, &home.job, at(9)).unwrap().unwrap();
        damage(&home, 1);
        let second = repair_journal(&home.layout, &home.job, at(9)).unwrap().unwrap();
        assert_ne!(first.aside, second.aside);
        assert_eq!(segment::list_segments(&first.aside).unwrap().len(), 4);
        assert_eq!(segment::list_segments(&second.aside).unwrap().len(), 3);
    }

    #[test]
    fn a_journal_without_one_good_record_and_a_running_job_are_refused() {
        let home = home();
        damage(&home, 0);
        let before = home.files();
        let error = repair_journal(&home.layout, &home.job, at(9)).unwrap_err();
        insta::assert_snapshot!(home.show(error), @"nothing of job `job-1` can be kept: `$HOME/events/repo/job-1/events-20260102T030405Z.jsonl` is damaged at line 1");
        let _lock = JobLock::take(&home.layout, &home.job).unwrap();
        let error = repair_journal(&home.layout, &home.job, at(9)).unwrap_err();
        assert!(matches!(error, Error::Locked { .. }), "{error:?}");
        assert_eq!(home.files(), before);
    }

    #[test]
    fn a_job_that_does_not_exist_gets_no_files() {
        let home = TestHome::new();
        let error = repair_journal(&home.layout, &home.job, at(9)).unwrap_err();
        assert!(matches!(error, Error::NoJob { .. }), "{error:?}");
        assert_eq!(fs::read_dir(home.directory.path()).unwrap().count(), 0);
    }
}
