//! `prodigy dlq inspect`.

use std::path::PathBuf;

use prodigy_core::{
    dlq::{DeadLetterError, DeadLetteredItem},
    ids::{ItemId, JobId},
};
use prodigy_engine::store::{self, dlq::entry_file};

use super::entries::{JobDeadLetters, LONGEST, entry_filter::entry_not_found, open_job};
use crate::{
    cli::Cli,
    commands::context::store_error,
    error::CliError,
    exit::Exit,
    progress::truncate,
    render::{console::Console, pretty_json::pretty_json},
};

/// The largest file that is shown.
const LIMIT: u64 = 256 * 1024 * 1024;

/// Print an entry as it is stored
///
/// The JSON goes to standard output, laid out anew and otherwise as it is in its file. Where
/// the file is, and whether it was changed since it was written, is said on standard error.
#[derive(clap::Args, Debug)]
pub(crate) struct DlqInspectArgs {
    /// The job
    job: JobId,

    /// The item, by id or by key
    item: String,
}

pub(super) fn run(
    args: &Cli,
    command: &DlqInspectArgs,
    out: &mut Console,
) -> Result<Exit, CliError> {
    let letters = open_job(args, &command.job, out)?;
    let (path, text) = read_stored_entry(&letters, &command.item)?;
    let read = DeadLetteredItem::read(&text, &entry_file(&path, &letters.job));
    if matches!(read, Err(DeadLetterError::Shape(_))) {
        out.raw(text.as_bytes())?;
    } else {
        out.raw(pretty_json(&text).as_bytes())?;
    }
    out.flush()?;
    out.note(format_args!("file: {}", path.display()));
    let is_old = |text: &str| !text.contains("\"record_hash\"");
    let (verdict, exit) = match read {
        Ok(_) if is_old(&text) => ("none: it has an older shape".to_owned(), Exit::Success),
        Ok(_) => ("right".to_owned(), Exit::Success),
        Err(DeadLetterError::Altered) => {
            ("wrong: the entry was changed since it was written".to_owned(), Exit::Failure)
        }
        Err(error) => {
            (format!("not checked: {}", truncate(&error.to_string(), LONGEST)), Exit::Failure)
        }
    };
    out.note(format_args!("hash: {verdict}"));
    if exit == Exit::Failure {
        out.note(format_args!("\nnext: `prodigy dlq fsck {}` makes it anew", letters.job));
    }
    Ok(exit)
}

/// Returns the file of an entry and what is in it.
fn read_stored_entry(letters: &JobDeadLetters, named: &str) -> Result<(PathBuf, String), CliError> {
    let JobDeadLetters { layout, job, queue } = letters;
    let ids: Vec<ItemId> =
        named.parse().ok().into_iter().chain([ItemId::from_key(named)]).collect();
    for item in &ids {
        // Older programs kept the files one directory higher.
        let flat = layout.dlq_dir(job).join(format!("{item}.json"));
        for path in [queue.entry_path(item), flat] {
            if let Some(bytes) = store::read_bounded(&path, LIMIT).map_err(store_error)? {
                return Ok((path, String::from_utf8_lossy(&bytes).into_owned()));
            }
        }
    }
    Err(entry_not_found(job, named))
}
