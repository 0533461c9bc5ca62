//! From the text of a path to its steps.

use std::ops::Range;

use serde_json::Value;

use super::ast::{FilterQuery, QueryOrigin, QuerySegment, Selector};
use crate::{diagnostic::ParseError, json_value};

/// The longest path, in bytes.
const LONGEST: usize = 64 * 1024;

/// Reads a path that is all of the text, and counts its queries that start at the root.
pub(crate) fn path(text: &str) -> Result<(Vec<QuerySegment>, usize), ParseError> {
    if text.len() > LONGEST {
        return Err(parse_error(0..text.len(), "the path is longer than 64 KiB"));
    }
    let mut cursor = PathParser::new(text);
    if !cursor.take("$") {
        let mut fault = cursor.expected("`$` at the start of the path");
        let dot = if text.starts_with(['.', '[']) { "" } else { "." };
        if is_likely(text) {
            fault.help = Some(format!("write `${dot}{text}`"));
        }
        return Err(fault);
    }
    let hops = cursor.hops()?;
    if cursor.peek().is_some() {
        return Err(after_hops(&cursor, text));
    }
    Ok((hops, cursor.root_queries))
}

/// Returns whether a text is likely to be a path with a `$` in front.
fn is_likely(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '.' | '[' | '_'))
}

/// Says what is wrong after the last step that could be read.
fn after_hops(cursor: &PathParser<'_>, text: &str) -> ParseError {
    let mut fault = cursor.expected("`.`, `[` or the end");
    let read = text.get(..cursor.at).unwrap_or_default();
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if cursor.peek() == Some('-')
        && let Some((_, name)) = read.rsplit_once('.')
        && name.chars().all(word)
    {
        let rest: String = cursor.rest().chars().take_while(|c| word(*c)).collect();
        fault.help = Some(format!("write `['{name}{rest}']` for a name with other characters"));
    }
    fault
}

impl PathParser<'_> {
    /// Reads a query in a filter, if one is next.
    pub(crate) fn query(&mut self) -> Result<Option<FilterQuery>, ParseError> {
        let origin = if self.take("@") {
            QueryOrigin::Tested
        } else if self.take("$") {
            self.root_queries += 1;
            QueryOrigin::Root(self.root_queries - 1)
        } else {
            return Ok(None);
        };
        Ok(Some(FilterQuery { origin, hops: self.hops()? }))
    }

    /// Reads steps up to something that is none.
    fn hops(&mut self) -> Result<Vec<QuerySegment>, ParseError> {
        let mut hops = Vec::new();
        loop {
            let start = self.at;
            self.skip_blanks();
            let deep = self.take("..");
            let selectors = if self.peek() == Some('[') {
                self.nested(Self::brackets)?
            } else if deep || self.take(".") {
                vec![if self.take("*") { Selector::Any } else { Selector::Name(self.name()?) }]
            } else {
                self.at = start;
                return Ok(hops);
            };
            hops.push(QuerySegment { deep, selectors });
        }
    }

    fn brackets(&mut self) -> Result<Vec<Selector>, ParseError> {
        let mut selectors = Vec::new();
        self.expect("[", "`[`")?;
        loop {
            self.skip_blanks();
            selectors.push(self.selector()?);
            self.skip_blanks();
            if self.take("]") {
                return Ok(selectors);
            }
            self.expect(",", "`,` or `]`")?;
        }
    }

    fn selector(&mut self) -> Result<Selector, ParseError> {
        match self.peek() {
            Some('\'' | '"') => self.quoted().map(Selector::Name),
            Some('*') => {
                self.next();
                Ok(Selector::Any)
            }
            Some('?') => {
                self.next();
                self.skip_blanks();
                self.condition().map(Selector::Filter)
            }
            Some('0'..='9' | '-' | ':') => self.index_or_slice(),
            Some(c) if c.is_ascii_alphabetic() => {
                let start = self.at;
                let name = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
                let mut fault = parse_error(start..self.at, "a name in brackets needs quotes");
                fault.help = Some(format!("write `['{name}']`"));
                Err(fault)
            }
            _ => Err(self.expected("a name in quotes, a number, a slice, `*` or `?`")),
        }
    }

    fn index_or_slice(&mut self) -> Result<Selector, ParseError> {
        let start = self.whole()?;
        self.skip_blanks();
        if let Some(index) = start
            && self.peek() != Some(':')
        {
            return Ok(Selector::Index(index));
        }
        self.expect(":", "`:`")?;
        self.skip_blanks();
        let end = self.whole()?;
        self.skip_blanks();
        let step = if self.take(":") {
            self.skip_blanks();
            self.whole()?
        } else {
            None
        };
        Ok(Selector::Slice(start, end, step.unwrap_or(1)))
    }
}

/// The maximum nesting of filters and parentheses.
const DEEPEST: usize = 64;

/// Reads a path from left to right.
pub(crate) struct PathParser<'text> {
    text: &'text str,
    /// The number of bytes read so far.
    pub(crate) at: usize,
    depth: usize,
    /// The number of patterns compiled so far.
    pub(crate) patterns: usize,
    /// The number of queries in filters that start at the root.
    pub(crate) root_queries: usize,
}

impl<'text> PathParser<'text> {
    pub(crate) fn new(text: &'text str) -> Self {
        Self { text, at: 0, depth: 0, patterns: 0, root_queries: 0 }
    }

    /// Returns what was not read yet.
    pub(crate) fn rest(&self) -> &'text str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Returns what was read since a place.
    pub(crate) fn text_since(&self, start: usize) -> &'text str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// Returns the next character.
    pub(crate) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Takes the next character.
    pub(crate) fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    /// Takes a piece of text if it is next.
    pub(crate) fn take(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    /// Takes characters as long as they fit.
    pub(crate) fn take_while(&mut self, fits: impl Fn(char) -> bool) -> &'text str {
        let rest = self.rest();
        let end = rest.find(|c| !fits(c)).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or_default()
    }

    /// Passes over blanks, where the standard allows them.
    pub(crate) fn skip_blanks(&mut self) {
        self.take_while(|c| matches!(c, ' ' | '\t' | '\n' | '\r'));
    }

    /// Takes a piece of text that must be next.
    pub(crate) fn expect(&mut self, text: &str, expected: &str) -> Result<(), ParseError> {
        if self.take(text) { Ok(()) } else { Err(self.expected(expected)) }
    }

    /// Says what should be next.
    pub(crate) fn expected(&self, expected: &str) -> ParseError {
        let (end, found) = match self.peek() {
            None => (self.at, "the end".to_owned()),
            Some(' ' | '\t' | '\n' | '\r') => (self.at + 1, "a blank".to_owned()),
            Some(c) => (self.at + c.len_utf8(), format!("`{}`", c.escape_debug())),
        };
        parse_error(self.at..end, format!("expected {expected}, found {found}"))
    }

    /// Reads something one level deeper.
    pub(crate) fn nested<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, ParseError>,
    ) -> Result<T, ParseError> {
        if self.depth == DEEPEST {
            let message = format!("the path is nested more than {DEEPEST} levels deep");
            return Err(parse_error(self.at..self.at, message));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }
}

/// Creates a fault without help.
pub(crate) fn parse_error(range: Range<usize>, message: impl Into<String>) -> ParseError {
    ParseError { range, message: message.into(), help: None }
}

/// The largest whole number that the standard allows.
const LARGEST: i64 = (1 << 53) - 1;

impl PathParser<'_> {
    /// Reads a name after a dot.
    pub(crate) fn name(&mut self) -> Result<String, ParseError> {
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
    pub(crate) fn whole(&mut self) -> Result<Option<i64>, ParseError> {
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
    pub(crate) fn number(&mut self) -> Result<Value, ParseError> {
        let start = self.at;
        let text = self.take_while(|c| matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'));
        let number = json_value::parse_number(text).map(Value::Number);
        number.ok_or_else(|| parse_error(start..self.at, format!("`{text}` is not a number")))
    }

    /// Reads a text in quotes; the first quote is next.
    pub(crate) fn quoted(&mut self) -> Result<String, ParseError> {
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
