//! Every path below the home.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use prodigy_core::ids::{ItemId, JobId, OWN_STEPS, RepoName};

use super::{
    Error,
    journal::{beginning, segment},
};

/// Every path below the home, for one repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    home: PathBuf,
    repo: RepoName,
}

/// A file that steps print to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogFile {
    /// Standard output.
    Output,
    /// Standard error.
    Errors,
    /// Standard output of agents that tell what they do while they do it, an event per line.
    Transcript,
}

impl LogFile {
    /// Returns the file that holds the standard output of a step.
    pub fn output(is_transcript: bool) -> Self {
        if is_transcript { Self::Transcript } else { Self::Output }
    }

    fn extension(self) -> &'static str {
        match self {
            Self::Output => "out",
            Self::Errors => "err",
            Self::Transcript => "jsonl",
        }
    }
}

impl Layout {
    /// Names the paths of a repository below a home. Nothing is read or made.
    pub fn new(home: PathBuf, repo: RepoName) -> Self {
        Self { home, repo }
    }

    /// Returns the repositories that have jobs below a home, by name.
    pub fn repos(home: &Path) -> Result<Vec<RepoName>, Error> {
        names(&home.join("events"))
    }

    /// Returns where it is noted what agents cost, for all repositories below a home.
    pub fn spending_dir(home: &Path) -> PathBuf {
        home.join("spending")
    }

    /// Returns the home.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Returns the repository.
    pub fn repo(&self) -> &RepoName {
        &self.repo
    }

    /// Returns where a job's journal is.
    pub fn events_dir(&self, job: &JobId) -> PathBuf {
        self.below("events").join(job.as_str())
    }

    /// Returns where a job's checkpoint, workflow, sources and lock are.
    pub fn state_dir(&self, job: &JobId) -> PathBuf {
        self.below("state").join("mapreduce").join("jobs").join(job.as_str())
    }

    /// Returns where the output of an item of a job is, or that of the job's own steps.
    pub fn logs_dir(&self, job: &JobId, item: Option<&ItemId>) -> PathBuf {
        self.job_logs_dir(job).join(item.map_or(OWN_STEPS, ItemId::as_str))
    }

    /// Returns where all output of a job is.
    pub fn job_logs_dir(&self, job: &JobId) -> PathBuf {
        self.below("logs").join(job.as_str())
    }

    /// Returns the files that hold what the steps of one attempt of an item printed: standard
    /// output, standard error.
    ///
    /// Steps that run side by side write to files of their own, one pair for each slot.
    pub fn log_files(
        &self,
        job: &JobId,
        item: Option<&ItemId>,
        attempt: u32,
        slot: u32,
    ) -> (PathBuf, PathBuf) {
        let file = |which| self.log_file(job, item, attempt, slot, which);
        (file(LogFile::Output), file(LogFile::Errors))
    }

    /// Returns one file of those that hold what the steps of one attempt of an item printed.
    pub fn log_file(
        &self,
        job: &JobId,
        item: Option<&ItemId>,
        attempt: u32,
        slot: u32,
        which: LogFile,
    ) -> PathBuf {
        let slot = match slot {
            0 => String::new(),
            slot => format!(".slot-{}", u64::from(slot) + 1),
        };
        let extension = which.extension();
        self.logs_dir(job, item).join(format!("attempt-{attempt}{slot}.{extension}"))
    }

    /// Returns where a job's worktrees are.
    pub fn worktrees_dir(&self, job: &JobId) -> PathBuf {
        self.below("worktrees").join(job.as_str())
    }

    /// Returns a job's checkpoint.
    pub fn checkpoint(&self, job: &JobId) -> PathBuf {
        self.state_dir(job).join("checkpoint.json")
    }

    /// Returns where a job's items are, as they were chosen.
    pub fn items_file(&self, job: &JobId) -> PathBuf {
        self.state_dir(job).join("items.jsonl")
    }

    /// Returns where it is noted which programs that may take git's locks are under way.
    pub fn in_flight_dir(&self, job: &JobId) -> PathBuf {
        self.state_dir(job).join("in-flight")
    }

    /// Returns where the progress of an item, or of a step of the job, is that is suspended.
    pub fn progress_dir(&self, job: &JobId, name: &str) -> PathBuf {
        self.state_dir(job).join("progress").join(name)
    }

    /// Returns where the data of items is that was changed by hand.
    pub fn edits_dir(&self, job: &JobId) -> PathBuf {
        self.state_dir(job).join("edited")
    }

    /// Returns where the results of a job's items are, for its reduce phase.
    pub fn results_file(&self, job: &JobId) -> PathBuf {
        self.state_dir(job).join("map-results.json")
    }

    /// Returns where the dead letters of a job are, and where older programs put their files.
    pub fn dlq_dir(&self, job: &JobId) -> PathBuf {
        self.below("dlq").join(job.as_str())
    }

    /// Returns where the open dead letters of a job are.
    pub fn dlq_items_dir(&self, job: &JobId) -> PathBuf {
        self.dlq_inner_dir(job).join("items")
    }

    /// Returns where the closed dead letters of a job are.
    pub fn dlq_resolved_dir(&self, job: &JobId) -> PathBuf {
        self.dlq_inner_dir(job).join("resolved")
    }

    /// Returns the index of a job's dead letters: one JSON document with counts and ids.
    pub fn dlq_index(&self, job: &JobId) -> PathBuf {
        self.dlq_inner_dir(job).join("index.json")
    }

    /// Returns the log of changes that the index is made of, a line for each.
    pub fn dlq_log(&self, job: &JobId) -> PathBuf {
        self.dlq_inner_dir(job).join("index.jsonl")
    }

    fn dlq_inner_dir(&self, job: &JobId) -> PathBuf {
        self.dlq_dir(job).join("mapreduce").join("dlq").join(job.as_str())
    }

    /// Returns the jobs that have a directory for dead letters, by name.
    pub fn dlq_jobs(&self) -> Result<Vec<JobId>, Error> {
        let mut jobs = names(&self.below("dlq"))?;
        jobs.retain(|job| !self.is_removed(job));
        Ok(jobs)
    }

    /// Returns the file of an open dead letter.
    pub fn dlq_item(&self, job: &JobId, item: &ItemId) -> PathBuf {
        self.dlq_items_dir(job).join(format!("{item}.json"))
    }

    /// Returns the file of a closed dead letter.
    pub fn dlq_resolved_item(&self, job: &JobId, item: &ItemId) -> PathBuf {
        self.dlq_resolved_dir(job).join(format!("{item}.json"))
    }

    /// Returns the file with all that an item which was given up had changed and not committed.
    pub fn dlq_patch(&self, job: &JobId, item: &ItemId) -> PathBuf {
        self.dlq_items_dir(job).with_file_name("patches").join(format!("{item}.patch"))
    }

    /// Returns the file with what a successful item, or the job, left uncommitted.
    pub fn kept_patch(&self, job: &JobId, name: &str) -> PathBuf {
        self.state_dir(job).join("kept").join(format!("{name}.patch"))
    }

    /// Returns the items that were given with `--input`, as they were.
    pub fn input_file(&self, job: &JobId) -> PathBuf {
        self.state_dir(job).join("input")
    }

    /// Returns the file that says that a job was removed.
    pub fn tombstone(&self, job: &JobId) -> PathBuf {
        self.below("state").join("removed").join(format!("{job}.json"))
    }

    /// Returns the record of what was purged of a job.
    pub fn purge_record(&self, job: &JobId) -> PathBuf {
        self.purge_records().join(format!("{job}.json"))
    }

    /// Returns where the records are of what was purged.
    pub(super) fn purge_records(&self) -> PathBuf {
        self.below("state").join("purged")
    }

    fn is_removed(&self, job: &JobId) -> bool {
        self.tombstone(job).symlink_metadata().is_ok()
    }

    /// Returns the audit trail of the repository.
    pub fn audit_file(&self) -> PathBuf {
        self.below("audit").join("audit.jsonl")
    }

    /// Returns the lock of whoever appends to the audit trail.
    pub fn audit_lock(&self) -> PathBuf {
        self.below("audit").join("lock")
    }

    /// Returns a job's lock.
    pub fn lock(&self, job: &JobId) -> PathBuf {
        self.state_dir(job).join("lock")
    }

    /// Returns the jobs of the repository that began, the newest last.
    ///
    /// A job is as old as its first segment, whatever has been written to it since.
    pub fn jobs(&self) -> Result<Vec<JobId>, Error> {
        let mut jobs = Vec::new();
        for job in names::<JobId>(&self.below("events"))? {
            if let Some(first) = segment::list_segments(&self.events_dir(&job))?.into_iter().next()
                && !self.is_removed(&job)
                && beginning::has_begun(self, &job)?
            {
                jobs.push((first, job));
            }
        }
        jobs.sort_by(|(a, a_job), (b, b_job)| a.order().cmp(&b.order()).then(a_job.cmp(b_job)));
        Ok(jobs.into_iter().map(|(_, job)| job).collect())
    }

    /// Returns where it is written down whose name it is.
    pub(super) fn repo_state_dir(&self) -> PathBuf {
        self.below("state")
    }

    fn below(&self, kind: &str) -> PathBuf {
        self.home.join(kind).join(self.repo.as_str())
    }
}

/// Returns the directories in `path` whose names are of the kind asked for, sorted.
///
/// Other names are not ours; a directory that is not there has none.
fn names<T: Ord + TryFrom<String>>(path: &Path) -> Result<Vec<T>, Error> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io("list", path, error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| Error::io("list", path, error))?;
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let name = entry.file_name().into_string().ok().and_then(|name| T::try_from(name).ok());
        if is_dir {
            names.extend(name);
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{
        Durability, JournalWriter,
        fixture::{TestHome, at, event},
    };

    #[test]
    fn every_path_is_where_the_documentation_says() {
        let layout = Layout::new("/h".into(), "repo".parse().unwrap());
        let job: JobId = "job-1".parse().unwrap();
        let paths = [
            layout.events_dir(&job),
            layout.state_dir(&job),
            layout.logs_dir(&job, None),
            layout.logs_dir(&job, Some(&ItemId::from_key("../../etc"))),
            layout.logs_dir(&job, Some(&ItemId::from_key("workflow"))),
            layout.log_files(&job, None, 1, 0).0,
            layout.log_files(&job, Some(&ItemId::from_position(1, 1)), 2, 1).1,
            layout.log_file(&job, Some(&ItemId::from_position(1, 1)), 2, 0, LogFile::Transcript),
            layout.worktrees_dir(&job),
            layout.checkpoint(&job),
            layout.lock(&job),
            layout.items_file(&job),
            layout.results_file(&job),
            layout.in_flight_dir(&job),
            layout.dlq_items_dir(&job),
            layout.dlq_item(&job, &ItemId::from_position(1, 1)),
            layout.dlq_item(&job, &ItemId::from_key("../../etc")),
            layout.dlq_resolved_item(&job, &ItemId::from_position(1, 1)),
            layout.dlq_index(&job),
            layout.dlq_log(&job),
            layout.dlq_dir(&job),
            layout.dlq_patch(&job, &ItemId::from_position(1, 1)),
            layout.kept_patch(&job, "item-1"),
            layout.audit_file(),
            layout.audit_lock(),
            Layout::spending_dir(layout.home()),
            layout.input_file(&job),
            layout.tombstone(&job),
        ];
        insta::assert_snapshot!(paths.map(|p| p.display().to_string()).join("\n"), @"
        /h/events/repo/job-1
        /h/state/repo/mapreduce/jobs/job-1
        /h/logs/repo/job-1/workflow
        /h/logs/repo/job-1/etc.74ccf3c5b4c19a8167f9a3d1dd63e0e4
        /h/logs/repo/job-1/workflow.da7f739f627198465eeab537a6f7a435
        /h/logs/repo/job-1/workflow/attempt-1.out
        /h/logs/repo/job-1/item-001/attempt-2.slot-2.err
        /h/logs/repo/job-1/item-001/attempt-2.jsonl
        /h/worktrees/repo/job-1
        /h/state/repo/mapreduce/jobs/job-1/checkpoint.json
        /h/state/repo/mapreduce/jobs/job-1/lock
        /h/state/repo/mapreduce/jobs/job-1/items.jsonl
        /h/state/repo/mapreduce/jobs/job-1/map-results.json
        /h/state/repo/mapreduce/jobs/job-1/in-flight
        /h/dlq/repo/job-1/mapreduce/dlq/job-1/items
        /h/dlq/repo/job-1/mapreduce/dlq/job-1/items/item-001.json
        /h/dlq/repo/job-1/mapreduce/dlq/job-1/items/etc.74ccf3c5b4c19a8167f9a3d1dd63e0e4.json
        /h/dlq/repo/job-1/mapreduce/dlq/job-1/resolved/item-001.json
        /h/dlq/repo/job-1/mapreduce/dlq/job-1/index.json
        /h/dlq/repo/job-1/mapreduce/dlq/job-1/index.jsonl
        /h/dlq/repo/job-1
        /h/dlq/repo/job-1/mapreduce/dlq/job-1/patches/item-001.patch
        /h/state/repo/mapreduce/jobs/job-1/kept/item-1.patch
        /h/audit/repo/audit.jsonl
        /h/audit/repo/lock
        /h/spending
        /h/state/repo/mapreduce/jobs/job-1/input
        /h/state/repo/removed/job-1.json
        ");
    }

    #[test]
    fn jobs_are_listed_by_age_and_other_directories_are_not_jobs() {
        let home = TestHome::new();
        assert_eq!(home.layout.jobs().unwrap(), []);
        assert_eq!(Layout::repos(home.layout.home()).unwrap(), []);
        for (job, time) in [("b", 20), ("c", 10), ("a", 20)] {
            let job = job.parse().unwrap();
            let mut journal =
                JournalWriter::create(&home.layout, &job, Durability::Relaxed).unwrap();
            journal.append(vec![event("x")], at(time)).unwrap();
        }
        let events = home.layout.below("events");
        for other in ["empty", "a~damaged-20260102T030405Z", "..x"] {
            fs::create_dir(events.join(other)).unwrap();
        }
        let jobs: Vec<String> = home.layout.jobs().unwrap().into_iter().map(String::from).collect();
        assert_eq!(jobs, ["c", "a", "b"]);
        assert_eq!(Layout::repos(home.layout.home()).unwrap(), ["repo".parse().unwrap()]);
    }
}
