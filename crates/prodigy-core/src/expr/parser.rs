//! From tokens to a tree.

use std::ops::Range;

use super::{
    Comparison, ExprContext, Function, Term,
    lexer::{Lexer, Token},
};
use crate::{diagnostic::ParseError, vars::VarPath};

/// The longest expression, in bytes.
const LONGEST: usize = 64 * 1024;
/// The maximum nesting of parentheses, lists and calls.
const DEEPEST: usize = 64;

/// The comparisons and how they are written.
const COMPARISONS: &[(&str, Comparison)] = &[
    ("==", Comparison::Equal),
    ("=", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<=", Comparison::AtMost),
    ("<", Comparison::Less),
    (">=", Comparison::AtLeast),
    (">", Comparison::Greater),
];

/// The variables that an expression reads, and where it names them.
pub(super) type ExprReferences = Vec<(VarPath, Range<usize>)>;

/// Reads an expression that is all of the text.
pub(super) fn parse_expression(
    source: &str,
    place: ExprContext,
) -> Result<(Term, ExprReferences), ParseError> {
    let mut parser = ExprParser::new(source, place)?;
    let term = parser.expression()?;
    if parser.token != Token::End {
        return Err(parser.expected("an operator"));
    }
    Ok((term, parser.references))
}

/// Reads an expression with one token of lookahead.
pub(super) struct ExprParser<'text> {
    lexer: Lexer<'text>,
    pub(super) place: ExprContext,
    /// The token that is next.
    pub(super) token: Token,
    /// Where it stands.
    pub(super) range: Range<usize>,
    /// Where the token before it ends.
    pub(super) before: usize,
    depth: usize,
    /// The number of patterns compiled so far.
    pub(super) patterns: usize,
    /// The variables so far.
    pub(super) references: ExprReferences,
}

impl<'text> ExprParser<'text> {
    pub(super) fn new(source: &'text str, place: ExprContext) -> Result<Self, ParseError> {
        if source.len() > LONGEST {
            return Err(parse_error(0..source.len(), "the expression is longer than 64 KiB"));
        }
        if source.trim().is_empty() {
            return Err(parse_error(0..source.len(), "the expression is empty"));
        }
        let mut lexer = Lexer::new(source);
        let (token, range) = lexer.next()?;
        Ok(Self {
            lexer,
            place,
            token,
            range,
            before: 0,
            depth: 0,
            patterns: 0,
            references: Vec::new(),
        })
    }

    /// Reads `a || b`, the loosest there is.
    pub(super) fn expression(&mut self) -> Result<Term, ParseError> {
        self.nested(|parser| parser.chain("||", "or", Self::conjunction, Term::Any))
    }

    fn conjunction(&mut self) -> Result<Term, ParseError> {
        self.chain("&&", "and", Self::negation, Term::All)
    }

    /// Reads parts with the same operator between them; a single part stays as it is.
    fn chain(
        &mut self,
        symbol: &str,
        word: &str,
        part: fn(&mut Self) -> Result<Term, ParseError>,
        term: fn(Vec<Term>) -> Term,
    ) -> Result<Term, ParseError> {
        let first = part(self)?;
        if !self.is_symbol(symbol) && !self.is_word(word) {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.take_symbol(symbol)? || self.take_word(word)? {
            parts.push(part(self)?);
        }
        Ok(term(parts))
    }

    fn negation(&mut self) -> Result<Term, ParseError> {
        if self.take_word("not")? {
            return Ok(Term::Not(Box::new(self.nested(Self::negation)?)));
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Result<Term, ParseError> {
        let left = self.operand()?;
        let operator = self.range.start;
        let term = if let Some(comparison) = self.comparison_symbol() {
            self.advance()?;
            Term::Compare(comparison, Box::new(left), Box::new(self.operand()?))
        } else if self.take_word("in")? {
            self.within(left)?
        } else if self.take_word("not")? {
            if !self.take_word("in")? {
                return Err(self.expected("`in`"));
            }
            Term::Not(Box::new(self.within(left)?))
        } else if self.take_word("contains")? {
            Term::Call(Function::Contains, vec![left, self.operand()?])
        } else if self.take_word("matches")? {
            Term::Matches(Box::new(left), self.pattern()?)
        } else {
            return Ok(left);
        };
        if self.at_comparison() {
            let mut fault = parse_error(operator..self.range.end, "comparisons cannot be chained");
            fault.help = Some("use parentheses, or `a < b && b < c`".to_owned());
            return Err(fault);
        }
        Ok(term)
    }

    /// Reads what stands right of `in`.
    fn within(&mut self, left: Term) -> Result<Term, ParseError> {
        let start = self.range.start;
        let list = self.operand()?;
        if matches!(list, Term::Literal(_)) {
            let mut fault = parse_error(start..self.before, "`in` needs a list");
            fault.help = Some("write `x in ['a', 'b']`".to_owned());
            return Err(fault);
        }
        Ok(Term::Compare(Comparison::In, Box::new(left), Box::new(list)))
    }

    fn comparison_symbol(&self) -> Option<Comparison> {
        let found = COMPARISONS.iter().find(|(symbol, _)| self.is_symbol(symbol));
        found.map(|(_, comparison)| *comparison)
    }

    fn at_comparison(&self) -> bool {
        self.comparison_symbol().is_some()
            || ["in", "not", "contains", "matches"].iter().any(|word| self.is_word(word))
    }

    /// Reads something one level deeper.
    pub(super) fn nested<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, ParseError>,
    ) -> Result<T, ParseError> {
        if self.depth == DEEPEST {
            let message = format!("the expression is nested more than {DEEPEST} levels deep");
            return Err(parse_error(self.range.clone(), message));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Takes the next token and returns it.
    pub(super) fn advance(&mut self) -> Result<Token, ParseError> {
        let (token, range) = self.lexer.next()?;
        self.before = self.range.end;
        self.range = range;
        Ok(std::mem::replace(&mut self.token, token))
    }

    pub(super) fn is_symbol(&self, symbol: &str) -> bool {
        matches!(&self.token, Token::Symbol(found) if *found == symbol)
    }

    /// Returns whether a keyword is next; keywords may be written in any case.
    pub(super) fn is_word(&self, word: &str) -> bool {
        matches!(&self.token, Token::Word(found) if found.eq_ignore_ascii_case(word))
    }

    pub(super) fn take_symbol(&mut self, symbol: &str) -> Result<bool, ParseError> {
        let found = self.is_symbol(symbol);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    pub(super) fn take_word(&mut self, word: &str) -> Result<bool, ParseError> {
        let found = self.is_word(word);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    /// Takes a symbol that must be there.
    pub(super) fn expect_symbol(&mut self, symbol: &str) -> Result<(), ParseError> {
        if self.take_symbol(symbol)? {
            return Ok(());
        }
        Err(self.expected(&format!("`{symbol}`")))
    }

    /// Says that something else should stand where the next token stands.
    pub(super) fn expected(&self, what: &str) -> ParseError {
        let found = match &self.token {
            Token::Number(number) => format!("`{number}`"),
            Token::Text(_) => "a text".to_owned(),
            Token::Variable(path, _) => format!("`${{{path}}}`"),
            Token::Word(word) => format!("`{word}`"),
            Token::Symbol(symbol) => format!("`{symbol}`"),
            Token::End => "the end".to_owned(),
        };
        parse_error(self.range.clone(), format!("expected {what}, found {found}"))
    }
}

/// Creates a fault without help.
pub(super) fn parse_error(range: Range<usize>, message: impl Into<String>) -> ParseError {
    ParseError { range, message: message.into(), help: None }
}
