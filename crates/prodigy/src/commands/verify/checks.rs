//! What has to be so for a job to be whole.

use std::{fs, path::Path};

use prodigy_core::{
    checkpoint::Checkpoint,
    event::{Event, LogRange, Record},
    ids::JobId,
    job::Job,
};
use prodigy_engine::{
    git::{self, Repo},
    store::{self, Damage, JobLock, Layout, Reader},
};
use serde::Serialize;

use crate::{error::explained, output::one_line, workflow_file};

/// The item that the steps of a sequential workflow belong to.
const ITEM: &str = "workflow";

/// The check of the journal's lines.
pub(super) const JOURNAL: &str = "journal";

/// What one check found.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    /// What was checked.
    pub(super) check: &'static str,
    /// Whether it is as it should be.
    pub(super) ok: bool,
    /// What it is.
    pub(super) detail: String,
}

impl Finding {
    fn new(check: &'static str, result: Result<String, String>) -> Self {
        let (ok, detail) = match result {
            Ok(detail) => (true, detail),
            Err(detail) => (false, detail),
        };
        // It may quote what stands in files.
        Self { check, ok, detail: one_line(&detail) }
    }
}

/// What the records of a job say.
struct History {
    /// What they add up to.
    job: Job,
    /// The first record that does not fit, or that every one does.
    fits: Result<String, String>,
    /// Whether all of them could be read and fit.
    is_whole: bool,
    /// Whether the checkpoint is what the records up to it add up to, if they go that far.
    agrees: Option<bool>,
    /// Where the output of each finished step is.
    logs: Vec<(String, LogRange)>,
    /// The branch that was merged into.
    target: Option<String>,
}

/// Makes every check, in the order in which they build on one another.
pub(super) fn all(layout: &Layout, job: &JobId) -> Result<Vec<Finding>, store::Error> {
    // The order matters while the job runs: a writer that ends after it was seen may
    // still have torn the last line, and records come before the checkpoint of them.
    let is_live = JobLock::holder(layout, job)?.is_some();
    let checkpoint = store::load_checkpoint::<Checkpoint>(layout, job);
    let lines = lines(layout, job, is_live)?;
    let history = History::read(layout, job, checkpoint.as_ref().ok().and_then(Option::as_ref))?;
    let checkpoint = checkpoint_agrees(&history, checkpoint);
    let workflow = workflow_is_the_one(&layout.state_dir(job), &history.job);
    let logs = logs_are_there(layout, job, &history.logs);
    let merge = merge_is_there(&history);
    Ok(vec![
        Finding::new(JOURNAL, lines),
        Finding::new("history", history.fits),
        Finding::new("checkpoint", checkpoint),
        Finding::new("workflow", workflow),
        Finding::new("logs", logs),
        Finding::new("merge", merge),
    ])
}

/// Checks every line's checksum and number.
fn lines(
    layout: &Layout,
    job: &JobId,
    is_live: bool,
) -> Result<Result<String, String>, store::Error> {
    let health = match store::inspect(layout, job) {
        Ok(health) => health,
        Err(error @ store::Error::NoJob { .. }) => return Err(error),
        Err(error) => return Ok(Err(explained(&error))),
    };
    let records = count(health.records, "record");
    Ok(match health.damage {
        None => Ok(format!("{records}, each with its number and checksum")),
        Some(Damage { torn: true, .. }) if is_live => {
            Ok(format!("{records}, each with its number and checksum; another is being written"))
        }
        Some(Damage { path, line, reason, torn, .. }) => {
            let note = if torn { "; `prodigy resume` cuts it off" } else { "" };
            Err(format!("{} line {line}: {reason}{note}", path.display()))
        }
    })
}

impl History {
    /// Adds up the records, as far as they go.
    fn read(
        layout: &Layout,
        id: &JobId,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<Self, store::Error> {
        let mut history = Self {
            job: Job::default(),
            fits: Ok(String::new()),
            is_whole: true,
            agrees: None,
            logs: Vec::new(),
            target: None,
        };
        let mut cut = "";
        for record in Reader::open(layout, id)? {
            // What is wrong with the line is told by the check of the lines.
            let Ok(record) = record else {
                cut = " before the damage";
                history.is_whole = false;
                break;
            };
            if let Err(error) = history.job.apply(&record) {
                history.fits = Err(error.to_string());
                history.is_whole = false;
                break;
            }
            history.note(record);
            if let Some(checkpoint) = checkpoint.filter(|it| it.covers() == history.job.seq) {
                history.agrees = Some(checkpoint.agrees_with(id, &history.job));
            }
        }
        if history.fits.is_ok() {
            history.fits = match history.job.started {
                Some(_) => Ok(format!(
                    "each of {}{cut} fits the ones before it",
                    count(history.job.seq, "record")
                )),
                None => Err("there is no beginning".to_owned()),
            };
        }
        Ok(history)
    }

    /// Remembers what a record says about files and branches.
    fn note(&mut self, record: Record) {
        let (step, log) = match record.event {
            Event::StepCompleted(step) => (step.step, step.log),
            Event::StepFailed { step, log, .. } => (step, log),
            Event::WorktreeMerged { target, .. } => {
                self.target = Some(target);
                return;
            }
            Event::JobStarted(_)
            | Event::JobResumed { .. }
            | Event::JobPaused { .. }
            | Event::JobCompleted { .. }
            | Event::JobFailed { .. }
            | Event::PhaseStarted { .. }
            | Event::PhaseCompleted { .. }
            | Event::StepStarted { .. }
            | Event::StepSkipped { .. }
            | Event::AgentUsage { .. }
            | Event::WorktreeCreated { .. }
            | Event::WorktreePreserved { .. }
            | Event::WorktreeCleaned { .. }
            | Event::MergeConflict { .. }
            | Event::GitTampering { .. }
            | Event::CheckpointCreated { .. } => return,
        };
        self.logs.extend(log.map(|log| (step, log)));
    }
}

/// Checks that the checkpoint says what the journal says.
fn checkpoint_agrees(
    history: &History,
    checkpoint: Result<Option<Checkpoint>, store::Error>,
) -> Result<String, String> {
    // While the journal is damaged, the checkpoint may be all that is left of some records.
    let safe =
        if history.is_whole { "; it can be deleted, the journal holds everything" } else { "" };
    let checkpoint = match checkpoint {
        Ok(Some(checkpoint)) => checkpoint,
        Ok(None) => return Ok("there is none, and none is needed".to_owned()),
        Err(error) => return Err(format!("{}{safe}", explained(&error))),
    };
    if !checkpoint.is_readable() {
        return Err(format!("another version of prodigy wrote it{safe}"));
    }
    let covers = checkpoint.covers();
    match history.agrees {
        Some(true) => Ok(format!("it says what the journal says up to record {covers}")),
        Some(false) => {
            Err(format!("it does not say what the journal says up to record {covers}{safe}"))
        }
        None => {
            let last = history.job.seq;
            Err(format!(
                "it covers record {covers}, and the journal can be read up to {last}{safe}"
            ))
        }
    }
}

/// Checks that the workflow kept with the job is the one that its records name.
fn workflow_is_the_one(state: &Path, job: &Job) -> Result<String, String> {
    let Some(started) = &job.started else {
        return Err("the journal does not say which one it is".to_owned());
    };
    let stored = workflow_file::stored(state).map_err(|error| explained(&error))?;
    let (hash, wanted) = (stored.hash(), &started.workflow_hash);
    if hash == *wanted {
        return Ok(format!("the stored one is the one that was run, {hash}"));
    }
    Err(format!("the stored one is {hash}, and the journal names {wanted}"))
}

/// Checks that the output of every finished step is where its record says.
fn logs_are_there(
    layout: &Layout,
    job: &JobId,
    logs: &[(String, LogRange)],
) -> Result<String, String> {
    for (step, log) in logs {
        let (out, err) = layout.log_files(job, ITEM, log.slot);
        let parts = [(out, log.stdout_at, log.stdout_len), (err, log.stderr_at, log.stderr_len)];
        for (path, at, length) in parts {
            let end = at.checked_add(length).ok_or_else(|| {
                format!("step {step} printed up to no possible byte of {}", path.display())
            })?;
            // A file that is not there holds as much as an empty one.
            let size = fs::symlink_metadata(&path).map_or(0, |meta| meta.len());
            if end > size {
                return Err(format!(
                    "step {step} printed up to byte {end} of {}, which has {size}",
                    path.display()
                ));
            }
        }
    }
    let outputs = u64::try_from(logs.len()).unwrap_or(u64::MAX);
    Ok(format!("{} of finished steps, all in their files", count(outputs, "output")))
}

/// Checks that what the job merged is on the branch it was merged into.
fn merge_is_there(history: &History) -> Result<String, String> {
    let (Some(commit), Some(target)) = (&history.job.merged, &history.target) else {
        return Ok("the journal tells of none".to_owned());
    };
    let repository = history.job.started.as_ref().map(|started| started.repository.as_str());
    let path = Path::new(repository.unwrap_or_default());
    let short = commit.get(..10).unwrap_or(commit);
    match contains(path, target, commit) {
        Ok(true) => Ok(format!("`{target}` contains {short}")),
        Ok(false) => Err(format!("`{target}` does not contain {short}")),
        Err(error) => Err(format!("{} in {}", explained(&error), path.display())),
    }
}

/// Returns whether a branch contains a commit.
fn contains(repository: &Path, branch: &str, commit: &str) -> Result<bool, git::Error> {
    let repo = Repo::discover(repository)?;
    match repo.branch(branch)? {
        Some(tip) => repo.is_ancestor(commit, &tip),
        None => Err(git::Error::NoSuchCommit { name: format!("refs/heads/{branch}") }),
    }
}

fn count(number: u64, what: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {what}{ending}")
}
