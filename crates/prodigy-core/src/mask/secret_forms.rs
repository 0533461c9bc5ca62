//! The forms in which a secret may appear.

use std::{collections::BTreeSet, fmt::Write as _};

use super::quoting;

/// The shortest value that is hidden at all.
const SHORTEST: usize = 4;
/// The shortest value whose encodings are hidden, too.
const SHORTEST_ENCODED: usize = 6;

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Adds every form of a secret; returns whether the value itself is long enough to be hidden.
pub(crate) fn add_secret_forms(secret: &str, forms: &mut BTreeSet<Vec<u8>>) -> bool {
    // A file ends with a newline that its reader takes off before using the secret.
    let trimmed = secret.trim();
    if trimmed.len() < SHORTEST {
        return false;
    }
    forms.insert(trimmed.into());
    if trimmed.len() >= SHORTEST_ENCODED {
        encode(secret, forms);
        encode(trimmed, forms);
    }
    if trimmed.contains('\n') {
        for line in trimmed.lines().map(str::trim) {
            if line.len() >= SHORTEST_ENCODED {
                encode(line, forms);
            }
        }
    }
    true
}

/// Adds a text and its encodings.
fn encode(text: &str, forms: &mut BTreeSet<Vec<u8>>) {
    let bytes = text.as_bytes();
    forms.insert(bytes.into());
    for alphabet in [STANDARD, URL_SAFE] {
        for offset in 0..3 {
            forms.insert(base64_inside(bytes, offset, alphabet));
        }
        let mut whole = base64(bytes, alphabet);
        forms.insert(whole.clone());
        while !whole.len().is_multiple_of(4) {
            whole.push(b'=');
        }
        forms.insert(whole);
    }
    let digits = hex(bytes);
    forms.insert(digits.to_ascii_uppercase().into());
    forms.insert(digits.into());
    // What a URL leaves alone depends on the part that it stands in and on who encodes it.
    for kept in [
        "-_.~",
        "-_.~/",
        "-_.~!'()*",
        "-_.~$&+=:@",
        "-_.~$&+=:@,/;",
        "-_.~!'()*;/?:@&=+$,#",
        "-_.*",
    ] {
        for upper in [true, false] {
            let encoded = percent(text, kept, upper);
            forms.insert(encoded.replace("%20", "+").into());
            forms.insert(encoded.into());
        }
    }
    for upper in [true, false] {
        forms.insert(escaped(text, |_| true, upper).into());
    }
    let written = json_spellings(text);
    // A document inside a document, as in the transcript of an agent that reads JSON. Of a longer
    // text the lines are hidden one by one, in all these forms.
    if text.contains('\n') {
        forms.insert(json(&json(text)).into());
    } else {
        forms.extend(written.iter().flat_map(|inner| json_spellings(inner)).map(Vec::from));
    }
    forms.extend(written.into_iter().map(Vec::from));
    // Of a longer text the lines are hidden one by one, and these forms keep them apart.
    if !text.contains('\n') {
        forms.extend(quoting::quoted_forms(text).map(Vec::from));
    }
}

/// Encodes without padding.
fn base64(bytes: &[u8], alphabet: &[u8; 64]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() * 4 / 3 + 2);
    for chunk in bytes.chunks(3) {
        let byte = |n: usize| chunk.get(n).copied().map_or(0, u32::from);
        let group = byte(0) << 16 | byte(1) << 8 | byte(2);
        for n in 0..=chunk.len() {
            let digit = (group >> (18 - 6 * n)) & 63;
            out.extend(usize::try_from(digit).ok().and_then(|digit| alphabet.get(digit)));
        }
    }
    out
}

/// Returns the characters that stand for these bytes, and only for these bytes, in the
/// encoding of something longer in which they start at a multiple of three plus `offset`.
fn base64_inside(bytes: &[u8], offset: usize, alphabet: &[u8; 64]) -> Vec<u8> {
    let mut longer = vec![0; offset];
    longer.extend(bytes);
    let mut out = base64(&longer, alphabet);
    if !longer.len().is_multiple_of(3) {
        out.pop();
    }
    let shared = if offset == 0 { 0 } else { offset + 1 };
    out.split_off(shared.min(out.len()))
}

fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string cannot fail.
        write!(out, "{byte:02x}").ok();
    }
    out
}

/// Encodes everything but letters, digits and what is kept.
fn percent(text: &str, kept: &str, upper: bool) -> String {
    let mut out = String::with_capacity(text.len() * 3);
    for c in text.chars() {
        if c.is_ascii_alphanumeric() || kept.contains(c) {
            out.push(c);
            continue;
        }
        for byte in c.encode_utf8(&mut [0; 4]).bytes() {
            // Writing to a string cannot fail.
            if upper { write!(out, "%{byte:02X}") } else { write!(out, "%{byte:02x}") }.ok();
        }
    }
    out
}

/// Returns text as it stands between the quotes of a JSON document.
fn json(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    let inner = quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    inner.unwrap_or(&quoted).to_owned()
}

/// Returns a text as the writers of JSON put it between quotes.
fn json_spellings(text: &str) -> Vec<String> {
    let plain = json(text);
    // Some keep what a page could take for markup out of their documents, and some write it in
    // capitals.
    let markup = |c: char| "<>&\u{2028}\u{2029}".contains(c);
    let careful = |c: char| !c.is_ascii() || "<>&'+`\"".contains(c);
    let ascii = escaped(&plain, |c| !c.is_ascii(), false);
    vec![
        escaped(&plain, markup, false),
        escaped(&plain, |c| !c.is_ascii() || markup(c), false),
        escaped(&plain.replace("\\\"", "\""), careful, true),
        plain.replace('/', "\\/"),
        ascii.replace('/', "\\/"),
        ascii,
        plain,
    ]
}

/// Writes some characters as `\uXXXX`, as many JSON writers do.
fn escaped(text: &str, is_escaped: impl Fn(char) -> bool, upper: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if !is_escaped(c) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            if upper { write!(out, "\\u{unit:04X}") } else { write!(out, "\\u{unit:04x}") }.ok();
        }
    }
    out
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns a text in both alphabets of base64.
    pub(crate) fn encodings(text: &str) -> [String; 2] {
        [STANDARD, URL_SAFE]
            .map(|alphabet| String::from_utf8(base64(text.as_bytes(), alphabet)).unwrap())
    }

    #[test]
    fn base64_is_that_of_the_standard() {
        let texts = ["", "f", "fo", "foo", "foob", "fooba", "foobar", "??>>"];
        let encoded: Vec<String> = texts.map(|text| encodings(text).join("=")).into();
        insta::assert_snapshot!(encoded.join(" "), @"= Zg=Zg Zm8=Zm8 Zm9v=Zm9v Zm9vYg=Zm9vYg Zm9vYmE=Zm9vYmE Zm9vYmFy=Zm9vYmFy Pz8+Pg=Pz8-Pg");
    }
}
