//! Filters: `${path|filter}`.

use serde_json::Value;

use crate::nearest::nearest;
use crate::vars::value_text;

/// A conversion of a value before it is inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TemplateFilter {
    /// The value as compact JSON: text gets quotes.
    Json,
    /// Lower case.
    Lower,
    /// Upper case.
    Upper,
    /// Without white space at both ends.
    Trim,
    /// The number of characters, elements or fields.
    Length,
    /// A list with one element per line.
    Lines,
    /// A relative path that stays inside.
    ///
    /// Quoting cannot stop a program from reading a value such as `-rf` as an
    /// option; this filter can, because it puts `./` in front of a leading `-`.
    Path,
    /// Shell only: every word of the value is an argument of its own; of a
    /// list, every element.
    Words,
    /// Shell only: the value is written to a file and the file's path inserted.
    File,
    /// Shell only, with `allow_raw`: the value becomes part of the program.
    Raw,
}

/// A value on its way into a template.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FilteredValue {
    /// The value.
    pub(super) value: Value,
    /// Set if it is JSON text already, so that a JSON sink must not encode it again.
    pub(super) encoded: bool,
}

const ALL: [(&str, TemplateFilter); 10] = [
    ("json", TemplateFilter::Json),
    ("lower", TemplateFilter::Lower),
    ("upper", TemplateFilter::Upper),
    ("trim", TemplateFilter::Trim),
    ("length", TemplateFilter::Length),
    ("lines", TemplateFilter::Lines),
    ("path", TemplateFilter::Path),
    ("words", TemplateFilter::Words),
    ("file", TemplateFilter::File),
    ("raw", TemplateFilter::Raw),
];

impl TemplateFilter {
    /// Returns the filter with a name.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        ALL.iter().find(|(known, _)| *known == name).map(|(_, filter)| *filter)
    }

    /// Returns what to do about a name that is no filter.
    pub(super) fn suggestion(name: &str) -> String {
        if let Some(known) = nearest(name, ALL.iter().map(|(known, _)| *known)) {
            format!("did you mean `{known}`?")
        } else {
            let names: Vec<String> = ALL.iter().map(|(known, _)| format!("`{known}`")).collect();
            format!("the filters are {}", names.join(", "))
        }
    }

    /// Returns the filter's name.
    pub(super) fn name(self) -> &'static str {
        ALL.iter().find(|(_, filter)| *filter == self).map_or("", |(name, _)| name)
    }

    /// Returns true if the filter determines how a value travels into a shell script.
    pub(super) fn is_shell_only(self) -> bool {
        match self {
            Self::Words | Self::File | Self::Raw => true,
            Self::Json
            | Self::Lower
            | Self::Upper
            | Self::Trim
            | Self::Length
            | Self::Lines
            | Self::Path => false,
        }
    }

    /// Applies the filter; an error says what is wrong with the value.
    pub(super) fn apply(self, filled: FilteredValue) -> Result<FilteredValue, String> {
        let value = filled.value;
        let text = match self {
            Self::Words | Self::File | Self::Raw => return Ok(FilteredValue { value, ..filled }),
            Self::Json => {
                return Ok(FilteredValue {
                    value: Value::String(value.to_string()),
                    encoded: true,
                });
            }
            Self::Lower => value_text(&value).to_lowercase(),
            Self::Upper => value_text(&value).to_uppercase(),
            Self::Trim => value_text(&value).trim().to_owned(),
            Self::Length => {
                return Ok(FilteredValue { value: Value::from(length(&value)), encoded: false });
            }
            Self::Lines => match &value {
                Value::Array(elements) => {
                    elements.iter().map(value_text).collect::<Vec<_>>().join("\n")
                }
                Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::String(_)
                | Value::Object(_) => value_text(&value),
            },
            Self::Path => inside(&value_text(&value))?,
        };
        Ok(FilteredValue { value: Value::String(text), encoded: false })
    }
}

fn length(value: &Value) -> usize {
    match value {
        Value::Array(elements) => elements.len(),
        Value::Object(fields) => fields.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            value_text(value).chars().count()
        }
    }
}

/// Checks that a value is a relative path that stays inside, and returns it
/// with `./` before a leading `-`.
fn inside(path: &str) -> Result<String, String> {
    check_relative_path(path)?;
    Ok(if path.starts_with('-') { format!("./{path}") } else { path.to_owned() })
}

/// Checks that a value is a relative path that stays inside.
pub(super) fn check_relative_path(path: &str) -> Result<(), String> {
    if path.is_empty() {
        return Err("is empty, so it is no path".to_owned());
    }
    if path.contains('\0') {
        return Err("contains a NUL byte, so it is no path".to_owned());
    }
    if path.starts_with('/') {
        return Err("is an absolute path; it must be relative and stay inside".to_owned());
    }
    if path.split('/').any(|part| part == "..") {
        return Err("has a `..` in it; a path must stay inside".to_owned());
    }
    Ok(())
}
