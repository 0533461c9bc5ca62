//! The hashes in a dead letter: what shows that nothing was changed.

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::{Value, value::RawValue};
use sha2::{Digest as _, Sha256};

use super::DeadLetteredItem;
use crate::{failure::FailureKind, ids::hex};

/// The field that is not part of what is hashed.
const RECORD_HASH: &str = "record_hash";

impl DeadLetteredItem {
    /// Sets the hash of the entry after a change.
    pub fn seal(&mut self) {
        // Every field has a form in JSON; an entry without a hash would be taken for damaged.
        let text = serde_json::to_string(self).unwrap_or_default();
        self.record_hash = record_hash(&text).unwrap_or_default();
    }
}

/// Returns the hash of the text of an entry: the SHA-256 of its canonical form, which has no
/// blanks, has the names in order, and does not have the field of the hash itself.
///
/// It is made from the text and not from the fields that this build knows, so that an entry
/// with more fields, or one that was laid out anew, is still whole.
pub(super) fn record_hash(text: &str) -> Option<String> {
    let fields: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
    let mut canonical = String::new();
    for (name, field) in &fields {
        if name != RECORD_HASH {
            // What cannot be understood, such as half a character, counts as it is written.
            let value = serde_json::from_str(field.get());
            let value = value.unwrap_or_else(|_| Value::from(field.get()));
            canonical.push(if canonical.is_empty() { '{' } else { ',' });
            canonical.push_str(&Value::from(name.as_str()).to_string());
            canonical.push(':');
            push(&value, &mut canonical);
        }
    }
    canonical.push('}');
    Some(sha256(canonical.as_bytes()))
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

/// Returns what names the rules that decide over dead letters: `sha256:` and the SHA-256 of
/// their canonical form.
pub(super) fn policy_snapshot() -> String {
    static SNAPSHOT: LazyLock<String> = LazyLock::new(|| {
        let rules = FailureKind::ALL.iter().map(|kind| {
            let action = serde_json::to_value(kind.action()).unwrap_or(Value::Null);
            (kind.code().to_owned(), action)
        });
        let rules = Value::Object(rules.collect());
        let mut canonical = String::new();
        push(&rules, &mut canonical);
        format!("sha256:{}", sha256(canonical.as_bytes()))
    });
    SNAPSHOT.clone()
}

/// Returns the SHA-256 of bytes, as text.
pub(super) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_of_an_entry_does_not_change_its_hash_and_its_content_does() {
        let hash = |text| record_hash(text).unwrap();
        let first = hash(r#"{"a":1,"b":{"y":[1.10,"x"],"x":null},"record_hash":"z"}"#);
        let laid_out = "{\n \"b\": {\"x\": null, \"y\": [1.10, \"\\u0078\"]},\n \"a\": 1 }";
        assert_eq!(hash(laid_out), first);
        for other in [
            r#"{"a":2,"b":{"y":[1.10,"x"],"x":null}}"#,
            r#"{"a":1,"b":{"y":["x",1.10],"x":null}}"#,
            r#"{"a":1,"b":{"y":[1.10,"x"],"x":null},"c":0}"#,
        ] {
            assert_ne!(hash(other), first, "{other}");
        }
        let known = sha256(br#"{"a":1,"b":{"x":null,"y":[1.1,"x"]}}"#);
        assert_eq!(first, known);
    }

    #[test]
    fn half_a_character_can_be_hashed() {
        let hash = record_hash(r#"{"item_data":{"a":"\ud800"}}"#).unwrap();
        assert_eq!(hash, sha256(r#"{"item_data":"{\"a\":\"\\ud800\"}"}"#.as_bytes()));
    }

    #[test]
    fn the_rules_in_force_have_a_name() {
        let name = policy_snapshot();
        assert_eq!(name.len(), "sha256:".len() + 64);
        assert_eq!(name, policy_snapshot());
    }
}
