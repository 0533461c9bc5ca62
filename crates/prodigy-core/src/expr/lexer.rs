//! From text to tokens.

use std::ops::Range;

use serde_json::Number;

use crate::{
    diagnostic::ParseError,
    json_value,
    vars::{PathSegment, VarPath},
};

/// One token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A number.
    Number(Number),
    /// A text in quotes.
    Text(String),
    /// `${path}` or `${path:-default}`, on its own or as all of a text in quotes.
    Variable(VarPath, Option<String>),
    /// A name or a keyword.
    Word(String),
    /// An operator or a bracket.
    Symbol(&'static str),
    /// The end.
    End,
}

/// The operators and brackets, longer ones first.
const SYMBOLS: &[&str] =
    &["==", "!=", "<=", ">=", "&&", "||", "=", "<", ">", "!", "(", ")", "[", "]", ",", "."];

/// Reads tokens one at a time.
pub(super) struct Lexer<'text> {
    text: &'text str,
    at: usize,
}

impl<'text> Lexer<'text> {
    pub(super) fn new(text: &'text str) -> Self {
        Self { text, at: 0 }
    }

    /// Reads the next token and where it stands.
    pub(super) fn next(&mut self) -> Result<(Token, Range<usize>), ParseError> {
        let rest = self.rest().trim_start();
        self.at = self.text.len() - rest.len();
        let start = self.at;
        let Some(first) = rest.chars().next() else {
            return Ok((Token::End, start..start));
        };
        let token = if matches!(first, '\'' | '"') {
            self.quoted(first)?
        } else if rest.starts_with("${") {
            let (path, default) = self.variable()?;
            Token::Variable(path, default)
        } else if first.is_ascii_digit() || (first == '-' && digit_follows(rest)) {
            self.number()?
        } else if is_word_start(first) {
            Token::Word(self.word().to_owned())
        } else if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            self.at += symbol.len();
            Token::Symbol(symbol)
        } else {
            return Err(unexpected(first, start));
        };
        Ok((token, start..self.at))
    }

    fn rest(&self) -> &'text str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn word(&mut self) -> &'text str {
        let rest = self.rest();
        let mut end = rest.len();
        let mut chars = rest.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            // A hyphen belongs to a name only between two of its characters.
            let inside = c == '-' && at > 0 && chars.peek().is_some_and(|(_, next)| is_word(*next));
            if !is_word(c) && !inside {
                end = at;
                break;
            }
        }
        let (word, _) = rest.split_at(end);
        self.at += end;
        word
    }

    fn number(&mut self) -> Result<Token, ParseError> {
        let rest = self.rest();
        let part = |at: usize, c: char| match c {
            '+' | '-' => at == 0 || rest.get(..at).is_some_and(|text| text.ends_with(['e', 'E'])),
            c => c == '.' || is_word(c),
        };
        let end =
            rest.char_indices().find(|(at, c)| !part(*at, *c)).map_or(rest.len(), |(at, _)| at);
        let (text, _) = rest.split_at(end);
        let start = self.at;
        self.at += end;
        json_value::parse_number(text).map(Token::Number).ok_or_else(|| ParseError {
            range: start..self.at,
            message: format!("`{text}` is not a number"),
            help: Some("put text in quotes".to_owned()),
        })
    }

    /// Reads a text in quotes; one that is exactly one `${…}` is that variable.
    fn quoted(&mut self, quote: char) -> Result<Token, ParseError> {
        let start = self.at;
        self.at += quote.len_utf8();
        let mut text = String::new();
        let mut variables = Vec::new();
        loop {
            let rest = self.rest();
            let mut chars = rest.chars();
            let Some(c) = chars.next() else {
                return Err(ParseError {
                    range: start..self.text.len(),
                    message: format!("the text that starts here has no closing `{quote}`"),
                    help: None,
                });
            };
            if rest.starts_with("$${") {
                text.push_str("${");
                self.at += 3;
            } else if rest.starts_with("${") {
                let variable = self.at;
                let (path, default) = self.variable()?;
                variables.push((path, default, variable..self.at));
            } else if c == quote {
                self.at += 1;
                break;
            } else if c == '\\'
                && let Some(next @ ('\'' | '"' | '\\')) = chars.next()
            {
                text.push(next);
                self.at += 2;
            } else {
                text.push(c);
                self.at += c.len_utf8();
            }
        }
        let more = variables.len() > 1;
        match variables.pop() {
            None => Ok(Token::Text(text)),
            Some((path, default, _)) if text.is_empty() && !more => {
                Ok(Token::Variable(path, default))
            }
            Some((_, _, range)) => Err(ParseError {
                range,
                message: "a text in an expression cannot be put together from variables".to_owned(),
                help: Some("compare the variable itself; `$${` stands for a plain `${`".to_owned()),
            }),
        }
    }

    /// Reads `${path}` or `${path:-default}`.
    fn variable(&mut self) -> Result<(VarPath, Option<String>), ParseError> {
        let start = self.at;
        let Some((inner, _)) = self.rest().strip_prefix("${").and_then(|rest| rest.split_once('}'))
        else {
            return Err(ParseError {
                range: start..start + 2,
                message: "`${` has no closing `}`".to_owned(),
                help: None,
            });
        };
        self.at += inner.len() + 3;
        let (path, default) = match inner.split_once(":-") {
            Some((path, default)) => (path, Some(default.to_owned())),
            None => (inner, None),
        };
        match path_of(path.trim()) {
            Some(path) => Ok((path, default)),
            None => Err(ParseError {
                range: start..self.at,
                message: format!("`{path}` is not the path of a variable"),
                help: Some("write `${name}`, `${name.field}` or `${name:-default}`".to_owned()),
            }),
        }
    }
}

/// Reads a whole text as a path.
fn path_of(text: &str) -> Option<VarPath> {
    let mut lexer = Lexer::new(text);
    let root = lexer.name()?;
    let mut rest = Vec::new();
    while !lexer.rest().is_empty() {
        let symbol = lexer.rest().chars().next()?;
        lexer.at += symbol.len_utf8();
        match symbol {
            '.' => rest.push(PathSegment::Field(lexer.name()?)),
            '[' => {
                let (inner, _) = lexer.rest().split_once(']')?;
                rest.push(PathSegment::Index(inner.parse().ok()?));
                lexer.at += inner.len() + 1;
            }
            _ => return None,
        }
    }
    Some(VarPath { root, rest })
}

impl Lexer<'_> {
    /// Reads a name that starts right here.
    fn name(&mut self) -> Option<String> {
        self.rest().starts_with(is_word_start).then(|| self.word().to_owned())
    }
}

fn is_word_start(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn digit_follows(text: &str) -> bool {
    text.chars().nth(1).is_some_and(|c| c.is_ascii_digit())
}

fn unexpected(found: char, at: usize) -> ParseError {
    let help = match found {
        '&' => Some("write `&&`"),
        '|' => Some("write `||`; filters such as `|json` are for templates"),
        '$' => Some("write `${name}` for a variable"),
        '+' | '-' | '*' | '/' | '%' => Some("expressions compare values but do not calculate"),
        _ => None,
    };
    ParseError {
        range: at..at + found.len_utf8(),
        message: format!("unexpected `{}`", found.escape_debug()),
        help: help.map(str::to_owned),
    }
}
