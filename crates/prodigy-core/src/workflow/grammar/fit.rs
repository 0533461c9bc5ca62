//! Check of a single value against its shape.

use super::{
    shape::{KeyNames, Shape},
    words::{is_bool, looks_like_a_number, shortened},
};
use crate::nearest::did_you_mean;
use crate::yaml::{YamlNode, YamlValue};

/// The three forms that any value has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Scalar,
    List,
    Mapping,
}

/// Returns the form of a value.
pub(super) fn class_of(node: &YamlNode) -> Class {
    match node.value {
        YamlValue::Sequence(_) => Class::List,
        YamlValue::Mapping(_) => Class::Mapping,
        YamlValue::Null
        | YamlValue::Bool(_)
        | YamlValue::Integer(_)
        | YamlValue::Float(_)
        | YamlValue::String(_) => Class::Scalar,
    }
}

/// Returns what a value of this shape is; `None` for anything.
pub(super) fn class(shape: &Shape) -> Option<Class> {
    match shape {
        Shape::List(_) | Shape::NonEmptyList(_) => Some(Class::List),
        Shape::Table { .. } | Shape::Record(_) | Shape::Tagged(_) => Some(Class::Mapping),
        Shape::OneOf(_) | Shape::JsonSchema | Shape::Any => None,
        Shape::Bool
        | Shape::Text
        | Shape::Template
        | Shape::Script
        | Shape::Expression
        | Shape::JsonPath
        | Shape::Integer { .. }
        | Shape::Number { .. }
        | Shape::Duration
        | Shape::Word(_)
        | Shape::WordOr { .. } => Some(Class::Scalar),
    }
}

/// Returns true if a value fits its shape; always false for shapes of lists and mappings.
pub(super) fn fits(shape: &Shape, node: &YamlNode) -> bool {
    let text = node.scalar_text();
    match shape {
        Shape::Bool => node.as_bool().is_some(),
        Shape::Text | Shape::Template => text.is_some(),
        Shape::Script | Shape::Expression | Shape::JsonPath => {
            text.is_some_and(|text| !text.trim().is_empty())
        }
        Shape::Integer { min, max } => {
            node.as_i64().is_some_and(|number| (*min..=*max).contains(&number))
        }
        Shape::Number { min, max } => {
            node.as_f64().is_some_and(|number| (*min..=*max).contains(&number))
        }
        Shape::Duration => match node.as_f64() {
            Some(seconds) => seconds >= 0.0 && seconds.is_finite(),
            None => node.as_str().is_some_and(|text| !text.trim().is_empty()),
        },
        Shape::Word(words) => text.is_some_and(|text| words.contains(&text.as_str())),
        Shape::WordOr { words, prefix, rest } => text.is_some_and(|text| {
            words.contains(&text.as_str())
                || text.strip_prefix(prefix).is_some_and(|chosen| match *rest {
                    "N" => chosen.parse::<u32>().is_ok_and(|number| number > 0),
                    _ => !chosen.trim().is_empty(),
                })
        }),
        Shape::JsonSchema => node.as_mapping().is_some() || node.as_bool().is_some(),
        Shape::Any => true,
        Shape::OneOf(shapes) => shapes.iter().any(|shape| fits(shape, node)),
        Shape::List(_)
        | Shape::NonEmptyList(_)
        | Shape::Table { .. }
        | Shape::Record(_)
        | Shape::Tagged(_) => false,
    }
}

/// Returns what to do about a value of the wrong shape.
pub(super) fn help_for(shape: &Shape, node: &YamlNode) -> Option<String> {
    let text = node.scalar_text()?;
    if node.as_str().is_some_and(is_bool) && matches!(shape, Shape::Bool) {
        return Some("write it without quotes".to_owned());
    }
    match shape {
        Shape::Word(words) | Shape::WordOr { words, .. } => {
            did_you_mean(&text, words.iter().copied())
        }
        Shape::OneOf(shapes) => shapes.iter().find_map(|shape| help_for(shape, node)),
        Shape::Integer { .. } | Shape::Number { .. } if node.as_str().is_some() => {
            let fits = looks_like_a_number(&text) && text.len() < 19;
            fits.then(|| "write the number without quotes".to_owned())
        }
        Shape::Bool => match text.to_lowercase().as_str() {
            "yes" | "on" | "true" => Some("write `true`".to_owned()),
            "no" | "off" | "false" => Some("write `false`".to_owned()),
            _ => None,
        },
        Shape::Text
        | Shape::Template
        | Shape::Script
        | Shape::Expression
        | Shape::JsonPath
        | Shape::Integer { .. }
        | Shape::Number { .. }
        | Shape::Duration
        | Shape::List(_)
        | Shape::NonEmptyList(_)
        | Shape::Table { .. }
        | Shape::Record(_)
        | Shape::Tagged(_)
        | Shape::JsonSchema
        | Shape::Any => None,
    }
}

/// Returns what is wrong with a key that the author chose.
pub(super) fn wrong_name(names: KeyNames, name: &str) -> Option<String> {
    let is_identifier = || {
        let mut letters = name.chars();
        letters.next().is_some_and(|letter| letter.is_ascii_alphabetic() || letter == '_')
            && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    let shown = shortened(name);
    match names {
        KeyNames::Free => name.trim().is_empty().then(|| "a name is empty".to_owned()),
        KeyNames::Variable => (!is_identifier()).then(|| {
            format!("`{shown}` cannot be the name of a variable: only letters, digits and `_`, no digit first")
        }),
        KeyNames::Environment => (name.is_empty() || name.contains(['=', '\0']))
            .then(|| format!("`{shown}` cannot be the name of an environment variable")),
        KeyNames::ExitCode => (!name.parse::<u8>().is_ok_and(|code| code > 0))
            .then(|| format!("`{shown}` is not an exit code from 1 to 255")),
    }
}
