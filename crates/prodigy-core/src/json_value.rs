//! JSON values: the one form that is hashed, and how two of them compare.

use std::{borrow::Cow, cmp::Ordering, collections::BTreeMap};

use serde_json::{Number, Value, value::RawValue};
use sha2::{Digest as _, Sha256};

use crate::ids::hex;

/// Returns the canonical form of the text of an object, without one of its fields.
///
/// It is made from the text and not from the fields that this build knows, so that an object
/// with more fields, or one that was laid out anew, still has the same form.
pub(crate) fn canonical_json_without(field: &str, text: &str) -> Option<String> {
    let fields: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
    let mut canonical = String::new();
    for (name, value) in fields.iter().filter(|(name, _)| *name != field) {
        // What cannot be understood, such as half a character, counts as it is written.
        let read = serde_json::from_str(value.get());
        let value = read.unwrap_or_else(|_| Value::from(value.get()));
        canonical.push(if canonical.is_empty() { '{' } else { ',' });
        canonical.push_str(&Value::from(name.as_str()).to_string());
        canonical.push(':');
        push(&value, &mut canonical);
    }
    if canonical.is_empty() {
        canonical.push('{');
    }
    canonical.push('}');
    Some(canonical)
}

/// Returns the canonical form of a value.
pub(crate) fn canonical_json(value: &Value) -> String {
    let mut canonical = String::new();
    push(value, &mut canonical);
    canonical
}

/// Appends the canonical form of a value.
fn push(value: &Value, text: &mut String) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            text.push_str(&value.to_string());
        }
        Value::Array(values) => {
            text.push('[');
            for (at, value) in values.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                push(value, text);
            }
            text.push(']');
        }
        Value::Object(fields) => {
            let sorted: BTreeMap<_, _> = fields.iter().collect();
            text.push('{');
            for (at, (name, value)) in sorted.into_iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                push(value, text);
            }
            text.push('}');
        }
    }
}

/// Returns the SHA-256 of bytes, as text.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns whether two values are equal, reading text as a number or a truth value if
/// the other side is one.
pub(crate) fn loosely_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| loosely_equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| loosely_equal(a, b)))
        }
        (a, b) => {
            let (a, b) = alike(a, b);
            match (a.as_ref(), b.as_ref()) {
                (Value::Number(a), Value::Number(b)) => numbers(a, b) == Ordering::Equal,
                (a, b) => a == b,
            }
        }
    }
}

/// Returns which of two values is greater, if they are two numbers or two texts.
pub(crate) fn loosely_cmp(a: &Value, b: &Value) -> Option<Ordering> {
    let (a, b) = alike(a, b);
    match (a.as_ref(), b.as_ref()) {
        (Value::Number(a), Value::Number(b)) => Some(numbers(a, b)),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

/// Puts any two values in order: `null`, false, true, numbers, texts, lists, mappings.
///
/// Texts go by the code points of their characters. Lists go by their first value that
/// differs; mappings likewise, by keys in order. Unlike [`loosely_equal`], a text is never read as
/// anything else: the order of three values must not depend on which two are looked at.
pub(crate) fn total_cmp(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Number(a), Value::Number(b)) => numbers(a, b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            let differ = a.iter().zip(b).map(|(a, b)| total_cmp(a, b)).find(|order| order.is_ne());
            differ.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => {
            let sorted = |map: &serde_json::Map<String, Value>| {
                let mut fields: Vec<(String, Value)> =
                    map.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
                fields.sort_by(|(a, _), (b, _)| a.cmp(b));
                fields
            };
            let (a, b) = (sorted(a), sorted(b));
            let differ = a
                .iter()
                .zip(&b)
                .map(|((ka, a), (kb, b))| ka.cmp(kb).then_with(|| total_cmp(a, b)))
                .find(|order| order.is_ne());
            differ.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (a, b) => rank(a).cmp(&rank(b)),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) => 4,
        Value::Object(_) => 5,
    }
}

/// Reads a text as what the other side is, if it can be.
fn alike<'v>(a: &'v Value, b: &'v Value) -> (Cow<'v, Value>, Cow<'v, Value>) {
    match (a, b) {
        (Value::String(text), Value::Number(_) | Value::Bool(_)) => {
            (read(a, text, b), Cow::Borrowed(b))
        }
        (Value::Number(_) | Value::Bool(_), Value::String(text)) => {
            (Cow::Borrowed(a), read(b, text, a))
        }
        (a, b) => (Cow::Borrowed(a), Cow::Borrowed(b)),
    }
}

/// Reads a text as a number or a truth value; it stays itself if it is none.
fn read<'v>(value: &'v Value, text: &str, like: &Value) -> Cow<'v, Value> {
    let text = text.trim();
    let read = match (like, text) {
        (Value::Bool(_), "true") => Some(Value::Bool(true)),
        (Value::Bool(_), "false") => Some(Value::Bool(false)),
        (Value::Number(_), text) => parse_number(text).map(Value::Number),
        _ => None,
    };
    read.map_or(Cow::Borrowed(value), Cow::Owned)
}

/// Reads a number as JSON writes them, with every digit that a float can hold.
pub(crate) fn parse_number(text: &str) -> Option<Number> {
    let number: Number = text.parse().ok()?;
    // The parser of JSON is fast, but the last digit of a float may be off.
    if number.is_f64() { Number::from_f64(text.parse().ok()?) } else { Some(number) }
}

/// Compares numbers exactly, also whole ones too large for a float.
fn numbers(a: &Number, b: &Number) -> Ordering {
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(a), None) => whole_and_float(a, float(b)),
        (None, Some(b)) => whole_and_float(b, float(a)).reverse(),
        (None, None) => float(a).total_cmp(&float(b)),
    }
}

fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

/// Returns a number as a float; negative zero is zero.
fn float(number: &Number) -> f64 {
    number.as_f64().unwrap_or_default() + 0.0
}

fn whole_and_float(a: i128, b: f64) -> Ordering {
    /// Beyond every whole number that JSON values hold.
    const BEYOND: f64 = 1e20;
    if b >= BEYOND {
        return Ordering::Less;
    }
    if b <= -BEYOND {
        return Ordering::Greater;
    }
    #[expect(clippy::cast_possible_truncation, reason = "the fraction is compared below")]
    let truncated = b as i128;
    a.cmp(&truncated).then_with(|| 0.0_f64.total_cmp(&(b.fract() + 0.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_of_a_text_does_not_change_its_form() {
        let form = |text| canonical_json_without("hash", text).unwrap();
        let first = form(r#"{"a":1,"b":{"y":[1.10,"x"],"x":null},"hash":"z"}"#);
        assert_eq!(first, r#"{"a":1,"b":{"x":null,"y":[1.1,"x"]}}"#);
        assert_eq!(
            form("{\n \"b\": {\"x\": null, \"y\": [1.10, \"\\u0078\"]},\n \"a\": 1 }"),
            first
        );
    }

    #[test]
    fn an_object_with_nothing_left_is_empty() {
        assert_eq!(canonical_json_without("hash", r#"{"hash":1}"#).unwrap(), "{}");
        assert_eq!(canonical_json_without("hash", "[]"), None);
    }
}
