//! The record of what was purged of a job: it stays when the rest is gone.

use std::{fs, io};

use prodigy_core::{Timestamp, ids::JobId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Error, Layout, files, read_bounded, write_atomic};

/// The largest record that is read back.
const LIMIT: u64 = 1024 * 1024;

/// A part of a job that can be purged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PurgeKind {
    /// The closed dead letters.
    Dlq,
    /// The output of its steps.
    Logs,
    /// The journal and what is computed from it.
    Events,
    /// All of it.
    Jobs,
}

impl PurgeKind {
    /// Returns its name, as records and people write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dlq => "dlq",
            Self::Logs => "logs",
            Self::Events => "events",
            Self::Jobs => "jobs",
        }
    }

    /// Returns whether the job is gone with it.
    pub fn ends_job(self) -> bool {
        matches!(self, Self::Events | Self::Jobs)
    }
}

/// One purge of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurgedPart {
    /// The part.
    pub what: PurgeKind,
    /// The moment of the purge.
    pub at: Timestamp,
    /// The person who purged it.
    pub by: String,
    /// The age that it had to have, for people.
    pub older_than: String,
    /// The number of deleted files; for dead letters, the number of entries.
    pub files: u64,
    /// The total size of the deleted files.
    pub bytes: u64,
}

/// The purges of a job, and a description of the job before them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PurgeRecord {
    /// The job.
    pub job_id: JobId,
    /// The job as `prodigy jobs show --json` showed it before.
    pub job: Value,
    /// Every purge, the oldest first.
    pub purged: Vec<PurgedPart>,
}

impl PurgeRecord {
    /// Reads the record of a job, if something of it was purged.
    pub fn read(layout: &Layout, job: &JobId) -> Result<Option<Self>, Error> {
        let path = layout.purge_record(job);
        let Some(text) = read_bounded(&path, LIMIT)? else { return Ok(None) };
        serde_json::from_slice(&text).map(Some).map_err(|error| Error::Damaged {
            path,
            line: u64::try_from(error.line()).unwrap_or(1),
            reason: error.to_string(),
        })
    }

    /// Adds a purge to the record of a job; it is written before anything is deleted.
    pub fn add(layout: &Layout, job: &JobId, shown: Value, part: PurgedPart) -> Result<(), Error> {
        let before = Self::read(layout, job)?;
        let mut purged = before.map(|before| before.purged).unwrap_or_default();
        purged.push(part);
        let record = Self { job_id: job.clone(), job: shown, purged };
        let path = layout.purge_record(job);
        files::create_dir(files::parent(&path))?;
        let text = serde_json::to_vec_pretty(&record)
            .map_err(|error| Error::Encode { path: path.clone(), reason: error.to_string() })?;
        write_atomic(&path, &text)
    }

    /// Returns the last purge of a part, or of all.
    pub fn part(&self, what: PurgeKind) -> Option<&PurgedPart> {
        self.purged.iter().rev().find(|part| part.what == what)
    }

    /// Returns the purge that ended the job.
    pub fn final_purge(&self) -> Option<&PurgedPart> {
        self.purged.iter().rev().find(|part| part.what.ends_job())
    }

    /// Returns the records of all jobs of a repository that were ended by a purge, sorted by id.
    pub fn list_ended(layout: &Layout) -> Result<Vec<Self>, Error> {
        let directory = layout.purge_records();
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Error::io("list", directory, error)),
        };
        let mut jobs: Vec<JobId> = Vec::new();
        for entry in entries {
            let path = entry.map_err(|error| Error::io("list", &directory, error))?.path();
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            jobs.extend(stem.and_then(|stem| stem.parse().ok()));
        }
        jobs.sort();
        let mut records = Vec::new();
        for job in jobs {
            records
                .extend(Self::read(layout, &job)?.filter(|record| record.final_purge().is_some()));
        }
        Ok(records)
    }
}
