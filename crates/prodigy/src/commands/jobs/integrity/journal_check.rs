//! The checks of a job's integrity.

use std::path::Path;

use prodigy_core::{
    event::Event,
    ids::JobId,
    job::{Job, checkpoint::Checkpoint},
};
use prodigy_engine::{
    git::{self, Repo},
    run::control::lost_end,
    store::{self, JobLock, JournalDamage, JournalReader, Layout},
};
use serde::Serialize;

use super::{
    item_checks::ItemChecks, output_checks::OutputChecks, unrecorded_failures::unrecorded_failures,
};
use crate::{commands::prepare::workflow_file, error::error_chain, render::console::one_line};

/// The check of the journal's lines.
pub(crate) const JOURNAL: &str = "journal";
/// The check that the journal has its end.
pub(crate) const END: &str = "end";

/// The result of one check.
#[derive(Debug, Serialize)]
pub(crate) struct IntegrityCheck {
    /// The name of the check.
    pub(crate) check: &'static str,
    /// True if the check passed.
    pub(crate) ok: bool,
    /// The details.
    pub(crate) detail: String,
}

impl IntegrityCheck {
    pub(crate) fn new(check: &'static str, result: Result<String, String>) -> Self {
        let (ok, detail) = match result {
            Ok(detail) => (true, detail),
            Err(detail) => (false, detail),
        };
        // It may quote what stands in files.
        Self { check, ok, detail: one_line(&detail) }
    }
}

/// The state of a job, as its records give it.
struct JournalCheck<'a> {
    /// The folded state of the job.
    job: Job,
    /// The first record that does not fit, or that every one does.
    fits: Result<String, String>,
    /// True if all records could be read and fit.
    is_whole: bool,
    /// The comparison of the checkpoint with the records up to it, if they go that far; an error
    /// says where they differ.
    checkpoint: Option<Result<(), String>>,
    /// The output of the steps.
    outputs: OutputChecks<'a>,
    /// The items.
    items: ItemChecks,
    /// The branch that was merged into.
    target: Option<String>,
}

/// Makes every check, in the order in which they build on one another.
pub(crate) fn check_job(layout: &Layout, job: &JobId) -> Result<Vec<IntegrityCheck>, store::Error> {
    // The order matters while the job runs: a writer that ends after it was seen may
    // still have torn the last line, and records come before the checkpoint of them.
    let is_live = JobLock::holder(layout, job)?.is_some();
    let checkpoint = store::load_checkpoint::<Checkpoint>(layout, job);
    let lines = lines(layout, job, is_live)?;
    let history =
        JournalCheck::read(layout, job, checkpoint.as_ref().ok().and_then(Option::as_ref))?;
    let checkpoint = checkpoint_agrees(&history, checkpoint);
    let workflow = workflow_matches(&layout.state_dir(job), &history.job);
    let mut history = history;
    if let Some(started) = &mut history.job.started {
        started.repository = layout.current_path(&started.repository)?;
    }
    let merge = merge_exists(&history);
    let mut findings = vec![
        IntegrityCheck::new(JOURNAL, lines),
        IntegrityCheck::new("history", history.fits),
        IntegrityCheck::new("checkpoint", checkpoint),
        IntegrityCheck::new("workflow", workflow),
        IntegrityCheck::new("logs", history.outputs.result()),
    ];
    let target = history.target.as_deref();
    findings.extend(history.items.findings(layout, job, &history.job, target));
    if !is_live && history.is_whole {
        let lost = end_is_lost(layout, job, history.job.seq);
        findings.extend(lost.map(|why| IntegrityCheck::new(END, Err(why))));
    }
    if !is_live {
        findings.extend(unrecorded_failures(layout, job, &history.job));
    }
    findings.push(IntegrityCheck::new("merge", merge));
    Ok(findings)
}

/// Says what knows of records that the journal does not have, if something does.
fn end_is_lost(layout: &Layout, job: &JobId, last: u64) -> Option<String> {
    match lost_end::witnesses(layout, job, last) {
        Ok(witnesses) if witnesses.is_empty() => None,
        Ok(witnesses) => {
            let ahead = lost_end::described(&witnesses, last);
            Some(format!("the journal lost its end: its last record is {last}, and {ahead}"))
        }
        Err(error) => Some(error_chain(&error)),
    }
}

/// Checks every line's checksum and number.
fn lines(
    layout: &Layout,
    job: &JobId,
    is_live: bool,
) -> Result<Result<String, String>, store::Error> {
    let health = match store::inspect_journal(layout, job) {
        Ok(health) => health,
        Err(error @ store::Error::NoJob { .. }) => return Err(error),
        Err(error) => return Ok(Err(error_chain(&error))),
    };
    let records = plural(health.records, "record");
    Ok(match health.damage {
        None => Ok(format!("{records}, each with its number and checksum")),
        Some(JournalDamage { torn: true, .. }) if is_live => {
            Ok(format!("{records}, each with its number and checksum; another is being written"))
        }
        Some(JournalDamage { path, line, reason, torn, .. }) => {
            let note = if torn { "; `prodigy resume` cuts it off" } else { "" };
            Err(format!("{} line {line}: {reason}{note}", path.display()))
        }
    })
}

impl<'a> JournalCheck<'a> {
    /// Adds up the records, as far as they go.
    fn read(
        layout: &'a Layout,
        id: &'a JobId,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<Self, store::Error> {
        let mut history = Self {
            job: Job::default(),
            fits: Ok(String::new()),
            is_whole: true,
            checkpoint: None,
            outputs: OutputChecks::new(layout, id),
            items: ItemChecks::default(),
            target: None,
        };
        let mut cut = "";
        for record in JournalReader::open(layout, id)? {
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
            history.outputs.observe(&record);
            history.items.observe(&record, &history.job);
            if let (Event::WorktreeMerged { target, .. }, None) = (record.event, record.item_id) {
                history.target = Some(target);
            }
            if let Some(checkpoint) = checkpoint.filter(|it| it.covers() == history.job.seq) {
                let difference = checkpoint.find_mismatch(id, &history.job);
                history.checkpoint = Some(difference.map_or(Ok(()), Err));
            }
        }
        if history.fits.is_ok() {
            history.fits = match history.job.started {
                Some(_) => Ok(format!(
                    "each of {}{cut} fits the ones before it",
                    plural(history.job.seq, "record")
                )),
                None => Err("there is no beginning".to_owned()),
            };
        }
        Ok(history)
    }
}

/// Checks that the checkpoint says what the journal says.
fn checkpoint_agrees(
    history: &JournalCheck<'_>,
    checkpoint: Result<Option<Checkpoint>, store::Error>,
) -> Result<String, String> {
    // While the journal is damaged, the checkpoint may be all that is left of some records.
    let safe =
        if history.is_whole { "; the journal holds everything that it would say" } else { "" };
    let checkpoint = match checkpoint {
        Ok(Some(checkpoint)) => checkpoint,
        Ok(None) => return Ok("there is none, and none is needed".to_owned()),
        Err(error) => return Err(format!("{}{safe}", error_chain(&error))),
    };
    if !checkpoint.is_readable() {
        return Err(format!("another version of prodigy wrote it{safe}"));
    }
    let covers = checkpoint.covers();
    match &history.checkpoint {
        Some(Ok(())) => Ok(format!("it says what the journal says up to record {covers}")),
        Some(Err(wrong)) => Err(format!(
            "it does not say what the journal says up to record {covers}: {wrong}{safe}"
        )),
        None => {
            let last = history.job.seq;
            Err(format!("it covers record {covers}, and the journal can be read up to {last}"))
        }
    }
}

/// Checks that the workflow kept with the job is the one that its records name.
fn workflow_matches(state: &Path, job: &Job) -> Result<String, String> {
    let Some(started) = &job.started else {
        return Err("the journal does not say which one it is".to_owned());
    };
    let stored = workflow_file::load_stored(state).map_err(|error| error_chain(&error))?;
    let (hash, wanted) = (stored.hash(), &started.workflow_hash);
    if hash == *wanted {
        return Ok(format!("the stored one is the one that was run, {hash}"));
    }
    Err(format!("the stored one is {hash}, and the journal names {wanted}"))
}

/// Checks that what the job merged is on the branch it was merged into.
fn merge_exists(history: &JournalCheck<'_>) -> Result<String, String> {
    let (Some(commit), Some(target)) = (&history.job.merged, &history.target) else {
        return Ok("the journal tells of none".to_owned());
    };
    let repository = history.job.started.as_ref().map(|started| started.repository.as_str());
    let path = Path::new(repository.unwrap_or_default());
    let short = commit.get(..10).unwrap_or(commit);
    match contains(path, target, commit) {
        Ok(true) => Ok(format!("`{target}` contains {short}")),
        Ok(false) => Err(format!("`{target}` does not contain {short}")),
        Err(error) => Err(format!("{} in {}", error_chain(&error), path.display())),
    }
}

/// Returns whether a branch contains a commit.
fn contains(repository: &Path, branch: &str, commit: &str) -> Result<bool, git::Error> {
    let repo = Repo::discover(repository)?;
    match repo.branch_tip(branch)? {
        Some(tip) => repo.is_ancestor(commit, &tip),
        None => Err(git::Error::NoSuchCommit { name: format!("refs/heads/{branch}") }),
    }
}

pub(crate) fn plural(number: u64, what: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {what}{ending}")
}
