//! Reading only what is asked for, from JSON that others write and change.
//!
//! A field of another type than expected is a field that is not there: streams change with
//! every release of an agent, and one surprise must not cost the rest of a line.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};
use serde_json::value::RawValue;

use crate::text::one_line;

/// A value that is read later or never.
pub(super) type RawField<'a> = Option<&'a RawValue>;

/// Defines an object of which only some fields matter, each read later or never.
macro_rules! partial {
    ($(#[doc = $doc:literal])+ $name:ident { $($field:ident $(= $wire:literal)?),* $(,)? }) => {
        $(#[doc = $doc])+
        #[derive(::serde::Deserialize)]
        struct $name<'a> {
            $(
                #[serde(borrow $(, rename = $wire)?)]
                $field: $crate::agent::json::RawField<'a>,
            )*
        }
    };
}
pub(super) use partial;

/// Reads an object of which only the fields of `T` matter.
pub(super) fn read<'a, T: Deserialize<'a>>(raw: RawField<'a>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}

/// Returns a text. Halves of characters, which JavaScript leaves where it cuts, are replaced.
pub(super) fn text(raw: RawField<'_>) -> Option<Cow<'_, str>> {
    let whole = raw?.get();
    let inner = whole.strip_prefix('"')?.strip_suffix('"')?;
    if !inner.contains('\\') {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str(whole).ok().map(|LossyText(text)| Cow::Owned(text))
}

/// Returns a text that is kept and shown in a line.
pub(super) fn line(raw: RawField<'_>) -> Option<String> {
    const LONGEST: usize = 300;
    text(raw).map(|text| one_line(&text, LONGEST))
}

/// Returns the name of a session, if it can be one: it becomes a part of paths and arguments.
pub(super) fn session(raw: RawField<'_>) -> Option<String> {
    text(raw).filter(|name| is_session_name(name)).map(Cow::into_owned)
}

/// Returns whether a text can be the name of a session: letters, digits, `-` and `_`.
pub fn is_session_name(name: &str) -> bool {
    const LONGEST: usize = 128;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    name.len() <= LONGEST
        && name.bytes().all(is_plain)
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
}

/// Returns whether a text is there and is the given one.
pub(super) fn is_text(raw: RawField<'_>, word: &str) -> bool {
    text(raw).is_some_and(|text| text == word)
}

/// Returns a number of what can be counted.
pub(super) fn count(raw: RawField<'_>) -> Option<u64> {
    let written = raw?.get();
    written.parse().ok().or_else(|| {
        // JavaScript has one kind of number, and may write a count as `1e3` or `2.0`.
        let number: f64 = written.parse().ok()?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the cast saturates, and the sign was looked at"
        )]
        (number.is_finite() && number >= 0.0).then_some(number as u64)
    })
}

/// Returns a number that fits into 32 bits.
pub(super) fn count_u32(raw: RawField<'_>) -> Option<u32> {
    count(raw).map(|count| u32::try_from(count).unwrap_or(u32::MAX))
}

/// Returns an amount that is not negative, and of which sums are sums: nobody pays so much.
pub(super) fn non_negative(raw: RawField<'_>) -> Option<f64> {
    const GREATEST: f64 = 1e9;
    let number: f64 = raw?.get().parse().ok()?;
    (0.0..=GREATEST).contains(&number).then_some(number)
}

/// Returns yes or no.
pub(super) fn flag(raw: RawField<'_>) -> Option<bool> {
    raw?.get().parse().ok()
}

/// A text whose halves of characters are replaced.
struct LossyText(String);

impl<'de> Deserialize<'de> for LossyText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(LossyTextVisitor)
    }
}

struct LossyTextVisitor;

impl Visitor<'_> for LossyTextVisitor {
    type Value = LossyText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<LossyText, E> {
        Ok(LossyText(String::from_utf8_lossy(bytes).into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn texts_are_read_with_escapes_and_halves_of_characters() {
        let read = |json: &str| text(Some(&raw(json))).map(Cow::into_owned);
        assert_eq!(read(r#""plain""#).as_deref(), Some("plain"));
        assert_eq!(read(r#""a\n\"b\" \u00b7 \ud83d\ude00""#).as_deref(), Some("a\n\"b\" · 😀"));
        assert_eq!(read(r#""cut \ud83d""#).as_deref(), Some("cut \u{fffd}\u{fffd}\u{fffd}"));
        assert_eq!(read("7"), None);
        assert_eq!(read("null"), None);
    }

    #[test]
    fn a_session_has_a_plain_name() {
        let read = |json: &str| session(Some(&raw(json)));
        let uuid = "11111111-2222-4333-8444-555555555555";
        assert_eq!(read(&format!("\"{uuid}\"")).as_deref(), Some(uuid));
        assert_eq!(read(r#""thread_1A""#).as_deref(), Some("thread_1A"));
        for bad in ["", "../up", "a/b", "..", "--flag", "_a", "a b", "a\\nb", "a.b", "é"] {
            assert_eq!(read(&format!("\"{bad}\"")), None, "{bad}");
        }
        assert_eq!(read(&format!("\"{}\"", "a".repeat(129))), None);
    }

    #[test]
    fn numbers_are_read_as_javascript_writes_them() {
        let read = |json: &str| count(Some(&raw(json)));
        assert_eq!(read("17"), Some(17));
        assert_eq!(read("1e3"), Some(1000));
        assert_eq!(read("2.0"), Some(2));
        assert_eq!(read("-1"), None);
        assert_eq!(read(r#""17""#), None);
        assert_eq!(count_u32(Some(&raw("99999999999"))), Some(u32::MAX));
        assert_eq!(non_negative(Some(&raw("8e-05"))), Some(0.000_08));
        assert_eq!(
            ["-1", "1e308", "NaN"]
                .map(|it| non_negative(RawValue::from_string(it.to_owned()).ok().as_deref())),
            [None; 3]
        );
        assert_eq!(flag(Some(&raw("true"))), Some(true));
        assert_eq!(flag(Some(&raw("1"))), None);
    }
}
