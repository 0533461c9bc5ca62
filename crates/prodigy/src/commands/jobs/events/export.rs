//! `prodigy events export`.

use std::{io::Write as _, path::PathBuf};

use prodigy_core::{event::EventRecord, ids::JobId};
use prodigy_engine::store::JournalReader;
use serde_json::Value;

use crate::{
    cli::Cli,
    commands::lookup::{find_job, job_error},
    error::CliError,
    exit::Exit,
    render::{
        console::Console,
        output_file::{self, OutputFileError},
    },
};

/// The columns of the CSV form that are fields of the records.
const COLUMNS: &[&str] = &[
    "seq",
    "timestamp",
    "job_id",
    "event_type",
    "item_id",
    "agent_id",
    "step",
    "attempt",
    "status",
    "duration_ms",
];

#[derive(clap::Args, Debug)]
pub(crate) struct EventsExportArgs {
    /// The job
    job: JobId,

    /// The form to write
    #[arg(long, value_enum, default_value = "jsonl")]
    format: EventsExportFormat,

    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum EventsExportFormat {
    /// One record on each line
    Jsonl,
    /// One array of records
    Json,
    /// A table; what has no column of its own is in `details`
    Csv,
}

pub(crate) fn run(
    args: &Cli,
    command: &EventsExportArgs,
    out: &mut Console,
) -> Result<Exit, CliError> {
    let (layout, job) = find_job(args, &command.job)?;
    let failed = |error| job_error(&job, error);
    let records = JournalReader::open(&layout, &job).map_err(failed)?;
    let records = records.map(|record| record.map_err(failed));
    match &command.output {
        None => export(records, command.format, |text| out.raw(text.as_bytes()))?,
        Some(path) => {
            output_file::check(path)?;
            output_file::write(path, |file| {
                export(records, command.format, |text| {
                    let written = file.write_all(text.as_bytes());
                    written.map_err(|error| OutputFileError::new(path, error).into())
                })
            })?;
        }
    }
    Ok(Exit::Success)
}

/// Writes records one by one, so that any number of them takes no memory.
fn export(
    records: impl Iterator<Item = Result<EventRecord, CliError>>,
    format: EventsExportFormat,
    mut write: impl FnMut(&str) -> Result<(), CliError>,
) -> Result<(), CliError> {
    match format {
        EventsExportFormat::Jsonl => {}
        EventsExportFormat::Json => write("[")?,
        EventsExportFormat::Csv => write(&format!("{},details\n", COLUMNS.join(",")))?,
    }
    let mut between = "\n";
    for record in records {
        // What the journal's reader could parse can be written again.
        let value = serde_json::to_value(record?).unwrap_or_default();
        match format {
            EventsExportFormat::Jsonl => write(&format!("{value}\n"))?,
            EventsExportFormat::Json => write(&format!("{between}{value}"))?,
            EventsExportFormat::Csv => write(&csv_row(value))?,
        }
        between = ",\n";
    }
    if format == EventsExportFormat::Json { write("\n]\n") } else { Ok(()) }
}

/// Returns a record as a row.
fn csv_row(mut value: Value) -> String {
    let mut cells = Vec::new();
    if let Some(fields) = value.as_object_mut() {
        fields.shift_remove("format");
        for column in COLUMNS {
            cells.push(match fields.shift_remove(*column) {
                None => String::new(),
                Some(Value::String(text)) => csv_cell(&text),
                Some(other) => csv_cell(&other.to_string()),
            });
        }
    }
    cells.push(csv_cell(&value.to_string()));
    cells.join(",") + "\n"
}

/// Returns a text as RFC 4180 wants it.
fn csv_cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
