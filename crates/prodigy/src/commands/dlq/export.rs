//! `prodigy dlq export`.

use std::{io::Write as _, path::PathBuf};

use prodigy_core::{dlq::DeadLetteredItem, ids::JobId};

use super::{
    entries::{
        entries,
        entry_filter::EntryFilterArgs,
        labels::{ANY, UNSETTLED},
        open_jobs, queue_error, warn_unreadable_entry,
    },
    export_format::{self, COLUMNS},
};
use crate::{
    cli::Cli,
    error::CliError,
    exit::Exit,
    render::{
        console::Console,
        output_file::{self, OutputFileError},
    },
};

/// Write entries as JSON, JSON lines, CSV or Markdown
///
/// They are written one by one, the newest first, so that any number takes no memory. CSV
/// has a row for each entry; a cell that a spreadsheet would take for a formula has a quote
/// in front of it.
#[derive(clap::Args, Debug)]
pub(crate) struct DlqExportArgs {
    /// The job [default: all jobs of this repository]
    job: Option<JobId>,

    /// The form to write
    #[arg(long, value_enum, default_value = "jsonl")]
    format: DlqExportFormat,

    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    choice: EntryFilterArgs,

    /// Also write entries that are resolved or dropped
    #[arg(long)]
    all: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum DlqExportFormat {
    /// One array of entries
    Json,
    /// One entry on each line
    Jsonl,
    /// A table
    Csv,
    /// A page for people
    Md,
}

pub(super) fn run(
    args: &Cli,
    command: &DlqExportArgs,
    out: &mut Console,
) -> Result<Exit, CliError> {
    match &command.output {
        None => export(args, command, out, |text, out| out.raw(text.as_bytes())),
        Some(path) => {
            output_file::check(path)?;
            let mut exit = Exit::Success;
            output_file::write::<CliError>(path, |file| {
                exit = export(args, command, out, |text, _| {
                    let written = file.write_all(text.as_bytes());
                    written.map_err(|error| OutputFileError::new(path, error).into())
                })?;
                Ok(())
            })?;
            Ok(exit)
        }
    }
}

/// Writes the entries one by one.
fn export(
    args: &Cli,
    command: &DlqExportArgs,
    out: &mut Console,
    mut write: impl FnMut(&str, &mut Console) -> Result<(), CliError>,
) -> Result<Exit, CliError> {
    let chosen = command.choice.to_filter()?;
    let mut jobs = open_jobs(args, command.job.as_ref())?;
    let statuses = if command.all { ANY } else { UNSETTLED };
    match command.format {
        DlqExportFormat::Json => write("[", out)?,
        DlqExportFormat::Jsonl => {}
        DlqExportFormat::Csv => write(&format!("{}\n", COLUMNS.join(",")), out)?,
        DlqExportFormat::Md => write("# Dead letters\n", out)?,
    }
    let mut between = "\n";
    entries(&mut jobs, &chosen, statuses, out, |letters, heading, out| {
        let entry = match letters.queue.entry(&heading.item_id) {
            Ok(Some(entry)) => entry,
            // It was deleted since.
            Ok(None) => return Ok(()),
            Err(error) => {
                warn_unreadable_entry(&letters.job, &queue_error(error), out);
                return Ok(());
            }
        };
        let text = match command.format {
            DlqExportFormat::Json => format!("{between}{}", line(&entry)),
            DlqExportFormat::Jsonl => format!("{}\n", line(&entry)),
            DlqExportFormat::Csv => export_format::csv_row(&entry),
            DlqExportFormat::Md => export_format::markdown_section(&entry),
        };
        between = ",\n";
        write(&text, out)
    })?;
    if command.format == DlqExportFormat::Json {
        write("\n]\n", out)?;
    }
    Ok(jobs.exit())
}

/// Returns an entry on one line.
fn line(entry: &DeadLetteredItem) -> String {
    // What was read from JSON can be written again; the item is kept as it was written.
    serde_json::to_string(entry).unwrap_or_default().replace(['\n', '\r'], " ")
}
