//! The items that a MapReduce workflow would work on.

use std::{fs, path::Path};

use prodigy_core::{
    items::{self, InputFormat, Item, RawItems, Selection, looks_like_path},
    template::Template,
    vars::Vars,
    workflow::{Map, MapInput},
};
use prodigy_engine::git::CommittedState;
use serde_json::{Value, json};

use super::{action, known_variables};
use crate::{
    commands::{
        prepare::given_items::{GivenItems, input_file},
        workflow::run::RunRequest,
    },
    error::CliError,
    exit::Exit,
    render::console::Console,
};

/// The number of items shown.
const SHOWN: usize = 5;

/// The items of a workflow, as far as they are known.
pub(crate) enum PlannedItems {
    /// These would be worked on.
    Known(Vec<Item>),
    /// They are known only once the workflow runs; this says why.
    Later(String),
}

/// Selects the items as a run would that started now.
///
/// Nothing is run for that: what a command prints, or what the setup phase is to
/// write, is not known beforehand.
pub(crate) fn select_items(map: &Map, request: &RunRequest) -> Result<PlannedItems, CliError> {
    let root = request.repo.checkout();
    let selection = Selection::from(map);
    let choose = |input: Result<RawItems<'_>, items::Error>, from: &str| {
        let chosen = input.and_then(|input| items::select(input, &selection));
        chosen.map(PlannedItems::Known).map_err(|error| {
            CliError::new(Exit::Invalid, format!("the items cannot be had from {from}: {error}"))
        })
    };
    if let Some(GivenItems { input, bytes }) = &request.given {
        return choose(items::read_items(bytes, input.kind), &format!("`{}`", input.name));
    }
    if let Some(file) = input_file(request)?
        && file.may_be_written
        && file.state != CommittedState::Committed
    {
        let path = &file.path;
        return Ok(PlannedItems::Later(match file.state {
            CommittedState::Missing => format!("`{path}` is not there yet"),
            CommittedState::Committed | CommittedState::Modified | CommittedState::Untracked => {
                format!("`{path}` is not committed, so `setup` has to write it")
            }
        }));
    }
    match &map.input {
        MapInput::Items(values) => choose(RawItems::from_values(values.clone()), "the workflow"),
        MapInput::Command(script) => {
            Ok(PlannedItems::Later(format!("`{}` prints them", script.source())))
        }
        MapInput::Glob(pattern) => {
            let pattern = render_parameters(pattern, request)?;
            let files = crate::commands::workflow::run::matched_files(&pattern, &request.repo)?;
            choose(RawItems::from_texts(files), &format!("`{pattern}`"))
        }
        MapInput::File(path) | MapInput::Guess(path) => {
            let path = render_parameters(path, request)?;
            let file = root.join(&path);
            if fs::metadata(&file).is_ok_and(|found| !found.is_file()) {
                let message = format!("`{path}` is not a regular file");
                return Err(CliError::new(Exit::Invalid, message));
            }
            let Ok(bytes) = fs::read(&file) else {
                if matches!(map.input, MapInput::Guess(_)) && !looks_like_path(&path) {
                    return Ok(PlannedItems::Later(format!("`{path}` prints them")));
                }
                return Ok(PlannedItems::Later(format!("`{path}` is not there yet")));
            };
            let kind = InputFormat::from_path(Path::new(&path));
            choose(kind.and_then(|kind| items::read_items(&bytes, kind)), &format!("`{path}`"))
        }
    }
}

/// Fills in the parameters, which are all that is known before a run.
fn render_parameters(text: &Template, request: &RunRequest) -> Result<String, CliError> {
    text.render(&known_variables(request))
        .map_err(|error| CliError::new(Exit::Invalid, error.to_string()))
}

impl PlannedItems {
    /// Returns how many items there are, if that is known.
    pub(crate) fn count(&self) -> Option<usize> {
        match self {
            Self::Known(chosen) => Some(chosen.len()),
            Self::Later(_) => None,
        }
    }

    /// Returns the items for the JSON document.
    pub(crate) fn json(&self) -> Value {
        match self {
            Self::Later(why) => json!({ "known": false, "reason": why }),
            Self::Known(chosen) => {
                let items: Vec<_> = chosen
                    .iter()
                    .map(|item| json!({ "id": item.id.as_str(), "data": data(item) }))
                    .collect();
                json!({ "known": true, "count": chosen.len(), "items": items })
            }
        }
    }

    /// Shows the first items, each with its steps as far as they are known.
    pub(crate) fn lines(&self, map: &Map, vars: &Vars, out: &mut Console) -> Result<(), CliError> {
        let chosen = match self {
            Self::Later(why) => return out.line(format_args!("items     known later: {why}")),
            Self::Known(chosen) => chosen,
        };
        out.line(format_args!(
            "items     {} (values are filled in to be read; a run passes them as data)",
            chosen.len()
        ))?;
        for item in chosen.iter().take(SHOWN) {
            let text: String = item.data.get().chars().take(100).collect();
            out.line(format_args!("  {}  {text}", item.id))?;
            let mut vars = vars.clone();
            vars.set("item", data(item));
            for step in &map.steps {
                for line in action::action_lines(step, &vars) {
                    out.line(format_args!("       {line}"))?;
                }
            }
        }
        match chosen.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => out.line(format_args!("  … and {more} more")),
        }
    }
}

/// Returns an item as a value.
fn data(item: &Item) -> Value {
    // The text was read as JSON when it was selected.
    serde_json::from_str(item.data.get()).unwrap_or(Value::Null)
}
