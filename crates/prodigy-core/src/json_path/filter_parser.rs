//! From the text of a filter to its condition.

use std::ops::Range;

use serde_json::Value;

use super::{
    ast::{
        FilterComparison, FilterCondition, FilterOperand, FilterQuery, MatchPattern, compile,
        is_singular,
    },
    parser::{PathParser, parse_error},
};
use crate::{diagnostic::ParseError, nearest::did_you_mean};

/// The maximum number of patterns in one path, so that all of them fit into memory.
const PATTERNS: usize = 32;

/// The functions of the standard and the number of their arguments.
const FUNCTIONS: &[(&str, usize)] =
    &[("count", 1), ("length", 1), ("match", 2), ("search", 2), ("value", 1)];

/// The comparisons and how they are written; the longer of two comes first.
const RELATIONS: &[(&str, FilterComparison)] = &[
    ("==", FilterComparison::Equal),
    ("!=", FilterComparison::NotEqual),
    ("<=", FilterComparison::AtMost),
    ("<", FilterComparison::Less),
    (">=", FilterComparison::AtLeast),
    (">", FilterComparison::Greater),
];

/// Something in a filter whose use is not known yet, and where it stands.
struct FilterTerm {
    kind: FilterTermKind,
    range: Range<usize>,
}

enum FilterTermKind {
    Literal(Value),
    Query(FilterQuery),
    /// A function that gives a value.
    Value(FilterOperand),
    /// A function that is a test.
    Test(FilterCondition),
}

impl PathParser<'_> {
    /// Reads a condition: `a || b`.
    pub(crate) fn condition(&mut self) -> Result<FilterCondition, ParseError> {
        self.nested(|cursor| {
            cursor.chain(
                "||",
                |cursor| cursor.chain("&&", Self::basic, FilterCondition::All),
                FilterCondition::Any,
            )
        })
    }

    /// Reads parts with the same operator between them; a single part stays as it is.
    fn chain(
        &mut self,
        operator: &str,
        part: fn(&mut Self) -> Result<FilterCondition, ParseError>,
        all: fn(Vec<FilterCondition>) -> FilterCondition,
    ) -> Result<FilterCondition, ParseError> {
        let first = part(self)?;
        let mut parts = vec![first];
        loop {
            let end = self.at;
            self.skip_blanks();
            if !self.take(operator) {
                self.at = end;
                break;
            }
            self.skip_blanks();
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

    fn basic(&mut self) -> Result<FilterCondition, ParseError> {
        let start = self.at;
        if self.take("!") {
            self.skip_blanks();
            let inner = if self.peek() == Some('(') {
                self.parentheses()?
            } else {
                let found = self.found()?;
                let inner = test(found)?;
                self.not_of_a_comparison(start)?;
                inner
            };
            return Ok(FilterCondition::Not(Box::new(inner)));
        }
        if self.peek() == Some('(') {
            return self.parentheses();
        }
        let left = self.found()?;
        let end = self.at;
        self.skip_blanks();
        if let Some(relation) = self.relation()? {
            self.skip_blanks();
            let right = self.found()?;
            return Ok(FilterCondition::Compare(relation, comparable(left)?, comparable(right)?));
        }
        self.at = end;
        test(left)
    }

    /// `!@.a == 1` could mean two things, so the standard wants parentheses.
    fn not_of_a_comparison(&mut self, start: usize) -> Result<(), ParseError> {
        let end = self.at;
        self.skip_blanks();
        if self.relation()?.is_some() {
            let mut fault = parse_error(start..self.at, "`!` cannot stand before a comparison");
            fault.help = Some("write `!(a == b)`, or `a != b`".to_owned());
            return Err(fault);
        }
        self.at = end;
        Ok(())
    }

    fn parentheses(&mut self) -> Result<FilterCondition, ParseError> {
        self.expect("(", "`(`")?;
        self.skip_blanks();
        let inner = self.condition()?;
        self.skip_blanks();
        self.expect(")", "`&&`, `||` or `)`")?;
        Ok(inner)
    }

    fn relation(&mut self) -> Result<Option<FilterComparison>, ParseError> {
        let found = RELATIONS.iter().find(|(symbol, _)| self.take(symbol));
        if found.is_none() && self.peek() == Some('=') {
            let mut fault = parse_error(self.at..self.at + 1, "`=` compares nothing");
            fault.help = Some("write `==`".to_owned());
            return Err(fault);
        }
        Ok(found.map(|(_, relation)| *relation))
    }

    /// Reads a literal, a query or a call.
    fn found(&mut self) -> Result<FilterTerm, ParseError> {
        let start = self.at;
        let kind = if let Some(query) = self.query()? {
            FilterTermKind::Query(query)
        } else {
            match self.peek() {
                Some('\'' | '"') => FilterTermKind::Literal(Value::String(self.quoted()?)),
                Some('0'..='9' | '-') => FilterTermKind::Literal(self.number()?),
                Some(c) if c.is_ascii_alphabetic() => self.word()?,
                _ => return Err(self.expected("a path, a value or a function")),
            }
        };
        Ok(FilterTerm { kind, range: start..self.at })
    }

    /// Reads what starts with a letter.
    fn word(&mut self) -> Result<FilterTermKind, ParseError> {
        let start = self.at;
        let word = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
        let range = start..self.at;
        if self.take("(") {
            return self.nested(|cursor| cursor.call(word, range));
        }
        match word {
            "true" => Ok(FilterTermKind::Literal(Value::Bool(true))),
            "false" => Ok(FilterTermKind::Literal(Value::Bool(false))),
            "null" => Ok(FilterTermKind::Literal(Value::Null)),
            _ if FUNCTIONS.iter().any(|(known, _)| *known == word) => {
                let mut fault = parse_error(range, format!("`{word}` is a function"));
                fault.help = Some(format!("write `{word}(…)`, with nothing before the `(`"));
                Err(fault)
            }
            _ => {
                let mut fault = parse_error(range, format!("`{word}` is no path and no value"));
                fault.help = Some(format!("write `@.{word}` for a field, `'{word}'` for a text"));
                Err(fault)
            }
        }
    }

    /// Reads the arguments of a call; the parenthesis is open.
    fn call(&mut self, name: &str, range: Range<usize>) -> Result<FilterTermKind, ParseError> {
        let Some((_, count)) = FUNCTIONS.iter().find(|(known, _)| *known == name) else {
            let help = did_you_mean(name, FUNCTIONS.iter().map(|(known, _)| *known));
            return Err(ParseError {
                range,
                message: format!("there is no function `{name}`"),
                help,
            });
        };
        let arguments = self.arguments()?;
        let given = arguments.len();
        let mut arguments = arguments.into_iter();
        let range = range.start..self.at;
        match (name, arguments.next(), arguments.next()) {
            ("length", Some(a), None) => {
                Ok(FilterTermKind::Value(FilterOperand::Length(Box::new(comparable(a)?))))
            }
            ("count", Some(a), None) => {
                Ok(FilterTermKind::Value(FilterOperand::Count(nodes(a, name)?)))
            }
            ("value", Some(a), None) => {
                Ok(FilterTermKind::Value(FilterOperand::Only(nodes(a, name)?)))
            }
            ("match" | "search", Some(text), Some(pattern)) if given == *count => {
                let text = comparable(text)?;
                let pattern = self.pattern(pattern, name == "match")?;
                Ok(FilterTermKind::Test(FilterCondition::Matches(text, pattern)))
            }
            _ => {
                let plural = if *count == 1 { "" } else { "s" };
                Err(parse_error(
                    range,
                    format!("`{name}` takes {count} value{plural}, not {given}"),
                ))
            }
        }
    }

    fn arguments(&mut self) -> Result<Vec<FilterTerm>, ParseError> {
        let mut arguments = Vec::new();
        self.skip_blanks();
        if self.take(")") {
            return Ok(arguments);
        }
        loop {
            self.skip_blanks();
            arguments.push(self.found()?);
            self.skip_blanks();
            if self.take(")") {
                return Ok(arguments);
            }
            self.expect(",", "`,` or `)`")?;
        }
    }

    /// Takes something as a pattern; one that is written out is checked now.
    fn pattern(&mut self, found: FilterTerm, whole: bool) -> Result<MatchPattern, ParseError> {
        let range = found.range.clone();
        let operand = comparable(found)?;
        let FilterOperand::Literal(Value::String(text)) = &operand else {
            return Ok(MatchPattern::Found { operand: Box::new(operand), whole });
        };
        if self.patterns == PATTERNS {
            return Err(parse_error(range, format!("a path can have at most {PATTERNS} patterns")));
        }
        self.patterns += 1;
        let pattern = compile(text, whole).map(MatchPattern::Written);
        pattern
            .map_err(|reason| parse_error(range, format!("the pattern cannot be used: {reason}")))
    }
}

/// Takes something as a test of its own.
fn test(found: FilterTerm) -> Result<FilterCondition, ParseError> {
    match found.kind {
        FilterTermKind::Query(query) => Ok(FilterCondition::Exists(query)),
        FilterTermKind::Test(condition) => Ok(condition),
        FilterTermKind::Literal(_) | FilterTermKind::Value(_) => {
            let mut fault = parse_error(found.range, "a value is no test");
            fault.help = Some("compare it with something".to_owned());
            Err(fault)
        }
    }
}

/// Takes something as one value.
fn comparable(found: FilterTerm) -> Result<FilterOperand, ParseError> {
    match found.kind {
        FilterTermKind::Literal(value) => Ok(FilterOperand::Literal(value)),
        FilterTermKind::Value(operand) => Ok(operand),
        FilterTermKind::Query(query) if is_singular(&query.hops) => Ok(FilterOperand::Part(query)),
        FilterTermKind::Query(_) => {
            let mut fault = parse_error(found.range, "this path can lead to more than one value");
            fault.help = Some("compare `count(…)` or `value(…)` of it".to_owned());
            Err(fault)
        }
        FilterTermKind::Test(_) => Err(parse_error(found.range, "a test has no value")),
    }
}

/// Takes something as a path to any number of parts.
fn nodes(found: FilterTerm, function: &str) -> Result<FilterQuery, ParseError> {
    match found.kind {
        FilterTermKind::Query(query) => Ok(query),
        FilterTermKind::Literal(_) | FilterTermKind::Value(_) | FilterTermKind::Test(_) => {
            Err(parse_error(found.range, format!("`{function}` takes a path")))
        }
    }
}
