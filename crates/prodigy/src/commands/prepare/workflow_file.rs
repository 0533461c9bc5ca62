//! Workflow files on disk, and as they are kept with a job.

use std::path::{Path, PathBuf};

use prodigy_core::{
    diagnostic::{Diagnostic, Sources},
    ids::hex,
    workflow::{self, Loaded, Rejected},
};
use prodigy_engine::{run::WorkflowCopy, store};
use sha2::{Digest as _, Sha256};

use crate::{
    error::CliError,
    exit::Exit,
    input,
    render::{console::Console, diagnostics},
};

/// The largest stored workflow that is read back, with all that it includes.
const STORED_LIMIT: u64 = 256 * 1024 * 1024;

/// A workflow with the texts it was made of.
#[derive(Clone)]
pub(crate) struct WorkflowFile {
    /// The parsed workflow.
    pub(crate) loaded: Loaded,
    /// The text of the file itself.
    pub(crate) text: String,
    /// The directory that `env_files` and secrets are relative to.
    pub(crate) directory: PathBuf,
}

/// Reads and checks a workflow file, with everything it includes.
pub(crate) fn parse(path: &Path) -> Result<(Result<Loaded, Rejected>, String), input::Error> {
    let text = input::read(path)?;
    let name = path.to_string_lossy();
    let mut read = |wanted: &str| {
        if wanted == name {
            return Ok(text.clone());
        }
        input::read(Path::new(wanted)).map_err(|error| error.to_string())
    };
    Ok((workflow::load(&name, &mut read), text))
}

/// Reads a workflow; what is wrong with it is shown before the error is returned.
pub(crate) fn load(path: &Path, out: &mut Console) -> Result<WorkflowFile, CliError> {
    let (parsed, text) = parse(path).map_err(|error| {
        CliError::new(error.exit(), error.to_string())
            .with_hint("`prodigy init` writes a first workflow")
    })?;
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        Some(_) | None => PathBuf::from("."),
    };
    let directory = std::path::absolute(&directory).unwrap_or(directory);
    // A job that is resumed could not find it again.
    if directory.to_str().is_none() {
        let message = format!("the path `{}` is not UTF-8 text", directory.display());
        return Err(CliError::new(Exit::Usage, message).with_hint("rename the directory"));
    }
    let loaded = accept_or_reject(&path.to_string_lossy(), parsed, out)?;
    Ok(WorkflowFile { loaded, text, directory })
}

/// Reads a workflow that stands in no file.
pub(crate) fn from_text(
    name: &str,
    text: &str,
    out: &mut Console,
) -> Result<WorkflowFile, CliError> {
    let parsed = workflow::load(name, &mut |_| Ok(text.to_owned()));
    let loaded = accept_or_reject(name, parsed, out)?;
    Ok(WorkflowFile { loaded, text: text.to_owned(), directory: PathBuf::from(".") })
}

/// Shows what is wrong with a workflow, and lets it pass if it can be used.
fn accept_or_reject(
    name: &str,
    parsed: Result<Loaded, Rejected>,
    out: &mut Console,
) -> Result<Loaded, CliError> {
    let color = out.color();
    let mut show = |sources: &Sources, found: &[Diagnostic]| {
        for one in found {
            out.preformatted(&format!("{}\n", diagnostics::render_diagnostic(sources, one, color)));
        }
    };
    match parsed {
        Ok(loaded) => {
            show(&loaded.sources, &loaded.warnings);
            Ok(loaded)
        }
        Err(Rejected { sources, diagnostics }) => {
            show(&sources, &diagnostics);
            Err(CliError::new(Exit::Invalid, format!("`{name}` cannot be used"))
                .with_hint("`prodigy schema workflow` describes every key"))
        }
    }
}

impl WorkflowFile {
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
    pub(crate) fn texts(&self) -> WorkflowCopy {
        let texts: Vec<_> = self
            .loaded
            .sources
            .iter()
            .map(|source| serde_json::json!({ "path": source.path, "text": source.text }))
            .collect();
        let sources =
            serde_json::json!({ "version": 1, "directory": self.directory, "sources": texts });
        WorkflowCopy { sources: sources.to_string().into_bytes(), text: self.text.clone() }
    }
}

/// Reads the workflow that is kept with a job.
pub(crate) fn load_stored(state: &Path) -> Result<WorkflowFile, CliError> {
    let path = state.join("sources.json");
    let shown = path.display().to_string();
    let bad = || CliError::new(Exit::Failure, format!("the stored workflow `{shown}` is damaged"));
    let text = match store::read_bounded(&path, STORED_LIMIT) {
        Ok(Some(text)) => text,
        Ok(None) => {
            let message = format!("the stored workflow `{shown}` is missing");
            return Err(CliError::new(Exit::Failure, message));
        }
        Err(error) => return Err(bad().with_source(error)),
    };
    let bundle: SourceBundle =
        serde_json::from_slice(&text).map_err(|error| bad().with_source(error))?;
    let Some(first) = bundle.sources.first() else { return Err(bad()) };
    let mut read = |path: &str| {
        let found = bundle.sources.iter().find(|source| source.path == path);
        found.map(|source| source.text.clone()).ok_or_else(|| "it was not stored".to_owned())
    };
    let loaded = workflow::load(&first.path, &mut read).map_err(|rejected| {
        let why = rejected.diagnostics.into_iter().next().map(|first| first.message);
        let why = why.unwrap_or_else(|| "it cannot be read".to_owned());
        let message = format!("this prodigy does not take the stored workflow `{shown}`: {why}");
        CliError::new(Exit::Failure, message)
            .with_hint("the version of prodigy that began the job goes on with it")
    })?;
    Ok(WorkflowFile { loaded, text: first.text.clone(), directory: bundle.directory })
}

/// The content of `sources.json`.
#[derive(serde::Deserialize)]
struct SourceBundle {
    directory: PathBuf,
    sources: Vec<StoredSource>,
}

/// One text of a [`SourceBundle`].
#[derive(serde::Deserialize)]
struct StoredSource {
    path: String,
    text: String,
}
