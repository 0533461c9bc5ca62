//! Choosing the items of a job, in the job's worktree.

use std::{
    fs,
    io::Read as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use prodigy_core::{
    event::InputOverride,
    failure::{Failure, ReasonCode},
    ids::hex,
    items::{self, InputFormat, RawItems, Selection, looks_like_path},
    job::{ItemInput, JobInput},
    template::{Script, ShellDialect, VarRoots},
    vars::Vars,
    workflow::{Map, MapInput},
};
use sha2::{Digest as _, Sha256};

use crate::{
    root_dir::RootDir,
    run::{Dispatcher, Error, dispatcher::run_state::TaskOutcome},
    step::{self, StepContext},
    store::{ItemEdits, Spool, read_bounded},
};

/// The largest input that is read.
const INPUT_LIMIT: u64 = 1024 * 1024 * 1024;

impl Dispatcher {
    /// Chooses the items; they come as an input.
    pub(crate) fn select_items(&mut self) -> Result<(), Error> {
        let Some(map) = self.parts.map.clone() else { return Ok(()) };
        let workplace = self.job_step_context()?;
        let vars = self.round_variables(0);
        let layout = &self.parts.settings.layout;
        let spool = layout.items_file(&self.parts.id);
        let given = self.job.started.as_ref().and_then(|started| started.input.clone());
        let given = given.map(|input| (input, layout.input_file(&self.parts.id)));
        let ended = self.parts.ended.0.clone();
        self.parts.busy = true;
        // The handle is not needed: the task always answers, and `go` waits for the answer.
        drop(tokio::spawn(async move {
            let (input, note) = match select(&workplace, &map, &vars, given, spool).await {
                Ok((selected, note)) => (JobInput::Item(selected), note),
                // The run was stopped meanwhile.
                Err(failure)
                    if failure.kind == ReasonCode::Cancelled
                        && workplace.tools.stop.is_requested() =>
                {
                    (JobInput::Tick, None)
                }
                Err(failure) => (JobInput::Item(ItemInput::Unusable(failure)), None),
            };
            // The loop listens until the answer is in.
            ended.send(TaskOutcome { input, fingerprint: None, note }).ok();
        }));
        Ok(())
    }

    /// Finds the items that were chosen and not queued; they come as an input.
    pub(crate) fn queue_selected_items(&mut self, from: u32) -> Result<(), Error> {
        let spool = self.open_spool()?;
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let ids = spool.ids().skip(from).collect::<Result<Vec<_>, _>>()?;
        self.inputs.push_back(JobInput::Item(ItemInput::Found(ids)));
        Ok(())
    }

    /// Returns the items that were chosen.
    pub(crate) fn open_spool(&mut self) -> Result<Spool, Error> {
        if let Some(spool) = &self.parts.spool {
            return Ok(spool.clone());
        }
        let path = self.parts.settings.layout.items_file(&self.parts.id);
        let sha256 = self.job.map.as_ref().map(|map| map.sha256.clone()).unwrap_or_default();
        let items = self.job.map.iter().flat_map(|map| map.items.iter().enumerate());
        let edited = items.filter_map(|(at, item)| Some((at, item.edited.as_deref()?.to_owned())));
        let edits = ItemEdits::new(&self.parts.settings.layout, &self.parts.id, edited.collect());
        let spool = Spool::open(&path, &sha256)?.with_edits(edits);
        self.parts.spool = Some(spool.clone());
        Ok(spool)
    }
}

/// Reads the input, chooses the items and stores them; says why there are none.
async fn select(
    workplace: &StepContext,
    map: &Arc<Map>,
    vars: &Vars,
    given: Option<(InputOverride, PathBuf)>,
    spool: PathBuf,
) -> Result<(ItemInput, Option<String>), Failure> {
    let source = match given {
        Some((input, path)) => read_kept_input(input, &path)?,
        None => read(workplace, map, vars).await?,
    };
    let map = Arc::clone(map);
    let chosen = tokio::task::spawn_blocking(move || {
        let selection = Selection::from(&*map);
        let from = source.display();
        let chosen = source.items().and_then(|input| items::select(input, &selection));
        let chosen = chosen.map_err(|error| {
            let message = format!("the items cannot be had from {from}: {error}");
            Failure::new(ReasonCode::ParseError, message)
        })?;
        let note = chosen
            .is_empty()
            .then(|| format!("no items were selected: {}", source.why_none(&selection)));
        let stored = Spool::write(&spool, chosen.iter()).map_err(|error| {
            Failure::new(ReasonCode::WorktreeError, format!("the items cannot be kept: {error}"))
        })?;
        let ids = chosen.into_iter().map(|item| item.id).collect();
        Ok((ItemInput::Selected { sha256: stored.sha256().to_owned(), ids }, note))
    });
    chosen.await.map_err(|error| Failure::new(ReasonCode::WorktreeError, error.to_string()))?
}

/// The source that items are selected from.
enum ItemSource {
    Values(Vec<serde_json::Value>),
    Names { names: Vec<String>, pattern: String },
    Bytes { bytes: Vec<u8>, kind: InputFormat, from: String },
}

impl ItemSource {
    fn items(&self) -> Result<RawItems<'_>, items::Error> {
        match self {
            Self::Values(values) => RawItems::from_values(values.clone()),
            Self::Names { names, .. } => RawItems::from_texts(names),
            Self::Bytes { bytes, kind, .. } => items::read_items(bytes, *kind),
        }
    }

    /// Returns why a selection leaves nothing.
    fn why_none(&self, selection: &Selection) -> String {
        match self {
            Self::Names { names, pattern } if names.is_empty() => {
                format!("no file matches `{pattern}`")
            }
            Self::Values(_) | Self::Names { .. } | Self::Bytes { .. } => {
                let why = self.items().and_then(|input| {
                    items::explain_empty_selection(input, selection, &self.display())
                });
                why.unwrap_or_else(|error| error.to_string())
            }
        }
    }

    fn display(&self) -> String {
        match self {
            Self::Values(_) => "the workflow".to_owned(),
            Self::Names { pattern, .. } => format!("the files that match `{pattern}`"),
            Self::Bytes { from, .. } => format!("`{from}`"),
        }
    }
}

async fn read(workplace: &StepContext, map: &Map, vars: &Vars) -> Result<ItemSource, Failure> {
    let missing = |message: String| Failure::new(ReasonCode::InputMissing, message);
    let render = |text: &prodigy_core::template::Template| {
        let filled = text.render(vars);
        filled.map_err(|error| Failure::new(ReasonCode::TemplateError, error.to_string()))
    };
    match &map.input {
        MapInput::Items(values) => Ok(ItemSource::Values(values.clone())),
        MapInput::Glob(pattern) => {
            let pattern = render(pattern)?;
            let root = workplace.tree.path().to_owned();
            let found =
                matching_files(&root, &pattern).map_err(|error| missing(error.to_string()))?;
            Ok(ItemSource::Names { names: found, pattern })
        }
        MapInput::Command(script) => printed(workplace, script, vars).await,
        MapInput::File(path) => file(workplace, &render(path)?),
        MapInput::Guess(text) => {
            let text = render(text)?;
            if workplace.tree.path().join(&text).is_file() || looks_like_path(&text) {
                return file(workplace, &text);
            }
            let script = Script::parse(&text, &VarRoots::default(), ShellDialect::Posix, false);
            let script = script.map_err(|_| missing(format!("`{text}` is not a command")))?;
            printed(workplace, &script, vars).await
        }
    }
}

/// Reads the items that were given with `--input` and are kept with the job.
fn read_kept_input(input: InputOverride, path: &Path) -> Result<ItemSource, Failure> {
    let InputOverride { name, kind, sha256 } = input;
    let missing = |why: String| {
        let message = format!("the items from `{name}`, kept with the job, cannot be read: {why}");
        Failure::new(ReasonCode::InputMissing, message)
    };
    let bytes = read_bounded(path, INPUT_LIMIT).map_err(|error| missing(error.to_string()))?;
    let bytes = bytes.ok_or_else(|| missing(format!("there is no file `{}`", path.display())))?;
    if hex(&Sha256::digest(&bytes)) != sha256 {
        return Err(missing(format!("`{}` was changed", path.display())));
    }
    Ok(ItemSource::Bytes { bytes, kind, from: name })
}

/// Reads a file in the job's worktree.
fn file(workplace: &StepContext, path: &str) -> Result<ItemSource, Failure> {
    let missing = |message: String| Failure::new(ReasonCode::InputMissing, message);
    let cannot = |why: String| missing(format!("the input `{path}` cannot be read: {why}"));
    let opened = RootDir::open(workplace.tree.path()).and_then(|root| root.read(Path::new(path)));
    let file = opened.map_err(|error| {
        if error.is_not_found() {
            let message = "in the job's worktree to read items from";
            return missing(format!("there is no file `{path}` {message}"));
        }
        if error.io().is_some() { cannot(error.to_string()) } else { missing(error.to_string()) }
    })?;
    let mut bytes = Vec::new();
    let read = file.take(INPUT_LIMIT + 1).read_to_end(&mut bytes);
    let length = read.map_err(|error| cannot(error.to_string()))?;
    if u64::try_from(length).is_ok_and(|length| length > INPUT_LIMIT) {
        return Err(cannot(format!("it is larger than {} MiB", INPUT_LIMIT / 1024 / 1024)));
    }
    let kind =
        InputFormat::from_path(Path::new(path)).map_err(|error| missing(error.to_string()))?;
    Ok(ItemSource::Bytes { bytes, kind, from: path.to_owned() })
}

/// Runs a command in the job's worktree and takes what it prints.
async fn printed(
    workplace: &StepContext,
    script: &Script,
    vars: &Vars,
) -> Result<ItemSource, Failure> {
    let bytes = step::run_for_output(workplace, script, vars, "map.input").await?;
    Ok(ItemSource::Bytes { bytes, kind: InputFormat::Output, from: script.source().to_owned() })
}

/// A pattern could not be looked for.
#[derive(Debug, thiserror::Error)]
pub enum FilePatternError {
    /// It is not a pattern.
    #[error("`{pattern}` is not a pattern: {reason}")]
    Syntax {
        /// The text.
        pattern: String,
        /// The syntax error.
        reason: String,
    },
    /// A directory cannot be read.
    #[error("cannot look for `{pattern}` in `{}`: {source}", directory.display())]
    Read {
        /// The pattern.
        pattern: String,
        /// The directory.
        directory: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file that matches has a name that is not text.
    #[error("the name of the file `{name}` is not UTF-8")]
    NotText {
        /// The name, as far as it can be shown.
        name: String,
    },
}

/// Returns the files below a directory that match a pattern, relative to it and sorted.
///
/// Links to directories are not followed, `.git` is not looked into, and a file whose name
/// is not text is not passed over in silence.
pub fn matching_files(root: &Path, pattern: &str) -> Result<Vec<String>, FilePatternError> {
    let glob = glob::Pattern::new(pattern).map_err(|error| FilePatternError::Syntax {
        pattern: pattern.to_owned(),
        reason: error.to_string(),
    })?;
    let options = glob::MatchOptions { require_literal_separator: true, ..Default::default() };
    let mut found = Vec::new();
    let mut waiting = vec![PathBuf::new()];
    while let Some(directory) = waiting.pop() {
        let cannot = |source: std::io::Error| FilePatternError::Read {
            pattern: pattern.to_owned(),
            directory: directory.clone(),
            source,
        };
        for entry in fs::read_dir(root.join(&directory)).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            let path = directory.join(entry.file_name());
            if entry.file_type().map_err(cannot)?.is_dir() {
                waiting.extend((entry.file_name() != ".git").then_some(path));
                continue;
            }
            let shown = path.to_string_lossy();
            if !glob.matches_with(&shown, options) || !entry.path().is_file() {
                continue;
            }
            match path.to_str() {
                Some(name) => found.push(name.to_owned()),
                None => return Err(FilePatternError::NotText { name: shown.into_owned() }),
            }
        }
    }
    found.sort();
    Ok(found)
}
