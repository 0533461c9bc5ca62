//! Events that are too long to be held, made shorter while they are read.

use super::stream::ANSWER_BYTES;

/// The longest that a shortened line may be.
const LONGEST: usize = 8 << 20;
/// The bytes by which members of which only the name is kept may make it longer.
const NAMES: usize = 64 << 10;
/// The member that is kept whole or not at all: a part of it would be other data.
const WHOLE: &[u8] = b"\"structured_output\":";

/// The rest of an escape after its first byte: the next one, or digits.
const FIRST: u8 = 5;
const DIGITS: u8 = 4;

/// Stands for a value that was left out, with the number of its bytes.
pub(crate) const LEFT_OUT: &str = "prodigy:left_out_bytes";

/// One line of JSON, made shorter while it is read.
///
/// Texts keep their beginning, as much as an answer may have. A member of the event that is
/// still too long becomes `null`. So what an event says beside a long text is never lost, and
/// what is held has a bound.
#[derive(Debug, Default)]
pub struct ShortenedLine {
    out: Vec<u8>,
    depth: usize,
    text: Option<PartialText>,
    member: Option<PartialMember>,
    /// Set if it is no event, or one that cannot be made short enough.
    is_lost: bool,
}

/// A text whose end has not come.
#[derive(Debug, Default)]
struct PartialText {
    /// The number of bytes it stands for.
    length: usize,
    /// The number of bytes of an escape that are to come.
    escaped: u8,
    /// The character that an escape stands for, as far as that is known.
    code: u32,
    is_cut: bool,
}

/// A member of the event whose end has not come.
#[derive(Debug)]
struct PartialMember {
    /// Where its value begins.
    at: usize,
    /// Its length as it was written.
    bytes: usize,
    is_left_out: bool,
}

impl ShortenedLine {
    /// Takes the next piece of the line.
    pub fn push(&mut self, piece: &[u8]) {
        for byte in piece {
            if self.is_lost {
                return;
            }
            match self.text.take() {
                Some(text) => self.text = self.push_in_text(text, *byte),
                None => self.push_outside_text(*byte),
            }
        }
    }

    /// Returns the line, if it is an event.
    pub fn finish(self) -> Option<Vec<u8>> {
        (!self.is_lost && self.depth == 0 && self.text.is_none()).then_some(self.out)
    }

    /// Takes a byte that is outside of texts.
    fn push_outside_text(&mut self, byte: u8) {
        match byte {
            b'"' => self.text = Some(PartialText::default()),
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                if self.depth <= 1 {
                    self.end_member();
                }
                self.depth = self.depth.saturating_sub(1);
            }
            b',' if self.depth == 1 => self.end_member(),
            _ => {}
        }
        let is_open = self.depth > 0 || matches!(byte, b'}' | b']') || byte.is_ascii_whitespace();
        self.is_lost |= !is_open;
        self.keep_byte(byte);
        if byte == b':' && self.depth == 1 && self.member.is_none() {
            self.member = Some(PartialMember { at: self.out.len(), bytes: 0, is_left_out: false });
        }
    }

    /// Takes a byte of a text, and returns the text if that was not its end.
    fn push_in_text(&mut self, mut text: PartialText, byte: u8) -> Option<PartialText> {
        let is_end = byte == b'"' && text.escaped == 0;
        if !is_end {
            text.push(byte);
        }
        if text.is_cut && !is_end {
            self.count();
        } else {
            self.keep_byte(byte);
        }
        (!is_end).then_some(text)
    }

    /// Keeps a byte, if there is room.
    fn keep_byte(&mut self, byte: u8) {
        self.count();
        match &mut self.member {
            Some(member) if member.is_left_out => {}
            Some(member) if self.out.len() >= LONGEST => {
                member.is_left_out = true;
                self.out.truncate(member.at);
                self.out.extend_from_slice(b"null");
            }
            Some(_) => self.out.push(byte),
            None => {
                self.is_lost |= self.out.len() >= LONGEST + NAMES;
                self.out.push(byte);
            }
        }
    }

    fn count(&mut self) {
        if let Some(member) = &mut self.member {
            member.bytes = member.bytes.saturating_add(1);
        }
    }

    fn end_member(&mut self) {
        let Some(PartialMember { at, bytes, .. }) = self.member.take() else { return };
        let is_whole = self.out.get(..at).is_some_and(|before| before.ends_with(WHOLE));
        if is_whole && bytes > ANSWER_BYTES {
            self.out.truncate(at);
            self.out.extend_from_slice(format!("{{\"{LEFT_OUT}\":{bytes}}}").as_bytes());
        }
    }
}

impl PartialText {
    /// Takes a byte, and finds out whether it is one too many. Characters are not cut apart.
    fn push(&mut self, byte: u8) {
        match self.escaped {
            0 => {
                self.is_cut |= self.length > ANSWER_BYTES && !(0x80..0xc0).contains(&byte);
                self.length += 1;
                if byte == b'\\' {
                    (self.escaped, self.code) = (FIRST, 0);
                }
            }
            FIRST => self.escaped = if byte == b'u' { DIGITS } else { 0 },
            _ => {
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                (self.code, self.escaped) = (self.code * 16 + digit, self.escaped - 1);
                if self.escaped == 0 {
                    // The halves of a character have two of its four bytes each.
                    let length = char::from_u32(self.code).map_or(2, char::len_utf8);
                    self.length += length - 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn shortened(line: &str, cut: usize) -> Option<String> {
        let mut short = ShortenedLine::default();
        line.as_bytes().chunks(cut).for_each(|piece| short.push(piece));
        short.finish().map(|line| String::from_utf8(line).unwrap())
    }

    fn read(line: &Value) -> Value {
        serde_json::from_str(&shortened(&line.to_string(), 65_536).unwrap()).unwrap()
    }

    #[test]
    fn long_texts_keep_their_beginning_and_what_stands_beside_them_is_kept() {
        let long = "\\\"é😀".repeat(2 << 20);
        let event = json!({
            "type": "result",
            "result": long,
            "usage": {"input_tokens": 7},
            "errors": ["a", long],
            "is_error": false,
        });
        let read = read(&event);
        for text in [&read["result"], &read["errors"][1]] {
            let text = text.as_str().unwrap();
            assert!((1..8).contains(&(text.len() - ANSWER_BYTES)), "{}", text.len());
            assert!(long.starts_with(text));
        }
        assert_eq!(
            (&read["usage"], &read["errors"][0]),
            (&json!({"input_tokens": 7}), &json!("a"))
        );
        assert_eq!(read["is_error"], false);
    }

    #[test]
    fn escapes_are_not_cut_apart() {
        let line = format!("{{\"a\":\"{}\",\"b\":1}}", "\\ud83d\\ude00\\n\\u00e9".repeat(1 << 20));
        let short = shortened(&line, 1000).unwrap();
        let (kept, rest) = short.rsplit_once("\",").unwrap();
        assert_eq!(rest, "\"b\":1}");
        let kept = kept.strip_prefix("{\"a\":\"").unwrap();
        let whole: Vec<&str> = kept.split_inclusive("\\u00e9").collect();
        assert!(whole.iter().rev().skip(1).all(|it| *it == "\\ud83d\\ude00\\n\\u00e9"));
        let last = whole.last().unwrap();
        let parts = ["\\ud83d", "\\ud83d\\ude00", "\\ud83d\\ude00\\n", "\\ud83d\\ude00\\n\\u00e9"];
        assert!(parts.contains(last), "{last}");
    }

    #[test]
    fn a_member_that_is_too_long_is_left_out_and_data_with_its_size() {
        let many: Vec<u64> = (0..2_000_000).collect();
        let read =
            read(&json!({"a": many, "structured_output": {"many": many}, "b": [many], "c": 1}));
        let bytes = json!({"many": many}).to_string().len();
        assert_eq!(
            read,
            json!({"a": null, "structured_output": {LEFT_OUT: bytes}, "b": null, "c": 1})
        );
    }

    #[test]
    fn what_is_no_event_is_lost() {
        for line in ["plain", "1234", "\"text\"", "{\"a\":1", "{\"a\":\"b", "{} x"] {
            assert_eq!(shortened(line, 2), None, "{line}");
        }
        let names: String = "\"a\":0,".repeat(3_000_000);
        assert_eq!(shortened(&format!("{{{names}\"z\":1}}"), 65_536), None);
    }

    proptest! {
        #[test]
        fn a_short_event_is_not_changed(
            text in "[\\PC\"\\\\\n]{0,40}", number in any::<i64>(), cut in 1_usize..9,
        ) {
            let event = json!({"a": {"b": [text, number]}, "c: \"": text, "structured_output": [text]});
            prop_assert_eq!(shortened(&event.to_string(), cut), Some(event.to_string()));
        }
    }
}
