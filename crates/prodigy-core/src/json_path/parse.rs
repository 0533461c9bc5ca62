//! From the text of a path to its steps.

use super::{
    ast::{FilterQuery, QueryOrigin, QuerySegment, Selector},
    cursor::{PathParser, parse_error},
};
use crate::diagnostic::ParseError;

/// The longest path, in bytes.
const LONGEST: usize = 64 * 1024;

/// Reads a path that is all of the text, and counts its queries that start at the root.
pub(super) fn path(text: &str) -> Result<(Vec<QuerySegment>, usize), ParseError> {
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
    pub(super) fn query(&mut self) -> Result<Option<FilterQuery>, ParseError> {
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
