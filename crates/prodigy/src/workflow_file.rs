//! Workflow files on disk, and as they are kept with a job.

use std::{
    fs::{self, File as Handle},
    io::Read as _,
    path::{Path, PathBuf},
};

use prodigy_core::{
    ids::hex,
    workflow::{self, Loaded, Rejected},
};
use prodigy_engine::store;
use sha2::{Digest as _, Sha256};

use crate::{commands::context, error::CliError, exit::Exit, output::Output, report::diagnostics};

/// The largest workflow file that is read.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// A workflow with the texts it was made of.
#[derive(Clone)]
pub(crate) struct File {
    /// What it says.
    pub(crate) loaded: Loaded,
    /// The text of the file itself.
    pub(crate) text: String,
    /// The directory that `env_files` and secrets are relative to.
    pub(crate) directory: PathBuf,
}

/// Reads a workflow; what is wrong with it is shown before the error is returned.
pub(crate) fn load(path: &Path, out: &mut Output) -> Result<File, CliError> {
    let text = read(path)?;
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        Some(_) | None => PathBuf::from("."),
    };
    let name = path.to_string_lossy();
    let loaded = parsed(&name, &mut |path| read(Path::new(path)).map_err(|error| error.to_string()), out)?;
    Ok(File { loaded, text, directory })
}

/// Reads a workflow that stands in no file.
pub(crate) fn from_text(name: &str, text: &str, out: &mut Output) -> Result<File, CliError> {
    let loaded = parsed(name, &mut |_| Ok(text.to_owned()), out)?;
    Ok(File { loaded, text: text.to_owned(), directory: PathBuf::from(".") })
}

/// Parses a workflow and shows what is wrong with it.
fn parsed(
    name: &str,
    read: &mut dyn FnMut(&str) -> Result<String, String>,
    out: &mut Output,
) -> Result<Loaded, CliError> {
    match workflow::load(name, read) {
        Ok(loaded) => {
            out.diagnostics(&diagnostics::human(&loaded.sources, &loaded.warnings, out.color()));
            Ok(loaded)
        }
        Err(Rejected { sources, diagnostics }) => {
            out.diagnostics(&diagnostics::human(&sources, &diagnostics, out.color()));
            Err(CliError::new(Exit::Invalid, format!("`{name}` cannot be used"))
                .with_hint("`prodigy schema workflow` describes every key"))
        }
    }
}

/// Reads the text of a file that a person named.
///
/// Only regular files are read: a pipe or a device could go on for ever.
pub(crate) fn read(path: &Path) -> Result<String, CliError> {
    let shown = path.display();
    let invalid = |message: String| CliError::new(Exit::Invalid, message);
    let usage = |message: String| CliError::new(Exit::Usage, message);
    let metadata = fs::metadata(path).map_err(|error| {
        usage(format!("cannot read `{shown}`"))
            .because(error)
            .with_hint("`prodigy init` writes a first workflow")
    })?;
    if metadata.is_dir() {
        return Err(usage(format!("`{shown}` is a directory, not a workflow file")));
    }
    if !metadata.is_file() {
        return Err(usage(format!("`{shown}` is not a regular file")));
    }
    if metadata.len() > MAX_BYTES {
        let mib = metadata.len() / (1024 * 1024);
        return Err(invalid(format!("`{shown}` has {mib} MiB, and a workflow file may have 4")));
    }
    let mut bytes = Vec::new();
    let handle = Handle::open(path)
        .map_err(|error| usage(format!("cannot read `{shown}`")).because(error))?;
    handle
        .take(MAX_BYTES)
        .read_to_end(&mut bytes)
        .map_err(|error| usage(format!("cannot read `{shown}`")).because(error))?;
    String::from_utf8(bytes).map_err(|_| invalid(format!("`{shown}` is not UTF-8 text")))
}

impl File {
    /// Returns the hash of everything the workflow was made of.
    pub(crate) fn hash(&self) -> String {
        let mut hash = Sha256::new();
        for source in self.loaded.sources.iter() {
            hash.update(source.text.len().to_le_bytes());
            hash.update(source.text.as_bytes());
        }
        format!("sha256:{}", hex(&hash.finalize()))
    }

    /// Returns all texts the workflow was made of, as kept with a job.
    pub(crate) fn bundle(&self) -> Vec<u8> {
        let texts: Vec<_> = self
            .loaded
            .sources
            .iter()
            .map(|source| serde_json::json!({ "path": source.path, "text": source.text }))
            .collect();
        serde_json::json!({ "version": 1, "directory": self.directory, "sources": texts })
            .to_string()
            .into_bytes()
    }

    /// Keeps the workflow with a job.
    pub(crate) fn store(&self, state: &Path) -> Result<(), CliError> {
        store::write_atomic(&state.join("workflow.yml"), self.text.as_bytes())
            .and_then(|()| store::write_atomic(&state.join("sources.json"), &self.bundle()))
            .map_err(context::store_error)
    }
}

/// Reads the workflow that is kept with a job.
pub(crate) fn stored(state: &Path) -> Result<File, CliError> {
    let path = state.join("sources.json");
    let shown = path.display().to_string();
    let bad = || CliError::new(Exit::Failure, format!("the stored workflow `{shown}` is damaged"));
    let text = fs::read_to_string(&path).map_err(|error| bad().because(error))?;
    let bundle: Bundle = serde_json::from_str(&text).map_err(|error| bad().because(error))?;
    let Some(first) = bundle.sources.first() else { return Err(bad()) };
    let mut read = |path: &str| {
        let found = bundle.sources.iter().find(|source| source.path == path);
        found.map(|source| source.text.clone()).ok_or_else(|| "it was not stored".to_owned())
    };
    let loaded = workflow::load(&first.path, &mut read).map_err(|_| bad())?;
    Ok(File { loaded, text: first.text.clone(), directory: bundle.directory })
}

/// The content of `sources.json`.
#[derive(serde::Deserialize)]
struct Bundle {
    directory: PathBuf,
    sources: Vec<Stored>,
}

/// One text of a [`Bundle`].
#[derive(serde::Deserialize)]
struct Stored {
    path: String,
    text: String,
}
