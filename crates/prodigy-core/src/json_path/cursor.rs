//! A place in the text of a path.

use std::ops::Range;

use crate::diagnostic::ParseError;

/// The maximum nesting of filters and parentheses.
const DEEPEST: usize = 64;

/// Reads a path from left to right.
pub(super) struct PathParser<'text> {
    text: &'text str,
    /// The number of bytes read so far.
    pub(super) at: usize,
    depth: usize,
    /// The number of patterns compiled so far.
    pub(super) patterns: usize,
    /// The number of queries in filters that start at the root.
    pub(super) root_queries: usize,
}

impl<'text> PathParser<'text> {
    pub(super) fn new(text: &'text str) -> Self {
        Self { text, at: 0, depth: 0, patterns: 0, root_queries: 0 }
    }

    /// Returns what was not read yet.
    pub(super) fn rest(&self) -> &'text str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Returns what was read since a place.
    pub(super) fn text_since(&self, start: usize) -> &'text str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// Returns the next character.
    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Takes the next character.
    pub(super) fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    /// Takes a piece of text if it is next.
    pub(super) fn take(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    /// Takes characters as long as they fit.
    pub(super) fn take_while(&mut self, fits: impl Fn(char) -> bool) -> &'text str {
        let rest = self.rest();
        let end = rest.find(|c| !fits(c)).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or_default()
    }

    /// Passes over blanks, where the standard allows them.
    pub(super) fn skip_blanks(&mut self) {
        self.take_while(|c| matches!(c, ' ' | '\t' | '\n' | '\r'));
    }

    /// Takes a piece of text that must be next.
    pub(super) fn expect(&mut self, text: &str, expected: &str) -> Result<(), ParseError> {
        if self.take(text) { Ok(()) } else { Err(self.expected(expected)) }
    }

    /// Says what should be next.
    pub(super) fn expected(&self, expected: &str) -> ParseError {
        let (end, found) = match self.peek() {
            None => (self.at, "the end".to_owned()),
            Some(' ' | '\t' | '\n' | '\r') => (self.at + 1, "a blank".to_owned()),
            Some(c) => (self.at + c.len_utf8(), format!("`{}`", c.escape_debug())),
        };
        parse_error(self.at..end, format!("expected {expected}, found {found}"))
    }

    /// Reads something one level deeper.
    pub(super) fn nested<T>(
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
pub(super) fn parse_error(range: Range<usize>, message: impl Into<String>) -> ParseError {
    ParseError { range, message: message.into(), help: None }
}
