//! Escaping text for XML.

use std::borrow::Cow;

/// Returns text as it can stand in an attribute; line breaks survive.
pub(crate) fn attribute(value: &str) -> Cow<'_, str> {
    escaped(value, |c| match c {
        '"' => Some("&quot;"),
        '\n' => Some("&#10;"),
        '\t' => Some("&#9;"),
        _ => None,
    })
}

/// Returns text as it can stand between tags.
pub(crate) fn text(value: &str) -> Cow<'_, str> {
    escaped(value, |_| None)
}

/// Escapes what XML gives a meaning, and replaces what it does not allow at all.
fn escaped(value: &str, more: impl Fn(char) -> Option<&'static str>) -> Cow<'_, str> {
    let escape = |c: char| match c {
        '&' => Some("&amp;"),
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        '\r' => Some("&#13;"),
        '\n' | '\t' => more(c),
        '\u{fffe}' | '\u{ffff}' => Some("\u{fffd}"),
        // Most control characters may not occur, not even escaped.
        c if c.is_control() => Some("\u{fffd}"),
        c => more(c),
    };
    if value.chars().all(|c| escape(c).is_none()) {
        return Cow::Borrowed(value);
    }
    let mut safe = String::with_capacity(value.len() + 16);
    for c in value.chars() {
        match escape(c) {
            Some(instead) => safe.push_str(instead),
            None => safe.push(c),
        }
    }
    Cow::Owned(safe)
}
