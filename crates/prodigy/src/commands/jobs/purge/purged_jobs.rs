//! The records of purged jobs.

use prodigy_core::ids::JobId;
use prodigy_engine::store::{Layout, PurgeRecord, PurgedPart};
use serde_json::{Value, json};

use crate::{
    cli::Cli,
    commands::{
        context::{self, store_error},
        jobs::{SCHEMA_VERSION, format_timestamp},
        lookup::{all_layouts, job_error},
        worktree::ByteSize,
    },
    error::CliError,
    exit::Exit,
    render::console::{Console, one_line},
};

/// The most jobs named in the note.
const NAMED: usize = 3;

/// Returns the jobs that a purge ended, as JSON.
pub(crate) fn purged_documents(layouts: &[Layout]) -> Result<Vec<Value>, CliError> {
    Ok(records(layouts)?.into_iter().map(|record| json!(record)).collect())
}

/// Says that there are jobs that a purge ended.
pub(crate) fn print_purged_note(layouts: &[Layout], out: &mut Console) -> Result<(), CliError> {
    let records = records(layouts)?;
    let Some(first) = records.first() else { return Ok(()) };
    let names: Vec<&str> =
        records.iter().take(NAMED).map(|record| record.job_id.as_str()).collect();
    let more = records.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    out.note(format_args!(
        "purged: {}{more}; `prodigy jobs show {}` says what is known of it",
        names.join(", "),
        first.job_id
    ));
    Ok(())
}

/// Returns what was purged of a job that is still there, for people.
pub(crate) fn facts(layout: &Layout, job: &JobId) -> Result<Vec<(&'static str, String)>, CliError> {
    let record = PurgeRecord::read(layout, job).map_err(|error| job_error(job, error))?;
    let parts = record.map(|record| record.purged).unwrap_or_default();
    Ok(parts.iter().map(|part| ("purged", line(part))).collect())
}

/// Shows a job that a purge ended; any other stays the error that it was.
pub(crate) fn show(
    args: &Cli,
    job: &JobId,
    json: bool,
    error: CliError,
    out: &mut Console,
) -> Result<Exit, CliError> {
    let layouts = all_layouts(&context::resolve_home(args)?)?;
    let record = records(&layouts)?.into_iter().find(|record| record.job_id == *job);
    let Some(record) = record else { return Err(error) };
    if json {
        let document =
            json!({"schema_version": SCHEMA_VERSION, "job": record.job, "purged": record.purged});
        out.raw(format!("{document:#}\n").as_bytes())?;
        return Ok(Exit::Success);
    }
    out.line(format_args!("{:<12}{job}", "job"))?;
    out.line(format_args!("{:<12}purged", "status"))?;
    let text = |name: &str| record.job.get(name).and_then(Value::as_str).map(one_line);
    let known = [
        ("was", text("status")),
        ("workflow", text("workflow_name").or_else(|| text("workflow_file"))),
        ("repository", text("repository")),
        ("started", text("started_at")),
        ("last event", text("last_event_at")),
        ("merged", text("merged_commit")),
    ];
    for (name, value) in known {
        if let Some(value) = value {
            out.line(format_args!("{name:<12}{value}"))?;
        }
    }
    for part in &record.purged {
        out.line(format_args!("{:<12}{}", "purged", line(part)))?;
    }
    Ok(Exit::Success)
}

fn line(part: &PurgedPart) -> String {
    let PurgedPart { what, at, by, older_than, files, bytes } = part;
    let (what, at) = (what.name(), format_timestamp(*at));
    let by = one_line(by);
    format!("{what} on {at} by {by}: older than {older_than}, {files} files, {}", ByteSize(*bytes))
}

fn records(layouts: &[Layout]) -> Result<Vec<PurgeRecord>, CliError> {
    let mut records = Vec::new();
    for layout in layouts {
        records.extend(PurgeRecord::list_ended(layout).map_err(store_error)?);
    }
    Ok(records)
}
