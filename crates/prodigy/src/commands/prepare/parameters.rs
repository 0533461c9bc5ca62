//! `--param` and `--param-file`: the values a person gives to a workflow.

use std::{collections::BTreeMap, path::Path};

use prodigy_core::{
    workflow::{Parameter, ParameterKind},
    yaml,
};
use serde_json::Value;

use crate::{error::CliError, exit::Exit, input};

/// The hint for a file of parameters that cannot be used.
const FILE_HINT: &str = "a file of parameters is YAML or JSON, with a line `NAME: VALUE` for each";

/// Puts the parameters of a run together and checks them.
pub(crate) fn resolve(
    declared: &[Parameter],
    given: &[String],
    file: Option<&Path>,
) -> Result<BTreeMap<String, Value>, CliError> {
    let mut values = match file {
        Some(path) => read(path)?,
        None => BTreeMap::new(),
    };
    for pair in given {
        let Some((name, value)) = pair.split_once('=') else {
            return Err(usage_error(format!("`{pair}` is not `NAME=VALUE`"))
                .with_hint(format!("write `--param {pair}=VALUE`")));
        };
        values.insert(name.to_owned(), Value::String(value.to_owned()));
    }
    if let Some(name) = values.keys().find(|name| declared.iter().all(|one| one.name != **name)) {
        let known: Vec<_> = declared.iter().map(|one| format!("`{}`", one.name)).collect();
        let hint = if known.is_empty() {
            "the workflow has no `parameters`".to_owned()
        } else {
            format!("it has {}", known.join(", "))
        };
        return Err(usage_error(format!("the workflow has no parameter `{name}`")).with_hint(hint));
    }
    let mut resolved = BTreeMap::new();
    for parameter in declared {
        let value = match values.remove(&parameter.name) {
            Some(value) => coerce_value(parameter, &value)?,
            None => match (&parameter.default, parameter.required) {
                (Some(default), _) => default.clone(),
                (None, true) => {
                    let name = &parameter.name;
                    return Err(usage_error(format!("the parameter `{name}` must be given"))
                        .with_hint(format!("add `--param {name}=VALUE`")));
                }
                (None, false) => Value::Null,
            },
        };
        resolved.insert(parameter.name.clone(), value);
    }
    Ok(resolved)
}

/// Reads parameters from a YAML or JSON file.
fn read(path: &Path) -> Result<BTreeMap<String, Value>, CliError> {
    let shown = path.display();
    let text = input::read(path)
        .map_err(|error| CliError::new(error.exit(), error.to_string()).with_hint(FILE_HINT))?;
    let node = yaml::parse(&text, 0).map_err(|found| {
        let first = found.into_iter().next().map(|one| one.message).unwrap_or_default();
        CliError::new(Exit::Invalid, format!("`{shown}`: {first}"))
    })?;
    match node.to_json() {
        Value::Object(fields) => Ok(fields.into_iter().collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            let message = format!("`{shown}` is not a mapping of parameters");
            Err(CliError::new(Exit::Invalid, message).with_hint(FILE_HINT))
        }
    }
}

/// Brings a value to the type of its parameter; text from the command line is read as that type.
fn coerce_value(parameter: &Parameter, value: &Value) -> Result<Value, CliError> {
    let name = &parameter.name;
    let wrong = |wanted: &str, value: &Value| {
        usage_error(format!("the parameter `{name}` must be {wanted}, and `{value}` is not"))
    };
    let parsed = if parameter.kind == ParameterKind::String {
        Value::String(prodigy_core::vars::value_text(value))
    } else {
        let read = value.as_str().and_then(|text| serde_json::from_str(text).ok());
        read.unwrap_or_else(|| value.clone())
    };
    let (fits, wanted) = match parameter.kind {
        ParameterKind::String => (parsed.is_string(), "text"),
        ParameterKind::Number => (parsed.is_number(), "a number"),
        ParameterKind::Boolean => (parsed.is_boolean(), "`true` or `false`"),
        ParameterKind::Array => (parsed.is_array(), "a JSON list"),
        ParameterKind::Object => (parsed.is_object(), "a JSON mapping"),
    };
    if !fits {
        return Err(wrong(wanted, value));
    }
    if !parameter.choices.is_empty() && !parameter.choices.contains(&parsed) {
        let choices: Vec<_> = parameter.choices.iter().map(|one| format!("`{one}`")).collect();
        return Err(wrong(&format!("one of {}", choices.join(", ")), value));
    }
    Ok(parsed)
}

fn usage_error(message: String) -> CliError {
    CliError::new(Exit::Usage, message)
}
