//! From a reference and the variables to a value.

use serde_json::Value;

use super::{RenderError, filter::FilteredValue, reference::VarReference};
use crate::nearest::nearest;
use crate::vars::{PathSegment, VarPath, Vars, value_text};

/// The maximum number of field names that a message lists.
const LISTED: usize = 8;

/// Returns the value of a reference, filters applied.
pub(super) fn resolve(reference: &VarReference, vars: &Vars) -> Result<FilteredValue, RenderError> {
    let found = vars.get(reference.path());
    let value = match (found, reference.default()) {
        (Some(value), Some(default)) if value_text(value).is_empty() => Value::from(default),
        (Some(value), _) => value.clone(),
        (None, Some(default)) => Value::from(default),
        (None, None) => return Err(missing(reference, vars)),
    };
    let mut filled = FilteredValue { value, encoded: false };
    for filter in reference.filters() {
        filled = filter.apply(filled).map_err(|problem| value_error(reference, &problem))?;
    }
    Ok(filled)
}

/// Returns an error that says what is wrong with the value of a reference.
///
/// The value itself is left out: it may be long, hostile to a terminal, or secret.
pub(super) fn value_error(reference: &VarReference, problem: &str) -> RenderError {
    RenderError { message: format!("the value of `${{{}}}` {problem}", reference.path_text()) }
}

fn missing(reference: &VarReference, vars: &Vars) -> RenderError {
    let path = reference.path();
    let mut known = VarPath { root: path.root.clone(), rest: Vec::new() };
    let mut at = vars.root(&path.root);
    let mut lacking = None;
    for segment in &path.rest {
        let Some(value) = at else { break };
        let next = match segment {
            PathSegment::Field(name) => value.get(name),
            PathSegment::Index(index) => value.get(index),
        };
        if next.is_none() {
            lacking = Some((value, segment));
            break;
        }
        known.rest.push(segment.clone());
        at = next;
    }
    let reason = match lacking {
        None => format!("`{}` is not set", path.root),
        Some((value, segment)) => lack(&known, value, segment),
    };
    RenderError { message: format!("`${{{}}}` has no value: {reason}", reference.path_text()) }
}

fn lack(known: &VarPath, value: &Value, segment: &PathSegment) -> String {
    match (value, segment) {
        (Value::Object(fields), PathSegment::Field(name)) => {
            let start = format!("`{known}` has no field `{name}`");
            if let Some(near) = nearest(name, fields.keys().map(String::as_str)) {
                return format!("{start}; did you mean `{near}`?");
            }
            if fields.is_empty() {
                return format!("{start}; it has no fields at all");
            }
            let mut names: Vec<String> =
                fields.keys().take(LISTED).map(|key| format!("`{}`", key.escape_debug())).collect();
            if fields.len() > LISTED {
                names.push(format!("and {} more", fields.len() - LISTED));
            }
            format!("{start}; it has {}", names.join(", "))
        }
        (Value::Array(elements), PathSegment::Index(index)) => {
            let count = elements.len();
            format!("`{known}` has no element {index}; it has {count}, counted from 0")
        }
        (value, PathSegment::Field(name)) => {
            format!("`{known}` is {}, so it has no field `{name}`", kind(value))
        }
        (value, PathSegment::Index(index)) => {
            format!("`{known}` is {}, so it has no element {index}", kind(value))
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}
