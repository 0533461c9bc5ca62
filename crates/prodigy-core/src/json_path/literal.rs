//! Names, texts and numbers in a path.

use serde_json::Value;

use super::cursor::{PathParser, parse_error};
use crate::{diagnostic::ParseError, expr::order};

/// The largest whole number that the standard allows.
const LARGEST: i64 = (1 << 53) - 1;

impl PathParser<'_> {
    /// Reads a name after a dot.
    pub(super) fn name(&mut self) -> Result<String, ParseError> {
        let first = |c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii();
        if !self.peek().is_some_and(first) {
            let mut fault = self.expected("a name or `*` after the dot");
            if self.peek().is_some_and(|c| c.is_ascii_digit()) {
                fault.help = Some("write `[0]` for the first value of a list".to_owned());
            }
            return Err(fault);
        }
        Ok(self.take_while(|c| first(c) || c.is_ascii_digit()).to_owned())
    }

    /// Reads a whole number, if one is next.
    pub(super) fn whole(&mut self) -> Result<Option<i64>, ParseError> {
        let start = self.at;
        self.take("-");
        let digits = self.take_while(|c| c.is_ascii_digit());
        let text = self.text_since(start);
        if text.is_empty() {
            return Ok(None);
        }
        if digits.is_empty() {
            return Err(self.expected("a digit"));
        }
        if text != "0" && digits.starts_with('0') {
            return Err(parse_error(start..self.at, "a whole number has no leading zero"));
        }
        match text.parse().ok().filter(|number: &i64| number.abs() <= LARGEST) {
            Some(number) => Ok(Some(number)),
            None => Err(parse_error(start..self.at, format!("`{text}` is too large"))),
        }
    }

    /// Reads a number.
    pub(super) fn number(&mut self) -> Result<Value, ParseError> {
        let start = self.at;
        let text = self.take_while(|c| matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'));
        let number = order::parse_number(text).map(Value::Number);
        number.ok_or_else(|| parse_error(start..self.at, format!("`{text}` is not a number")))
    }

    /// Reads a text in quotes; the first quote is next.
    pub(super) fn quoted(&mut self) -> Result<String, ParseError> {
        let start = self.at;
        let quote = self.next();
        let mut text = String::new();
        loop {
            let at = self.at;
            match self.next() {
                None => return Err(parse_error(start..self.at, "this text has no closing quote")),
                found if found == quote => return Ok(text),
                Some('\\') => text.push(self.escape(at, quote)?),
                Some(c) if c < ' ' => {
                    let message = "a text has no control characters";
                    let mut fault = parse_error(at..self.at, message);
                    fault.help = Some(format!("write `{}`", c.escape_default()));
                    return Err(fault);
                }
                Some(c) => text.push(c),
            }
        }
    }

    /// Reads what follows a backslash.
    fn escape(&mut self, start: usize, quote: Option<char>) -> Result<char, ParseError> {
        match self.next() {
            Some('b') => Ok('\u{8}'),
            Some('f') => Ok('\u{c}'),
            Some('n') => Ok('\n'),
            Some('r') => Ok('\r'),
            Some('t') => Ok('\t'),
            Some(c @ ('/' | '\\')) => Ok(c),
            Some('u') => self.unicode(start),
            Some(c) if Some(c) == quote => Ok(c),
            _ => {
                let text = self.text_since(start);
                let mut fault = parse_error(start..self.at, format!("`{text}` is no escape"));
                fault.help = Some("write `\\\\` for a backslash".to_owned());
                Err(fault)
            }
        }
    }

    /// Reads the digits after `\u`; a character beyond the first 65,536 is written as two.
    fn unicode(&mut self, start: usize) -> Result<char, ParseError> {
        let first = self.digits();
        let code = match first {
            Some(high @ 0xD800..=0xDBFF) if self.take("\\u") => match self.digits() {
                Some(low @ 0xDC00..=0xDFFF) => {
                    Some(0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00))
                }
                _ => None,
            },
            first => first,
        };
        code.and_then(char::from_u32).ok_or_else(|| {
            let text = self.text_since(start);
            parse_error(start..self.at, format!("`{text}` is no character"))
        })
    }

    fn digits(&mut self) -> Option<u32> {
        let digits =
            self.rest().get(..4).filter(|text| text.chars().all(|c| c.is_ascii_hexdigit()))?;
        self.at += digits.len();
        u32::from_str_radix(digits, 16).ok()
    }
}
