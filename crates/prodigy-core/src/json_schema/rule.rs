//! Demands of a schema, ready to be checked.

use std::collections::BTreeMap;

use regex::{Regex, RegexBuilder};
use serde_json::{Number, Value};

use super::number::canonical;

/// One schema; the schemas inside are known by their numbers.
#[derive(Debug)]
pub(super) enum SchemaRule {
    /// `false`
    Never,
    /// All of these; none for `true`.
    Each(Vec<SchemaConstraint>),
}

/// The demand of one keyword, or of several that belong together.
#[derive(Debug)]
pub(super) enum SchemaConstraint {
    /// `type`
    Types(Vec<JsonType>),
    /// `enum` and `const`, in canonical form.
    Among(Vec<String>),
    /// `required`
    Required(Vec<String>),
    /// `properties`, `patternProperties` and `additionalProperties`
    Properties {
        named: BTreeMap<String, usize>,
        patterns: Vec<(Regex, usize)>,
        others: Option<usize>,
    },
    /// `prefixItems` and `items`
    Elements { first: Vec<usize>, others: Option<usize> },
    /// `uniqueItems`
    Unique,
    /// `minLength`, `minItems` and `minProperties`
    Least(SizeMeasure, usize),
    /// `maxLength`, `maxItems` and `maxProperties`
    Most(SizeMeasure, usize),
    /// `pattern`
    Pattern(Regex),
    /// `minimum` and its like.
    Bound(NumberBound, Number),
    /// `multipleOf`
    MultipleOf(Number),
    /// `allOf` and `$ref`
    All(Vec<usize>),
    /// `anyOf`
    Any(Vec<usize>),
    /// `oneOf`
    One(Vec<usize>),
    /// `not`
    Not(usize),
    /// `if`, `then` and `else`
    Condition { test: usize, then: Option<usize>, otherwise: Option<usize> },
}

impl SchemaConstraint {
    /// Returns the schemas that are asked about the same value.
    pub(super) fn in_place(&self) -> Vec<usize> {
        match self {
            Self::All(rules) | Self::Any(rules) | Self::One(rules) => rules.clone(),
            Self::Not(rule) => vec![*rule],
            Self::Condition { test, then, otherwise } => {
                [Some(*test), *then, *otherwise].into_iter().flatten().collect()
            }
            Self::Types(_)
            | Self::Among(_)
            | Self::Required(_)
            | Self::Properties { .. }
            | Self::Elements { .. }
            | Self::Unique
            | Self::Least(..)
            | Self::Most(..)
            | Self::Pattern(_)
            | Self::Bound(..)
            | Self::MultipleOf(_) => Vec::new(),
        }
    }
}

/// A type of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JsonType {
    Null,
    Boolean,
    Object,
    Array,
    Number,
    Integer,
    String,
}

impl JsonType {
    pub(super) const ALL: [Self; 7] = [
        Self::Null,
        Self::Boolean,
        Self::Object,
        Self::Array,
        Self::Number,
        Self::Integer,
        Self::String,
    ];

    /// Returns the name that schemas use.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Object => "object",
            Self::Array => "array",
            Self::Number => "number",
            Self::Integer => "integer",
            Self::String => "string",
        }
    }

    /// Returns the type of a value; no value is only an integer.
    pub(super) fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Boolean,
            Value::Number(_) => Self::Number,
            Value::String(_) => Self::String,
            Value::Array(_) => Self::Array,
            Value::Object(_) => Self::Object,
        }
    }
}

/// The unit of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SizeMeasure {
    Characters,
    Elements,
    Properties,
}

impl SizeMeasure {
    /// Counts it; other types of values do not have it.
    pub(super) fn of(self, value: &Value) -> Option<usize> {
        match self {
            Self::Characters => value.as_str().map(|text| text.chars().count()),
            Self::Elements => value.as_array().map(Vec::len),
            Self::Properties => value.as_object().map(serde_json::Map::len),
        }
    }

    /// Returns a number of them in words.
    pub(super) fn counted(self, count: usize) -> String {
        let (one, many) = match self {
            Self::Characters => ("character", "characters"),
            Self::Elements => ("element", "elements"),
            Self::Properties => ("property", "properties"),
        };
        format!("{count} {}", if count == 1 { one } else { many })
    }
}

/// Which side of a number, and whether it is included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NumberBound {
    Minimum,
    Maximum,
    Above,
    Below,
}

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
