//! The hashes in a dead letter: what shows that nothing was changed.

use super::DeadLetteredItem;
use crate::canonical;

/// The field that is not part of what is hashed.
const RECORD_HASH: &str = "record_hash";

impl DeadLetteredItem {
    /// Sets the hash of the entry after a change.
    pub fn update_hash(&mut self) {
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
    let canonical = canonical::canonical_json_without(RECORD_HASH, text)?;
    Some(canonical::sha256(canonical.as_bytes()))
}

/// Returns what names a workflow and what its steps find: 16 hexadecimal digits.
pub(super) fn fingerprint(workflow: &str, tool: &str, env: &str) -> String {
    let mut name = canonical::sha256(format!("{workflow}\n{tool}\n{env}").as_bytes());
    name.truncate(16);
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical::sha256;

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
}
