//! `prodigy dlq fsck`.

use std::collections::BTreeSet;

use prodigy_core::ids::JobId;
use prodigy_engine::store::{
    self, Layout,
    dlq::{self, DeadLetterStore, FsckReport},
};
use serde_json::{Value, json};

use super::entries::{labels::SCHEMA_VERSION, queue_error, warn_unreadable_entry};
use crate::{
    cli::Cli,
    commands::{
        context::store_error,
        lookup::{find_job, visible_layouts},
    },
    error::CliError,
    exit::Exit,
    render::console::Console,
};

/// Compare dead letters with the journal, and put them right
///
/// The journal says which items failed. Files that are missing, damaged or say
/// something else are written anew; what was damaged is kept beside them. Files that belong
/// to no entry are named and left alone. The job must not be running.
///
/// Exit codes: 1 if something is wrong and was not put right.
#[derive(clap::Args, Debug)]
pub(crate) struct DlqFsckArgs {
    /// The job [default: all jobs of this repository]
    job: Option<JobId>,

    /// Only say what is wrong
    #[arg(long)]
    dry_run: bool,

    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Cli, command: &DlqFsckArgs, out: &mut Console) -> Result<Exit, CliError> {
    let mut reports = Vec::new();
    let mut is_whole = true;
    for (layout, job) in jobs_to_check(args, command.job.as_ref())? {
        match dlq::fsck(&layout, &job, !command.dry_run) {
            Ok(report) => {
                is_whole &= report.is_clean() || report.repaired;
                reports.push((job, report));
            }
            Err(error) if command.job.is_some() => return Err(queue_error(error)),
            // Entries of an older program have nothing that they could be compared with.
            Err(dlq::Error::Store(store::Error::NoJob { .. })) => {}
            // One job that cannot be looked at does not keep the others from it.
            Err(error) => {
                is_whole = false;
                warn_unreadable_entry(&job, &queue_error(error), out);
            }
        }
    }
    if command.json {
        let jobs: Vec<_> = reports.iter().map(|(job, report)| document(job, report)).collect();
        let document = json!({ "schema_version": SCHEMA_VERSION, "whole": is_whole, "jobs": jobs });
        out.raw(format!("{document:#}\n").as_bytes())?;
    } else {
        show(&reports, command.job.is_some(), out)?;
    }
    out.flush()?;
    if !is_whole && command.dry_run {
        out.note("\nnext: `prodigy dlq fsck` without `--dry-run` puts it right");
    }
    Ok(if is_whole { Exit::Success } else { Exit::Failure })
}

/// Returns the jobs to look at: one whose files are all gone is one of them.
fn jobs_to_check(args: &Cli, job: Option<&JobId>) -> Result<Vec<(Layout, JobId)>, CliError> {
    if let Some(job) = job {
        return Ok(vec![find_job(args, job)?]);
    }
    let mut found = Vec::new();
    for layout in visible_layouts(args)? {
        let mut jobs: BTreeSet<_> = layout.jobs().map_err(store_error)?.into_iter().collect();
        jobs.extend(DeadLetterStore::jobs(&layout).map_err(queue_error)?);
        found.extend(jobs.into_iter().map(|job| (layout.clone(), job)));
    }
    Ok(found)
}

/// Says what was found: of all jobs, only those that have something to say.
fn show(reports: &[(JobId, FsckReport)], is_one: bool, out: &mut Console) -> Result<(), CliError> {
    let told = |report: &FsckReport| is_one || !report.is_clean() || !report.foreign.is_empty();
    let mut entries = 0;
    for (job, report) in reports {
        entries += report.entries;
        if !told(report) {
            continue;
        }
        let verdict = match (report.is_clean(), report.repaired) {
            (true, _) => "all as the journal says",
            (false, true) => "put right",
            (false, false) => "not as the journal says",
        };
        out.line(format_args!("job {job}: {}, {verdict}", count(report.entries)))?;
        for (what, name, about) in findings(report) {
            out.line(format!("  {what:<9}{name}  {about}").trim_end())?;
        }
    }
    if !is_one && !reports.iter().any(|(_, report)| told(report)) {
        out.line(format_args!("{}, all as the journals say", count(entries)))?;
    }
    Ok(())
}

/// Returns what is wrong, in a line each: the word for it, where, and what.
fn findings(report: &FsckReport) -> Vec<(&'static str, String, String)> {
    let mut all = Vec::new();
    for item in &report.missing {
        all.push(("missing", item.to_string(), "its file is not there".to_owned()));
    }
    for (_, reason) in &report.damaged {
        // It names the file.
        all.push(("damaged", reason.clone(), String::new()));
    }
    for item in &report.stale {
        let about = "its file says something else than the journal".to_owned();
        all.push(("stale", item.to_string(), about));
    }
    for item in &report.unlisted {
        let about = "the list says something else than the journal".to_owned();
        all.push(("unlisted", item.to_string(), about));
    }
    for path in &report.foreign {
        let about = "it belongs to no entry and is left alone".to_owned();
        all.push(("foreign", path.display().to_string(), about));
    }
    all
}

fn document(job: &JobId, report: &FsckReport) -> Value {
    let damaged = report
        .damaged
        .iter()
        .map(|(path, reason)| json!({ "file": path.display().to_string(), "reason": reason }));
    json!({
        "job_id": job,
        "entries": report.entries,
        "missing": report.missing,
        "damaged": damaged.collect::<Vec<_>>(),
        "stale": report.stale,
        "unlisted": report.unlisted,
        "foreign": report.foreign.iter().map(|path| path.display().to_string()).collect::<Vec<_>>(),
        "repaired": report.repaired,
    })
}

fn count(entries: u64) -> String {
    if entries == 1 { "1 entry".to_owned() } else { format!("{entries} entries") }
}
