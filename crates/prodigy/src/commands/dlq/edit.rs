//! `prodigy dlq edit`.

use std::path::PathBuf;

use prodigy_core::{audit::IdentityKind, ids::JobId};
use prodigy_engine::run::control::DeadLetterAction;
use serde_json::{Map, Value, value::RawValue};

use super::{
    actions::require_open,
    decision::replay_context::{ReplayContext, require_reason},
    entries::{entry_filter::require_entry, open_job, queue_error},
};
use crate::{cli::Cli, error::CliError, exit::Exit, input, render::console::Console};

/// Edit an item's input
///
/// The previous data stays in the job's files, and the entry records each change. A quarantined
/// entry can be replayed afterwards.
#[derive(clap::Args, Debug)]
pub(crate) struct DlqEditArgs {
    /// The job
    job: JobId,

    /// The item, by id or by key
    item: String,

    /// The reason to record
    #[arg(long, value_name = "TEXT")]
    reason: String,

    #[command(flatten)]
    data: ItemDataArgs,
}

/// The new data.
#[derive(clap::Args, Debug)]
#[group(required = true, multiple = false)]
struct ItemDataArgs {
    /// The whole of the new data
    #[arg(long, value_name = "JSON")]
    data: Option<String>,

    /// The file with the whole of the new data
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Set one field, e.g. `path=src/main.rs` or `options.depth=3` (can be repeated)
    ///
    /// A value that is JSON is used as JSON, any other as text.
    #[arg(long = "set", value_name = "FIELD=VALUE")]
    fields: Vec<String>,
}

pub(super) fn run(args: &Cli, command: &DlqEditArgs, out: &mut Console) -> Result<Exit, CliError> {
    let reason = require_reason(&command.reason)?;
    let letters = open_job(args, &command.job, out)?;
    let entry = require_entry(&letters.queue, &letters.job, &command.item)?;
    require_open(&entry)?;
    let item = entry.item_id;
    let before =
        prodigy_engine::run::control::current_item_data(&letters.layout, &letters.job, &item)
            .map_err(queue_error)?;
    let data = command.data.read(before.as_deref())?;
    if before.is_some_and(|before| before.get() == data.get()) {
        return Err(CliError::new(Exit::Usage, "the item has exactly this data already"));
    }
    let authority = ReplayContext::load(args, &letters.layout, &letters.job, out)?;
    let (items, amendment) = ([item.clone()], DeadLetterAction::Edit(data));
    let edited =
        authority.apply_action(None, &items, &amendment, IdentityKind::Asserted, reason)?;
    if edited.is_empty() {
        let message = format!("`{item}` is not open any more; it was left as it is");
        return Err(CliError::new(Exit::Failure, message));
    }
    out.line(format_args!("edited  {item}"))?;
    Ok(Exit::Success)
}

impl ItemDataArgs {
    fn read(&self, before: Option<&RawValue>) -> Result<Box<RawValue>, CliError> {
        let text = match (&self.data, &self.file) {
            (Some(data), _) => data.clone(),
            (None, Some(path)) => {
                input::read(path).map_err(|error| CliError::new(error.exit(), error.to_string()))?
            }
            (None, None) => self.set(before)?,
        };
        RawValue::from_string(text.trim().to_owned()).map_err(|error| {
            CliError::new(Exit::Usage, format!("the new data is not JSON: {error}"))
        })
    }

    /// Returns the data with the fields that were set.
    fn set(&self, before: Option<&RawValue>) -> Result<String, CliError> {
        let Some(before) = before else {
            let message = "the item's data is gone, so no field of it can be set";
            return Err(CliError::new(Exit::Failure, message)
                .with_hint("give the whole of it with `--data` or `--file`"));
        };
        let mut data: Value = serde_json::from_str(before.get()).map_err(|error| {
            CliError::new(Exit::Failure, format!("the item's data cannot be used: {error}"))
        })?;
        for field in &self.fields {
            let Some((path, value)) = field.split_once('=').filter(|(path, _)| !path.is_empty())
            else {
                return Err(CliError::new(Exit::Usage, format!("`--set {field}` has no value"))
                    .with_hint("write for example `--set path=src/main.rs`"));
            };
            let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
            set_path(&mut data, path, value)
                .map_err(|why| CliError::new(Exit::Usage, format!("`--set {path}`: {why}")))?;
        }
        Ok(data.to_string())
    }
}

/// Puts a value where a path with dots leads to.
fn set_path(data: &mut Value, path: &str, value: Value) -> Result<(), String> {
    let mut place = data;
    for name in path.split('.') {
        if place.is_null() {
            *place = Value::Object(Map::new());
        }
        place = match place {
            Value::Object(fields) => fields.entry(name).or_insert(Value::Null),
            Value::Array(values) => {
                let length = values.len();
                let at = name.parse::<usize>().ok().and_then(|at| values.get_mut(at));
                at.ok_or_else(|| format!("`{name}` is no place in a list of {length}"))?
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                return Err(format!("what stands before `{name}` has no fields"));
            }
        };
    }
    *place = value;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn edited(fields: &[&str]) -> Result<String, String> {
        let fields = fields.iter().map(|field| (*field).to_owned()).collect();
        let arguments = ItemDataArgs { data: None, file: None, fields };
        let before = RawValue::from_string(json!({"a": {"b": [1, 2]}, "c": "x"}).to_string());
        let read = arguments.read(Some(&before.unwrap())).map_err(|error| error.to_string());
        read.map(|data| data.get().to_owned())
    }

    #[test]
    fn fields_are_set_by_their_paths() {
        let all = ["c=readme.md", "a.b.1=3", "a.new.deep=true", "n=\"7\"", "text=a=b"];
        insta::assert_snapshot!(edited(&all).unwrap(), @r#"{"a":{"b":[1,3],"new":{"deep":true}},"c":"readme.md","n":"7","text":"a=b"}"#);
    }

    #[test]
    fn a_path_that_leads_nowhere_is_refused() {
        let wrong = [["c.d=1"], ["a.b.7=1"], ["novalue"], ["=1"]];
        let said = wrong.map(|fields| edited(&fields).unwrap_err());
        insta::assert_snapshot!(said.join("\n"), @"
        `--set c.d`: what stands before `d` has no fields
        `--set a.b.7`: `7` is no place in a list of 2
        `--set novalue` has no value
        `--set =1` has no value
        ");
    }
}
