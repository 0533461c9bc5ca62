//! The files that a journal consists of: their names and their order.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use prodigy_core::{Timestamp, ids::JobId};

use crate::store::{Error, Layout};

/// One file of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JournalSegment {
    /// The file.
    pub(crate) path: PathBuf,
    time: String,
    counter: u32,
}

impl JournalSegment {
    /// Names the segment that follows `last` in `directory`.
    ///
    /// The new one sorts behind the last one even if the clock was set back.
    pub(crate) fn next(directory: &Path, last: Option<&Self>, now: Timestamp) -> Self {
        let time = now.strftime("%Y%m%dT%H%M%SZ").to_string();
        let (time, counter) = match last {
            Some(last) if last.time >= time => (last.time.clone(), last.counter.saturating_add(1)),
            Some(_) | None => (time, 0),
        };
        // `_` sorts behind `.`, so that `ls` shows the segments in their order.
        let name = match counter {
            0 => format!("events-{time}.jsonl"),
            counter => format!("events-{time}_{counter:06}.jsonl"),
        };
        Self { path: directory.join(name), time, counter }
    }

    /// Returns what segments are sorted by.
    pub(crate) fn order(&self) -> (&str, u32) {
        (&self.time, self.counter)
    }

    fn parse(directory: &Path, name: &str) -> Option<Self> {
        let inner = name.strip_prefix("events-")?.strip_suffix(".jsonl")?;
        let (time, counter) = match inner.split_once('_') {
            Some((time, counter)) => (time, counter.parse().ok()?),
            None => (inner, 0),
        };
        let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        let (date, clock) = time.strip_suffix('Z')?.split_once('T')?;
        (date.len() == 8 && clock.len() == 6 && digits(date) && digits(clock)).then(|| Self {
            path: directory.join(name),
            time: time.to_owned(),
            counter,
        })
    }
}

/// Returns the name of the file of a job's journal that was written last.
pub fn last_segment(layout: &Layout, job: &JobId) -> Option<String> {
    // Whoever asks can do without.
    let last = list_segments(&layout.events_dir(job)).ok()?.pop()?;
    Some(last.path.file_name()?.to_string_lossy().into_owned())
}

/// Returns the segments of a journal in order; none if the directory is not there.
pub(crate) fn list_segments(directory: &Path) -> Result<Vec<JournalSegment>, Error> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io("list", directory, error)),
    };
    let mut segments = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| Error::io("list", directory, error))?;
        segments
            .extend(entry.file_name().to_str().and_then(|n| JournalSegment::parse(directory, n)));
    }
    segments.sort_by(|a, b| a.order().cmp(&b.order()));
    Ok(segments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::fixture::at;

    #[test]
    fn names_sort_in_the_order_of_writing_even_if_the_clock_goes_back() {
        let directory = Path::new("/d");
        let mut segments: Vec<JournalSegment> = Vec::new();
        for time in [5, 5, 5, 3, 4, 6, 6] {
            segments.push(JournalSegment::next(directory, segments.last(), at(time)));
        }
        let names: Vec<_> = segments.iter().map(|s| s.path.to_str().unwrap()).collect();
        insta::assert_snapshot!(names.join("\n"), @"
        /d/events-20260102T030410Z.jsonl
        /d/events-20260102T030410Z_000001.jsonl
        /d/events-20260102T030410Z_000002.jsonl
        /d/events-20260102T030410Z_000003.jsonl
        /d/events-20260102T030410Z_000004.jsonl
        /d/events-20260102T030411Z.jsonl
        /d/events-20260102T030411Z_000001.jsonl
        ");
        assert!(names.is_sorted());
        for segment in &segments {
            let name = segment.path.file_name().unwrap().to_str().unwrap();
            assert_eq!(JournalSegment::parse(directory, name).as_ref(), Some(segment));
        }
    }

    #[test]
    fn other_files_are_not_segments() {
        for name in [
            "events-20260102T030405Z.jsonl.torn-1",
            ".events-20260102T030405Z.jsonl.1-1.tmp",
            "events-20260102T030405.jsonl",
            "events-2026T1Z.jsonl",
            "events-20260102T030405Z_x.jsonl",
            "events-.jsonl",
            "x.jsonl",
        ] {
            assert_eq!(JournalSegment::parse(Path::new("/d"), name), None, "{name}");
        }
    }
}
