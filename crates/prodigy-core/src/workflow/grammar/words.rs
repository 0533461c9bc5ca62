//! Shapes and values in words, for messages and the reference.

use super::shape::{LARGEST, Shape};
use crate::{
    failure::ReasonCode,
    yaml::{YamlNode, YamlValue},
};

/// The longest piece of a file that a message repeats.
const SHOWN: usize = 40;

/// Returns what a shape asks for, in words that fit after "must be".
pub(super) fn expected(shape: &Shape) -> String {
    match shape {
        Shape::Bool => "`true` or `false`".to_owned(),
        Shape::Text | Shape::Template => "text".to_owned(),
        Shape::Script => "a command".to_owned(),
        Shape::Expression => "an expression".to_owned(),
        Shape::JsonPath => "a path such as `$.items[*]`".to_owned(),
        Shape::Integer { min, max } => match (*min, *max) {
            (min, LARGEST | i64::MAX) => format!("a whole number from {min}"),
            (min, max) => format!("a whole number from {min} to {max}"),
        },
        Shape::Number { min, max } if *max < f64::MAX => format!("a number from {min} to {max}"),
        Shape::Number { min, .. } => format!("a number from {min}"),
        Shape::Duration => "a duration such as `30s`, or seconds".to_owned(),
        Shape::Word(_) | Shape::WordOr { .. } | Shape::OneOf(_) => either(options(shape)),
        Shape::List(_) | Shape::NonEmptyList(_) => "a list".to_owned(),
        Shape::Table { .. } | Shape::Record(_) | Shape::Tagged(_) => "a mapping".to_owned(),
        Shape::JsonSchema => "a JSON Schema".to_owned(),
        Shape::Any => "any value".to_owned(),
    }
}

/// Returns the things that a shape lets one choose from.
fn options(shape: &Shape) -> Vec<String> {
    if let Shape::OneOf(shapes) = shape {
        return shapes.iter().flat_map(options).collect();
    }
    if let Shape::Word(words) = shape {
        if *words == ReasonCode::CODES {
            // Nobody reads a sentence of more than fifty codes; there is a page about them.
            return vec!["a reason code such as `timeout`".to_owned()];
        }
        return words.iter().map(|word| format!("`{word}`")).collect();
    }
    if let Shape::WordOr { words, prefix, rest } = shape {
        let other = format!("`{prefix}{rest}`");
        return words.iter().map(|word| format!("`{word}`")).chain([other]).collect();
    }
    vec![expected(shape)]
}

/// Joins words as in "a, b or c"; words that come twice are said once.
pub(super) fn either(words: impl IntoIterator<Item = String>) -> String {
    let mut unique: Vec<String> = Vec::new();
    for word in words {
        if !unique.contains(&word) {
            unique.push(word);
        }
    }
    match unique.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

/// Returns what a value is, in words that fit after "found".
pub(super) fn found(node: &YamlNode) -> String {
    match (&node.value, node.scalar_text()) {
        (YamlValue::String(text), _) if text.trim().is_empty() => "empty text".to_owned(),
        (YamlValue::String(text), _) if looks_like_a_number(text) || is_bool(text) => {
            format!("the text `{text}`")
        }
        (_, Some(text)) => format!("`{}`", shortened(&text)),
        (_, None) => node.kind_name().to_owned(),
    }
}

/// Returns true if the text would be `true` or `false` without quotes.
pub(super) fn is_bool(text: &str) -> bool {
    text == "true" || text == "false"
}

/// Returns true if the text would be a number without quotes.
pub(super) fn looks_like_a_number(text: &str) -> bool {
    text.len() <= SHOWN && text.parse::<f64>().is_ok_and(f64::is_finite)
}

/// Returns the first line of text, cut to a length that fits in a message.
pub(super) fn shortened(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    if line.len() == text.trim_end().len() && line.chars().count() <= SHOWN {
        return line.to_owned();
    }
    line.chars().take(SHOWN - 1).chain(['…']).collect()
}
