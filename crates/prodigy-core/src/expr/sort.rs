//! Putting items in order.

use std::cmp::Ordering;

use super::{Place, ast::Node, eval, lexer::Token, order, parser::Parser};
use crate::{diagnostic::Fault, vars::Vars};

/// The keys that items are put in order by: `item.priority DESC NULLS LAST, item.path`.
///
/// Without `DESC`, smaller comes first. Values of different types have an order, too: false,
/// true, numbers, texts, lists, mappings. Items for which a key is missing or `null`
/// come last, whichever way the others go, unless `NULLS FIRST` is written.
#[derive(Clone, Debug, PartialEq)]
pub struct SortBy {
    source: String,
    keys: Vec<Key>,
}

/// One key.
#[derive(Clone, Debug, PartialEq)]
struct Key {
    node: Node,
    descending: bool,
    nulls_first: bool,
}

impl SortBy {
    /// Reads a list of sort keys.
    pub fn parse(source: &str) -> Result<Self, Fault> {
        let mut parser = Parser::new(source, Place::Item)?;
        let mut keys = Vec::new();
        loop {
            keys.push(key(&mut parser)?);
            if !parser.take_symbol(",")? {
                break;
            }
        }
        if parser.token != Token::End {
            return Err(parser.expected("`ASC`, `DESC`, `NULLS` or `,`"));
        }
        Ok(Self { source: source.to_owned(), keys })
    }

    /// Returns the keys as written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns which of two items comes first; equal items keep their order in a stable sort.
    pub fn compare(&self, a: &Vars, b: &Vars) -> Ordering {
        let orders = self.keys.iter().map(|key| key.compare(a, b));
        orders.fold(Ordering::Equal, Ordering::then)
    }
}

impl Key {
    fn compare(&self, a: &Vars, b: &Vars) -> Ordering {
        let (a, b) = (eval::value(&self.node, a), eval::value(&self.node, b));
        match (a.is_null(), b.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) if self.nulls_first => Ordering::Less,
            (true, false) => Ordering::Greater,
            (false, true) if self.nulls_first => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) if self.descending => order::total(&b, &a),
            (false, false) => order::total(&a, &b),
        }
    }
}

fn key(parser: &mut Parser<'_>) -> Result<Key, Fault> {
    let node = parser.expression()?;
    let descending = parser.take_word("desc")?;
    if !descending {
        parser.take_word("asc")?;
    }
    let mut nulls_first = false;
    if parser.take_word("nulls")? {
        nulls_first = parser.take_word("first")?;
        if !nulls_first && !parser.take_word("last")? {
            return Err(parser.expected("`FIRST` or `LAST`"));
        }
    }
    Ok(Key { node, descending, nulls_first })
}
