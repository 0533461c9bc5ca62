//! Keeping secrets out of everything that is stored or shown.
//!
//! Masking goes by value, not by name: whatever a program prints, a known secret
//! in it becomes `***`, also in the encodings that programs commonly put it in.
//! A secret may be split over any number of chunks; only the bytes that could be
//! the beginning of one are held back.

mod automaton;
mod env_secrets;
mod quoting;
mod secret_forms;
mod stream;

use std::{borrow::Cow, collections::BTreeSet, fmt, sync::Arc};

use serde_json::{Map, Value};

use automaton::Automaton;

pub use env_secrets::env_secrets;
pub use stream::MaskStream;

/// The replacement of a secret.
const HIDDEN: &str = "***";

/// Replaces secrets in text, in JSON and in streams of bytes.
#[derive(Clone, Default)]
pub struct Mask {
    automaton: Option<Arc<Automaton>>,
    too_short: Vec<usize>,
}

impl Mask {
    /// Creates a mask for the values of some secrets.
    ///
    /// Hidden are the value itself, its lines, and what base64, hexadecimal, percent
    /// encoding, JSON, HTML, Python's `repr` and the quoting of shells make of them. A value of four or five bytes is hidden only as it
    /// is, because its encodings would be found by chance; a shorter one is not hidden at
    /// all, see [`Mask::too_short`].
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let mut patterns = BTreeSet::new();
        let mut too_short = Vec::new();
        for (number, secret) in secrets.into_iter().enumerate() {
            if !secret.is_empty() && !secret_forms::add_secret_forms(&secret, &mut patterns) {
                too_short.push(number);
            }
        }
        let automaton = (!patterns.is_empty()).then(|| Arc::new(Automaton::new(&patterns)));
        Self { automaton, too_short }
    }

    /// Returns which secrets are too short to be hidden, by their place in the list that the
    /// mask was made of, from 0. The caller knows their names and can warn.
    pub fn too_short(&self) -> &[usize] {
        &self.too_short
    }

    /// Returns whether there is nothing to hide.
    pub fn is_empty(&self) -> bool {
        self.automaton.is_none()
    }

    /// Returns text without secrets.
    pub fn mask_str(&self, text: &str) -> String {
        self.masked(text).into_owned()
    }

    /// Removes secrets from a JSON value: from its texts, its keys and its numbers.
    pub fn mask_value(&self, value: &mut Value) {
        if self.is_empty() {
            return;
        }
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => {
                let text = number.to_string();
                let masked = self.mask_str(&text);
                if masked != text {
                    *value = Value::String(masked);
                }
            }
            Value::String(text) => *text = self.mask_str(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.mask_value(value)),
            Value::Object(fields) => {
                let mut masked = Map::new();
                for (key, mut value) in std::mem::take(fields) {
                    self.mask_value(&mut value);
                    masked.insert(self.mask_str(&key), value);
                }
                *fields = masked;
            }
        }
    }

    /// Returns a filter for bytes that come in pieces.
    pub fn stream(&self) -> MaskStream {
        MaskStream::new(self.automaton.clone())
    }

    fn masked<'text>(&self, text: &'text str) -> Cow<'text, str> {
        let mut stream = self.stream();
        match stream.push(text.as_bytes()) {
            // There is nothing to hide.
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(mut bytes) => {
                bytes.extend(stream.finish());
                // Secrets are whole characters, so what is left are whole characters.
                Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
            }
        }
    }
}

impl fmt::Debug for Mask {
    /// Shows that there are secrets, never which.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mask").field("is_empty", &self.is_empty()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn mask(secrets: &[&str]) -> Mask {
        Mask::new(secrets.iter().map(|secret| (*secret).to_owned()))
    }

    #[test]
    fn a_secret_is_hidden_in_every_common_encoding() {
        let mask = mask(&["pa\"ss w/ö?rd"]);
        let lines = [
            "raw        pa\"ss w/ö?rd.",
            "base64     cGEic3Mgdy/Dtj9yZA==.",
            "url-safe   cGEic3Mgdy_Dtj9yZA.",
            "inside +1  eHBhInNzIHcvw7Y/cmR5eQ==.",
            "inside +2  eHhwYSJzcyB3L8O2P3JkeQ==.",
            "percent    pa%22ss%20w%2F%C3%B6%3Frd.",
            "lower      pa%22ss%20w%2f%c3%b6%3frd.",
            "form       pa%22ss+w%2F%C3%B6%3Frd.",
            "path       pa%22ss%20w/%C3%B6?rd.",
            "json       pa\\\"ss w/ö?rd.",
            "json ascii pa\\\"ss w/\\u00f6?rd.",
            "json slash pa\\\"ss w\\/ö?rd.",
            "json twice pa\\\\\\\"ss w/ö?rd.",
            "hex        706122737320772fc3b63f7264.",
            "upper hex  706122737320772FC3B63F7264.",
            "harmless   pa\"ss w/o?rd.",
        ];
        insta::assert_snapshot!(mask.mask_str(&lines.join("\n")), @r#"
        raw        ***.
        base64     ***.
        url-safe   ***.
        inside +1  eH***R5eQ==.
        inside +2  eHh***eQ==.
        percent    ***.
        lower      ***.
        form       ***.
        path       ***.
        json       ***.
        json ascii ***.
        json slash ***.
        json twice ***.
        hex        ***.
        upper hex  ***.
        harmless   pa"ss w/o?rd.
        "#);
    }

    #[test]
    fn a_secret_is_hidden_however_json_is_escaped() {
        let secret = "hunter22&<x>\"q'é/k";
        let mask = mask(&[secret]);
        let all = |upper: bool| {
            let digits = secret.encode_utf16().map(|unit| format!("\\u{unit:04x}"));
            let all = digits.collect::<String>();
            if upper { all.to_uppercase().replace("\\U", "\\u") } else { all }
        };
        let lines = [
            r#"markup   hunter22\u0026\u003cx\u003e\"q'é/k."#,
            r#"and more hunter22\u0026\u003cx\u003e\"q'\u00e9/k."#,
            r"capitals hunter22\u0026\u003Cx\u003E\u0022q\u0027\u00E9/k.",
            &format!("lower    {}.", all(false)),
            &format!("upper    {}.", all(true)),
        ];
        insta::assert_snapshot!(mask.mask_str(&lines.join("\n")), @r"
        markup   ***.
        and more ***.
        capitals ***.
        lower    ***.
        upper    ***.
        ");
    }

    #[test]
    fn each_line_of_a_secret_is_hidden_but_not_its_brackets() {
        let mask = mask(&["{\n  \"key\": \"abcdefgh\"\n}\n"]);
        let text = "{\n  \"key\": \"abcdefgh\"\n}\n; \"key\": \"abcdefgh\"; {}";
        insta::assert_snapshot!(mask.mask_str(text), @"***; ***; {}");
    }

    #[test]
    fn a_short_secret_is_hidden_only_as_it_is_or_reported() {
        let mask = mask(&["", "abc", "abcd\n", "long enough", "  x "]);
        assert_eq!(mask.too_short(), [1, 4]);
        insta::assert_snapshot!(mask.mask_str("abc abcd 61626364 YWJjZA== x"), @"abc *** 61626364 YWJjZA== x");
    }

    #[test]
    fn overlapping_secrets_leave_no_rest_behind() {
        let mask = mask(&["abcdef", "defghi", "cde-longer", "abcdefghijkl"]);
        insta::assert_snapshot!(mask.mask_str("abcdefghi abcdefghijkl abcdefabcdef xdefghiabcdef"), @"*** *** ****** x******");
    }

    #[test]
    fn json_is_hidden_in_texts_keys_and_numbers() {
        let mut value = json!({
            "token": "Bearer hunter22",
            "hunter22": [1, 1_234_567, null, true, {"x": "hunter22hunter22"}],
        });
        mask(&["hunter22", "1234567"]).mask_value(&mut value);
        insta::assert_snapshot!(value, @r#"{"token":"Bearer ***","***":[1,"***",null,true,{"x":"******"}]}"#);
    }

    #[test]
    fn bytes_that_cannot_begin_a_secret_are_not_held_back() {
        let mut stream = mask(&["hunter22"]).stream();
        assert_eq!(&*stream.push(b"hello hunt"), b"hello ");
        assert_eq!(&*stream.push(b"ing "), b"hunting ");
        assert_eq!(&*stream.push(b"hunter2"), b"");
        assert_eq!(&*stream.push(b"2"), b"");
        assert_eq!(&*stream.push(b"!"), b"***!");
        assert_eq!(&*stream.push(b"h"), b"");
        assert_eq!(stream.finish(), b"h");
        assert_eq!(stream.finish(), b"");
    }

    #[test]
    fn without_secrets_bytes_are_handed_through() {
        let mut stream = Mask::default().stream();
        assert!(matches!(stream.push(b"anything"), Cow::Borrowed(b"anything")));
        assert!(Mask::new([String::new()]).is_empty());
    }

    #[test]
    fn a_mask_does_not_tell_its_secrets() {
        insta::assert_snapshot!(format!("{:?}", mask(&["hunter22"])), @"Mask { is_empty: false, .. }");
    }

    #[test]
    fn a_long_secret_and_a_long_text_of_near_misses_take_one_pass() {
        let secret = "a".repeat(20_000) + "b";
        let mut stream = mask(&[&secret]).stream();
        let mut out = 0;
        for _ in 0..300_000 {
            out += stream.push(b"a").len();
        }
        out += stream.finish().len();
        assert_eq!(out, 300_000);
    }

    fn streamed(mask: &Mask, bytes: &[u8], cuts: &[usize]) -> Vec<u8> {
        let mut stream = mask.stream();
        let mut out = Vec::new();
        let mut rest = bytes;
        for cut in cuts {
            let (piece, after) = rest.split_at((*cut).min(rest.len()));
            out.extend_from_slice(&stream.push(piece));
            rest = after;
        }
        out.extend_from_slice(&stream.push(rest));
        out.extend(stream.finish());
        out
    }

    fn contains(bytes: &[u8], part: &[u8]) -> bool {
        bytes.windows(part.len()).any(|window| window == part)
    }

    proptest! {
        #[test]
        fn no_form_of_a_secret_passes_however_the_stream_is_cut(
            secrets in proptest::collection::vec("[a-d][a-d\"/ö ]{4,10}[a-d](\n[a-d]{6})?", 1..4),
            choice in proptest::collection::vec((0_usize..1000, "[a-d=\n]{0,4}"), 0..12),
            cuts in proptest::collection::vec(0_usize..9, 0..40),
        ) {
            let mask = Mask::new(secrets.clone());
            let mut forms = BTreeSet::new();
            for secret in &secrets {
                secret_forms::add_secret_forms(secret, &mut forms);
            }
            let forms: Vec<Vec<u8>> = forms.into_iter().collect();
            let mut text = Vec::new();
            for (number, between) in &choice {
                text.extend(between.as_bytes());
                text.extend(&forms[number % forms.len()]);
            }
            let out = streamed(&mask, &text, &cuts);
            for form in &forms {
                prop_assert!(!contains(&out, form), "{:?}", String::from_utf8_lossy(form));
            }
            prop_assert_eq!(streamed(&mask, &text, &[]), out);
        }

        #[test]
        fn base64_of_anything_around_a_secret_is_hidden(
            secret in "[ -~]{6,20}",
            before in "[ -~]{0,7}",
            after in "[ -~]{0,7}",
        ) {
            prop_assume!(secret.trim() == secret && !secret.contains('*'));
            let mask = Mask::new([secret.clone()]);
            for encoded in secret_forms::tests::encodings(&format!("{before}{secret}{after}")) {
                let out = mask.mask_str(&encoded);
                prop_assert!(out.contains(HIDDEN), "{encoded}");
            }
        }

        #[test]
        fn text_without_secrets_stays_as_it_is(text in "[^h]{0,60}") {
            prop_assert_eq!(mask(&["hunter22"]).mask_str(&text), text);
        }
    }
}
