//! JSON pointers (RFC 6901).

use serde_json::Value;

/// Adds a name to a pointer.
pub(super) fn push(pointer: &mut String, name: &str) {
    pointer.push('/');
    pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
}

/// Returns a pointer with a name added.
pub(super) fn join(pointer: &str, name: &str) -> String {
    let mut joined = pointer.to_owned();
    push(&mut joined, name);
    joined
}

/// Follows the part of a reference behind its `#`; returns the pointer as it is
/// written everywhere else, and what it leads to.
pub(super) fn follow<'v>(root: &'v Value, fragment: &str) -> Option<(String, &'v Value)> {
    let mut pointer = String::new();
    let mut value = root;
    for part in fragment.split('/').skip(1) {
        let name = percent_decoded(part)?.replace("~1", "/").replace("~0", "~");
        value = match value {
            Value::Object(fields) => fields.get(&name)?,
            Value::Array(elements) => elements.get(name.parse::<usize>().ok()?)?,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
        };
        push(&mut pointer, &name);
    }
    Some((pointer, value))
}

/// Undoes `%20`, which references may contain because they are addresses.
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        bytes.extend_from_slice(before.as_bytes());
        let (digits, after) = after.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = after;
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).ok()
}
