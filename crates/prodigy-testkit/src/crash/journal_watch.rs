//! Watching the journals of a home, to act right after a record of some kind is written.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

/// The longest beginning of a record in which its kind stands.
const OVERLAP: usize = 64;

/// The journals below a home, read from where they ended when the watch began.
pub(crate) struct JournalWatch {
    events: PathBuf,
    /// The text by which a record of the kind is recognised; empty for the first write of a job.
    mark: String,
    nth: u32,
    seen: u32,
    files: BTreeMap<PathBuf, JournalTail>,
    jobs: usize,
}

/// The part of a journal that was read.
#[derive(Default)]
struct JournalTail {
    offset: u64,
    /// The end of what was read: a mark may begin in it.
    rest: Vec<u8>,
}

impl JournalWatch {
    /// Begins to watch for the `nth` record of a kind, from 1.
    pub(crate) fn for_record(home: &Path, kind: &str, nth: u32) -> Self {
        let mut watch = Self {
            events: home.join("events"),
            mark: format!("\"event_type\":\"{kind}\""),
            nth,
            seen: 0,
            files: BTreeMap::new(),
            jobs: 0,
        };
        for path in watch.journals() {
            let offset = fs::metadata(&path).map_or(0, |found| found.len());
            watch.files.insert(path, JournalTail { offset, ..JournalTail::default() });
        }
        watch
    }

    /// Begins to watch for the first thing that is written of a new job: the directory of its
    /// journal.
    pub(crate) fn for_first_write(home: &Path) -> Self {
        let mut watch = Self::for_record(home, "", 1);
        watch.mark.clear();
        watch.jobs = watch.job_dirs().len();
        watch
    }

    /// Returns whether the record is there.
    pub(crate) fn is_due(&mut self) -> bool {
        if self.mark.is_empty() {
            return self.job_dirs().len() > self.jobs;
        }
        for path in self.journals() {
            let tail = self.files.entry(path.clone()).or_default();
            self.seen += tail.count(&path, self.mark.as_bytes());
        }
        self.seen >= self.nth
    }

    fn job_dirs(&self) -> Vec<PathBuf> {
        directory_entries(&self.events).iter().flat_map(|repo| directory_entries(repo)).collect()
    }

    fn journals(&self) -> Vec<PathBuf> {
        let files = self.job_dirs().into_iter().flat_map(|job| directory_entries(&job));
        files.filter(|path| path.extension().is_some_and(|kind| kind == "jsonl")).collect()
    }
}

impl JournalTail {
    /// Reads on and returns how many marks are new.
    fn count(&mut self, path: &Path, mark: &[u8]) -> u32 {
        let Ok(mut file) = File::open(path) else { return 0 };
        let mut bytes = std::mem::take(&mut self.rest);
        let known = count_marks(&bytes, mark);
        if file.seek(SeekFrom::Start(self.offset)).is_ok() {
            let read = file.read_to_end(&mut bytes).unwrap_or_default();
            self.offset += read as u64;
        }
        let found = count_marks(&bytes, mark);
        self.rest = bytes.split_off(bytes.len().saturating_sub(OVERLAP));
        found - known
    }
}

fn count_marks(bytes: &[u8], mark: &[u8]) -> u32 {
    let found = bytes.windows(mark.len()).filter(|window| *window == mark).count();
    u32::try_from(found).unwrap()
}

fn directory_entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn records_are_counted_from_where_the_watch_began() {
        let home = tempfile::tempdir().unwrap();
        let job = home.path().join("events/repo/job");
        let mut first = JournalWatch::for_first_write(home.path());
        assert!(!first.is_due());
        fs::create_dir_all(&job).unwrap();
        assert!(first.is_due());
        let mut file = File::create(job.join("events-1.jsonl")).unwrap();
        let record = br#"{"seq":1,"event_type":"agent_failed","item_id":"item-001"}"#;
        file.write_all(record).unwrap();
        let mut watch = JournalWatch::for_record(home.path(), "agent_failed", 2);
        assert!(!watch.is_due());
        file.write_all(record).unwrap();
        assert!(!watch.is_due());
        assert!(!watch.is_due(), "nothing is counted twice");
        let (begin, end) = record.split_at(20);
        file.write_all(begin).unwrap();
        assert!(!watch.is_due());
        file.write_all(end).unwrap();
        assert!(watch.is_due());
        assert!(!JournalWatch::for_record(home.path(), "agent_failed", 1).is_due());
    }
}
