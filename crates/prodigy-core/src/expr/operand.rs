//! The smallest parts of an expression: literals, paths and calls.

use std::ops::Range;

use regex::RegexBuilder;
use serde_json::Value;

use super::{
    ExprContext, Function, RegexPattern, Term,
    lexer::Token,
    parser::{ExprParser, parse_error},
};
use crate::{
    diagnostic::ParseError,
    nearest::did_you_mean,
    vars::{PathSegment, VarPath},
};

/// The largest compiled pattern, in bytes.
const PATTERN_SIZE: usize = 1 << 20;
/// The maximum number of patterns in one expression, so that all of them fit into memory.
const PATTERNS: usize = 32;

/// Functions that are not calls of values.
const SPECIAL: &[&str] = &["exists", "matches"];

impl ExprParser<'_> {
    /// Reads a literal, a path, a call, or anything in parentheses.
    pub(super) fn operand(&mut self) -> Result<Term, ParseError> {
        let start = self.range.clone();
        match &self.token {
            Token::Number(_) | Token::Text(_) | Token::Variable(..) => match self.advance()? {
                Token::Number(number) => Ok(Term::Literal(Value::Number(number))),
                Token::Text(text) => Ok(Term::Literal(Value::String(text))),
                Token::Variable(path, default) => self.variable(path, default, start),
                Token::Word(_) | Token::Symbol(_) | Token::End => Err(self.expected("a value")),
            },
            Token::Symbol("!") => {
                self.advance()?;
                Ok(Term::Not(Box::new(self.nested(Self::operand)?)))
            }
            Token::Symbol("(") => {
                self.advance()?;
                let inner = self.expression()?;
                self.expect_symbol(")")?;
                Ok(inner)
            }
            Token::Symbol("[") => {
                self.advance()?;
                Ok(Term::List(self.values("]")?))
            }
            Token::Word(word) => {
                let word = word.clone();
                self.named(&word)
            }
            Token::Symbol(_) | Token::End => Err(self.expected("a value")),
        }
    }

    /// Reads what starts with a name: a constant, a call or a path.
    fn named(&mut self, word: &str) -> Result<Term, ParseError> {
        let constant = match word.to_ascii_lowercase().as_str() {
            "true" => Some(Value::Bool(true)),
            "false" => Some(Value::Bool(false)),
            "null" => Some(Value::Null),
            "and" | "or" | "not" | "in" => return Err(self.expected("a value")),
            _ => None,
        };
        let start = self.range.clone();
        self.advance()?;
        if let Some(constant) = constant {
            Ok(Term::Literal(constant))
        } else if self.take_symbol("(")? {
            self.call(word, start)
        } else {
            let path = self.path(word)?;
            self.references.push((path.clone(), start.start..self.before));
            Ok(Term::Variable(path, None))
        }
    }

    /// Takes a variable that is written `${…}`.
    fn variable(
        &mut self,
        path: VarPath,
        default: Option<String>,
        range: Range<usize>,
    ) -> Result<Term, ParseError> {
        match self.place {
            ExprContext::When => {
                self.references.push((path.clone(), range));
                Ok(Term::Variable(path, default))
            }
            ExprContext::Item => {
                let written = if path.root == "item" { path } else { item_path(path) };
                Err(ParseError {
                    range,
                    message: "`${…}` can only be used in `when`".to_owned(),
                    help: Some(format!("write `{written}`")),
                })
            }
        }
    }

    /// Reads the rest of a path.
    fn path(&mut self, root: &str) -> Result<VarPath, ParseError> {
        let mut rest = Vec::new();
        loop {
            if self.take_symbol(".")? {
                let Token::Word(name) = &self.token else {
                    let mut fault = self.expected("a name after `.`");
                    if matches!(self.token, Token::Number(_)) {
                        fault.help = Some("write `[0]` for the first value of a list".to_owned());
                    }
                    return Err(fault);
                };
                rest.push(PathSegment::Field(name.clone()));
                self.advance()?;
            } else if self.take_symbol("[")? {
                rest.push(self.index()?);
                self.expect_symbol("]")?;
            } else {
                break;
            }
        }
        let path = VarPath { root: root.to_owned(), rest };
        let whole = self.place == ExprContext::When || path.root == "item";
        Ok(if whole { path } else { item_path(path) })
    }

    /// Reads what stands in the brackets of a path.
    fn index(&mut self) -> Result<PathSegment, ParseError> {
        let segment = match &self.token {
            Token::Number(number) => number
                .as_u64()
                .and_then(|index| usize::try_from(index).ok())
                .map(PathSegment::Index),
            Token::Text(name) => Some(PathSegment::Field(name.clone())),
            Token::Variable(..) | Token::Word(_) | Token::Symbol(_) | Token::End => None,
        };
        let segment =
            segment.ok_or_else(|| self.expected("a number from 0 or a name in quotes"))?;
        self.advance()?;
        Ok(segment)
    }

    /// Reads values up to a closing bracket.
    fn values(&mut self, close: &str) -> Result<Vec<Term>, ParseError> {
        let mut values = Vec::new();
        while !self.take_symbol(close)? {
            values.push(self.expression()?);
            if !self.take_symbol(",")? {
                self.expect_symbol(close)?;
                break;
            }
        }
        Ok(values)
    }

    /// Reads the arguments of a call; the bracket is open.
    fn call(&mut self, name: &str, range: Range<usize>) -> Result<Term, ParseError> {
        if name == "matches" {
            let text = self.expression()?;
            self.expect_symbol(",")?;
            let pattern = self.pattern()?;
            self.expect_symbol(")")?;
            return Ok(Term::Matches(Box::new(text), pattern));
        }
        let function = Function::ALL.iter().find(|(known, ..)| *known == name);
        if function.is_none() && name != "exists" {
            return Err(unknown_function(name, range));
        }
        let arguments = self.values(")")?;
        let range = range.start..self.before;
        match (function, arguments.as_slice()) {
            (Some((_, function, count)), given) if given.len() == *count => {
                Ok(Term::Call(*function, arguments))
            }
            (Some((_, _, count)), given) => {
                let plural = if *count == 1 { "" } else { "s" };
                let message = format!("`{name}` takes {count} value{plural}, not {}", given.len());
                Err(parse_error(range, message))
            }
            (None, [Term::Variable(path, None)]) => Ok(Term::Exists(path.clone())),
            (None, _) => Err(parse_error(range, "`exists` takes one path")),
        }
    }

    /// Reads a pattern; it must be written out, so that it is checked now and not at run time.
    pub(super) fn pattern(&mut self) -> Result<RegexPattern, ParseError> {
        let Token::Text(pattern) = &self.token else {
            return Err(self.expected("a pattern in quotes"));
        };
        if self.patterns == PATTERNS {
            let message = format!("an expression can have at most {PATTERNS} patterns");
            return Err(parse_error(self.range.clone(), message));
        }
        let regex =
            RegexBuilder::new(pattern).size_limit(PATTERN_SIZE).build().map_err(|error| {
                // The first lines of the message draw the pattern again.
                let text = error.to_string();
                let reason = if matches!(error, regex::Error::CompiledTooBig(_)) {
                    "it is too large"
                } else {
                    text.lines().last().unwrap_or_default().trim_start_matches("error: ")
                };
                parse_error(self.range.clone(), format!("the pattern cannot be used: {reason}"))
            })?;
        self.patterns += 1;
        self.advance()?;
        Ok(RegexPattern(regex))
    }
}

/// Puts `item.` in front of a path.
fn item_path(path: VarPath) -> VarPath {
    let mut rest = vec![PathSegment::Field(path.root)];
    rest.extend(path.rest);
    VarPath { root: "item".to_owned(), rest }
}

fn unknown_function(name: &str, range: Range<usize>) -> ParseError {
    let known = Function::ALL.iter().map(|(known, ..)| *known).chain(SPECIAL.iter().copied());
    ParseError {
        range,
        message: format!("there is no function `{name}`"),
        help: did_you_mean(name, known),
    }
}
