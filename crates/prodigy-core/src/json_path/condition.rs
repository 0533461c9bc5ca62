//! From the text of a filter to its condition.

use std::ops::Range;

use serde_json::Value;

use super::{
    ast::{Condition, Operand, Query, Relation, is_singular},
    cursor::{Cursor, fault},
    pattern::{Pattern, compile},
};
use crate::{diagnostic::Fault, nearest::did_you_mean};

/// The maximum number of patterns in one path, so that all of them fit into memory.
const PATTERNS: usize = 32;

/// The functions of the standard and the number of their arguments.
const FUNCTIONS: &[(&str, usize)] =
    &[("count", 1), ("length", 1), ("match", 2), ("search", 2), ("value", 1)];

/// The comparisons and how they are written; the longer of two comes first.
const RELATIONS: &[(&str, Relation)] = &[
    ("==", Relation::Equal),
    ("!=", Relation::NotEqual),
    ("<=", Relation::AtMost),
    ("<", Relation::Less),
    (">=", Relation::AtLeast),
    (">", Relation::Greater),
];

/// Something in a filter whose use is not known yet, and where it stands.
struct Found {
    kind: Kind,
    range: Range<usize>,
}

enum Kind {
    Literal(Value),
    Query(Query),
    /// A function that gives a value.
    Value(Operand),
    /// A function that is a test.
    Test(Condition),
}

impl Cursor<'_> {
    /// Reads a condition: `a || b`.
    pub(super) fn condition(&mut self) -> Result<Condition, Fault> {
        self.nested(|cursor| {
            cursor.chain(
                "||",
                |cursor| cursor.chain("&&", Self::basic, Condition::All),
                Condition::Any,
            )
        })
    }

    /// Reads parts with the same operator between them; a single part stays as it is.
    fn chain(
        &mut self,
        operator: &str,
        part: fn(&mut Self) -> Result<Condition, Fault>,
        all: fn(Vec<Condition>) -> Condition,
    ) -> Result<Condition, Fault> {
        let first = part(self)?;
        let mut parts = vec![first];
        loop {
            let end = self.at;
            self.blank();
            if !self.take(operator) {
                self.at = end;
                break;
            }
            self.blank();
            parts.push(part(self)?);
        }
        Ok(match parts.pop() {
            Some(only) if parts.is_empty() => only,
            last => {
                parts.extend(last);
                all(parts)
            }
        })
    }

    fn basic(&mut self) -> Result<Condition, Fault> {
        let start = self.at;
        if self.take("!") {
            self.blank();
            let inner = if self.peek() == Some('(') {
                self.parentheses()?
            } else {
                let found = self.found()?;
                let inner = test(found)?;
                self.not_of_a_comparison(start)?;
                inner
            };
            return Ok(Condition::Not(Box::new(inner)));
        }
        if self.peek() == Some('(') {
            return self.parentheses();
        }
        let left = self.found()?;
        let end = self.at;
        self.blank();
        if let Some(relation) = self.relation()? {
            self.blank();
            let right = self.found()?;
            return Ok(Condition::Compare(relation, comparable(left)?, comparable(right)?));
        }
        self.at = end;
        test(left)
    }

    /// `!@.a == 1` could mean two things, so the standard wants parentheses.
    fn not_of_a_comparison(&mut self, start: usize) -> Result<(), Fault> {
        let end = self.at;
        self.blank();
        if self.relation()?.is_some() {
            let mut fault = fault(start..self.at, "`!` cannot stand before a comparison");
            fault.help = Some("write `!(a == b)`, or `a != b`".to_owned());
            return Err(fault);
        }
        self.at = end;
        Ok(())
    }

    fn parentheses(&mut self) -> Result<Condition, Fault> {
        self.need("(", "`(`")?;
        self.blank();
        let inner = self.condition()?;
        self.blank();
        self.need(")", "`&&`, `||` or `)`")?;
        Ok(inner)
    }

    fn relation(&mut self) -> Result<Option<Relation>, Fault> {
        let found = RELATIONS.iter().find(|(symbol, _)| self.take(symbol));
        if found.is_none() && self.peek() == Some('=') {
            let mut fault = fault(self.at..self.at + 1, "`=` compares nothing");
            fault.help = Some("write `==`".to_owned());
            return Err(fault);
        }
        Ok(found.map(|(_, relation)| *relation))
    }

    /// Reads a literal, a query or a call.
    fn found(&mut self) -> Result<Found, Fault> {
        let start = self.at;
        let kind = if let Some(query) = self.query()? {
            Kind::Query(query)
        } else {
            match self.peek() {
                Some('\'' | '"') => Kind::Literal(Value::String(self.quoted()?)),
                Some('0'..='9' | '-') => Kind::Literal(self.number()?),
                Some(c) if c.is_ascii_alphabetic() => self.word()?,
                _ => return Err(self.expected("a path, a value or a function")),
            }
        };
        Ok(Found { kind, range: start..self.at })
    }

    /// Reads what starts with a letter.
    fn word(&mut self) -> Result<Kind, Fault> {
        let start = self.at;
        let word = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
        let range = start..self.at;
        if self.take("(") {
            return self.nested(|cursor| cursor.call(word, range));
        }
        match word {
            "true" => Ok(Kind::Literal(Value::Bool(true))),
            "false" => Ok(Kind::Literal(Value::Bool(false))),
            "null" => Ok(Kind::Literal(Value::Null)),
            _ if FUNCTIONS.iter().any(|(known, _)| *known == word) => {
                let mut fault = fault(range, format!("`{word}` is a function"));
                fault.help = Some(format!("write `{word}(…)`, with nothing before the `(`"));
                Err(fault)
            }
            _ => {
                let mut fault = fault(range, format!("`{word}` is no path and no value"));
                fault.help = Some(format!("write `@.{word}` for a field, `'{word}'` for a text"));
                Err(fault)
            }
        }
    }

    /// Reads the arguments of a call; the parenthesis is open.
    fn call(&mut self, name: &str, range: Range<usize>) -> Result<Kind, Fault> {
        let Some((_, count)) = FUNCTIONS.iter().find(|(known, _)| *known == name) else {
            let help = did_you_mean(name, FUNCTIONS.iter().map(|(known, _)| *known));
            return Err(Fault { range, message: format!("there is no function `{name}`"), help });
        };
        let arguments = self.arguments()?;
        let given = arguments.len();
        let mut arguments = arguments.into_iter();
        let range = range.start..self.at;
        match (name, arguments.next(), arguments.next()) {
            ("length", Some(a), None) => Ok(Kind::Value(Operand::Length(Box::new(comparable(a)?)))),
            ("count", Some(a), None) => Ok(Kind::Value(Operand::Count(nodes(a, name)?))),
            ("value", Some(a), None) => Ok(Kind::Value(Operand::Only(nodes(a, name)?))),
            ("match" | "search", Some(text), Some(pattern)) if given == *count => {
                let text = comparable(text)?;
                let pattern = self.pattern(pattern, name == "match")?;
                Ok(Kind::Test(Condition::Matches(text, pattern)))
            }
            _ => {
                let plural = if *count == 1 { "" } else { "s" };
                Err(fault(range, format!("`{name}` takes {count} value{plural}, not {given}")))
            }
        }
    }

    fn arguments(&mut self) -> Result<Vec<Found>, Fault> {
        let mut arguments = Vec::new();
        self.blank();
        if self.take(")") {
            return Ok(arguments);
        }
        loop {
            self.blank();
            arguments.push(self.found()?);
            self.blank();
            if self.take(")") {
                return Ok(arguments);
            }
            self.need(",", "`,` or `)`")?;
        }
    }

    /// Takes something as a pattern; one that is written out is checked now.
    fn pattern(&mut self, found: Found, whole: bool) -> Result<Pattern, Fault> {
        let range = found.range.clone();
        let operand = comparable(found)?;
        let Operand::Literal(Value::String(text)) = &operand else {
            return Ok(Pattern::Found { operand: Box::new(operand), whole });
        };
        if self.patterns == PATTERNS {
            return Err(fault(range, format!("a path can have at most {PATTERNS} patterns")));
        }
        self.patterns += 1;
        let pattern = compile(text, whole).map(Pattern::Written);
        pattern.map_err(|reason| fault(range, format!("the pattern cannot be used: {reason}")))
    }
}

/// Takes something as a test of its own.
fn test(found: Found) -> Result<Condition, Fault> {
    match found.kind {
        Kind::Query(query) => Ok(Condition::Exists(query)),
        Kind::Test(condition) => Ok(condition),
        Kind::Literal(_) | Kind::Value(_) => {
            let mut fault = fault(found.range, "a value is no test");
            fault.help = Some("compare it with something".to_owned());
            Err(fault)
        }
    }
}

/// Takes something as one value.
fn comparable(found: Found) -> Result<Operand, Fault> {
    match found.kind {
        Kind::Literal(value) => Ok(Operand::Literal(value)),
        Kind::Value(operand) => Ok(operand),
        Kind::Query(query) if is_singular(&query.hops) => Ok(Operand::Part(query)),
        Kind::Query(_) => {
            let mut fault = fault(found.range, "this path can lead to more than one value");
            fault.help = Some("compare `count(…)` or `value(…)` of it".to_owned());
            Err(fault)
        }
        Kind::Test(_) => Err(fault(found.range, "a test has no value")),
    }
}

/// Takes something as a path to any number of parts.
fn nodes(found: Found, function: &str) -> Result<Query, Fault> {
    match found.kind {
        Kind::Query(query) => Ok(query),
        Kind::Literal(_) | Kind::Value(_) | Kind::Test(_) => {
            Err(fault(found.range, format!("`{function}` takes a path")))
        }
    }
}
