//! `cargo xtask docs`: the pages under `docs/reference` that the binary knows best.
//!
//! A page is a file and the command that prints it. Nothing is written by hand
//! twice: keys come from the tables that read a workflow, events and codes from
//! the types that write the journal, help from the types that read the command line.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    error::Error,
    program::{print_note, prodigy, read, root},
};

/// Write the reference pages anew
#[derive(clap::Args, Debug)]
pub(crate) struct DocsArgs {
    /// Write nothing; fail if a page is not up to date
    #[arg(long)]
    check: bool,
}

/// A generated page: its name below `docs/reference`, and the arguments that make `prodigy` print it.
struct DocsPage {
    file: &'static str,
    args: &'static [&'static str],
}

const PAGES: &[DocsPage] = &[
    DocsPage { file: "workflow.md", args: &["__reference", "workflow"] },
    DocsPage { file: "workflow.schema.json", args: &["schema", "workflow"] },
    DocsPage { file: "faults.md", args: &["__reference", "faults"] },
    DocsPage { file: "faults.schema.json", args: &["schema", "faults"] },
    DocsPage { file: "policy.md", args: &["__reference", "policy"] },
    DocsPage { file: "policy.schema.json", args: &["schema", "policy"] },
    DocsPage { file: "events.md", args: &["__reference", "events"] },
    DocsPage { file: "event.schema.json", args: &["schema", "event"] },
    DocsPage { file: "dead-letters.md", args: &["__reference", "dead-letters"] },
    DocsPage { file: "dlq-item.schema.json", args: &["schema", "dlq-item"] },
    DocsPage { file: "checkpoints.md", args: &["__reference", "checkpoint"] },
    DocsPage { file: "checkpoint.schema.json", args: &["schema", "checkpoint"] },
    DocsPage { file: "audit.md", args: &["__reference", "audit"] },
    DocsPage { file: "audit-record.schema.json", args: &["schema", "audit-record"] },
    DocsPage { file: "failure-codes.md", args: &["__reference", "failure-codes"] },
    DocsPage { file: "exit-codes.md", args: &["__reference", "exit-codes"] },
    DocsPage { file: "flags.md", args: &["__reference", "flags"] },
    DocsPage { file: "cli.md", args: &["__reference", "cli"] },
];

pub(crate) fn run(args: &DocsArgs) -> Result<(), Error> {
    if args.check {
        return check();
    }
    let binary = prodigy(false)?;
    for page in PAGES {
        let path = path(page);
        let text = text(&binary, page)?;
        if read_existing(&path)? != text {
            fs::write(&path, text).map_err(|source| Error::File { path, source })?;
            print_note(format_args!("wrote docs/reference/{}", page.file));
        }
    }
    Ok(())
}

/// Fails if a page is not what the binary prints now.
pub(crate) fn check() -> Result<(), Error> {
    let binary = prodigy(false)?;
    let mut stale = Vec::new();
    for page in PAGES {
        if read_existing(&path(page))? != text(&binary, page)? {
            stale.push(format!("docs/reference/{}", page.file));
        }
    }
    if stale.is_empty() { Ok(()) } else { Err(Error::OutOfDate(stale)) }
}

fn path(page: &DocsPage) -> PathBuf {
    root().join("docs/reference").join(page.file)
}

/// Returns the page as it is; a page that is not there yet is empty.
fn read_existing(path: &Path) -> Result<String, Error> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(source) => Err(Error::File { path: path.to_owned(), source }),
    }
}

/// Returns the page as it should be.
fn text(binary: &Path, page: &DocsPage) -> Result<String, Error> {
    // What the person has set up must not show in the page.
    read(Command::new(binary).args(page.args).env("NO_COLOR", "1").env_remove("PRODIGY_HOME"))
}
