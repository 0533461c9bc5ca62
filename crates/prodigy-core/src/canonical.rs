//! The one form of a JSON value that is hashed: no blanks, names in order.

use std::collections::BTreeMap;

use serde_json::{Value, value::RawValue};
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
