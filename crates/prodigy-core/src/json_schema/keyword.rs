//! The keywords of a schema and what may stand behind them.

use regex::{Regex, RegexBuilder};
use serde_json::{Number, Value};

use super::{
    number::canonical,
    rule::{JsonType, NumberBound, SchemaConstraint, SizeMeasure},
};

/// The largest compiled pattern, in bytes.
const PATTERN_SIZE: usize = 1 << 20;

/// Keywords that say something about a schema and demand nothing of a value.
pub(super) const ANNOTATIONS: &[&str] = &[
    "$comment",
    "$schema",
    "default",
    "deprecated",
    "description",
    "examples",
    "format",
    "readOnly",
    "title",
    "writeOnly",
];

/// Keywords that hold other schemas, or that only mean something beside others.
pub(super) const HOLDERS: &[&str] = &[
    "$defs",
    "$id",
    "$ref",
    "additionalProperties",
    "allOf",
    "anyOf",
    "definitions",
    "else",
    "if",
    "items",
    "not",
    "oneOf",
    "patternProperties",
    "prefixItems",
    "properties",
    "then",
];

/// Keywords that stand for themselves; see [`demand`].
pub(super) const SIMPLE: &[&str] = &[
    "const",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
    "required",
    "type",
    "uniqueItems",
];

/// Reads a keyword that stands for itself; an error says what it must be.
pub(super) fn demand(keyword: &str, value: &Value) -> Option<Result<SchemaConstraint, String>> {
    let least = |measure| count(value).map(|count| SchemaConstraint::Least(measure, count));
    let most = |measure| count(value).map(|count| SchemaConstraint::Most(measure, count));
    let bound = |bound| number(value).map(|limit| SchemaConstraint::Bound(bound, limit));
    Some(match keyword {
        "type" => types(value).map(SchemaConstraint::Types),
        "enum" => alternatives(value).map(SchemaConstraint::Among),
        "const" => Ok(SchemaConstraint::Among(vec![canonical(value)])),
        "required" => texts(value).map(SchemaConstraint::Required),
        "uniqueItems" => match value {
            Value::Bool(true) => Ok(SchemaConstraint::Unique),
            Value::Bool(false) => Ok(SchemaConstraint::All(Vec::new())),
            Value::Null
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => Err("must be `true` or `false`".to_owned()),
        },
        "minLength" => least(SizeMeasure::Characters),
        "maxLength" => most(SizeMeasure::Characters),
        "minItems" => least(SizeMeasure::Elements),
        "maxItems" => most(SizeMeasure::Elements),
        "minProperties" => least(SizeMeasure::Properties),
        "maxProperties" => most(SizeMeasure::Properties),
        "pattern" => text(value).and_then(pattern).map(SchemaConstraint::Pattern),
        "minimum" => bound(NumberBound::Minimum),
        "maximum" => bound(NumberBound::Maximum),
        "exclusiveMinimum" => bound(NumberBound::Above),
        "exclusiveMaximum" => bound(NumberBound::Below),
        "multipleOf" => number(value).and_then(|number| {
            let is_positive = number.as_f64().is_some_and(|number| number > 0.0);
            if is_positive {
                Ok(SchemaConstraint::MultipleOf(number))
            } else {
                Err("must be more than 0".to_owned())
            }
        }),
        _ => return None,
    })
}

/// Returns a text, or what is wrong.
pub(super) fn text(value: &Value) -> Result<&str, String> {
    value.as_str().ok_or_else(|| "must be text".to_owned())
}

/// Compiles a pattern, or says why it cannot be used.
pub(super) fn pattern(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(pattern).size_limit(PATTERN_SIZE).build().map_err(|error| {
        if matches!(error, regex::Error::CompiledTooBig(_)) {
            return "is too large a pattern".to_owned();
        }
        // The first lines of the message draw the pattern again.
        let text = error.to_string();
        let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
        format!("is not a pattern that can be used: {reason}")
    })
}

fn number(value: &Value) -> Result<Number, String> {
    if let Value::Number(number) = value {
        Ok(number.clone())
    } else {
        Err("must be a number".to_owned())
    }
}

fn count(value: &Value) -> Result<usize, String> {
    let whole = value.as_u64().or_else(|| {
        // `3.0` is a whole number, too.
        let float = value.as_f64().filter(|number| *number >= 0.0 && number.fract() == 0.0)?;
        format!("{float:.0}").parse().ok()
    });
    let whole = whole.and_then(|count| usize::try_from(count).ok());
    whole.ok_or_else(|| "must be a whole number and not negative".to_owned())
}

fn texts(value: &Value) -> Result<Vec<String>, String> {
    let elements = value.as_array().map(|elements| {
        elements.iter().map(|element| element.as_str().map(str::to_owned)).collect::<Option<_>>()
    });
    elements.flatten().ok_or_else(|| "must be a list of texts".to_owned())
}

fn alternatives(value: &Value) -> Result<Vec<String>, String> {
    let elements = value.as_array().filter(|elements| !elements.is_empty());
    let elements = elements.ok_or_else(|| "must be a list with at least one value".to_owned())?;
    Ok(elements.iter().map(canonical).collect())
}

fn types(value: &Value) -> Result<Vec<JsonType>, String> {
    let one = |value: &Value| JsonType::ALL.into_iter().find(|t| Some(t.name()) == value.as_str());
    let types: Option<Vec<JsonType>> = match value {
        Value::Array(elements) => elements.iter().map(one).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            one(value).map(|found| vec![found])
        }
    };
    types.filter(|types| !types.is_empty()).ok_or_else(|| {
        let names = JsonType::ALL.map(|known| format!("`{}`", known.name()));
        format!("must be one of {}, or a list of them", names.join(", "))
    })
}
