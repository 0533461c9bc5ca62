//! The one expression language: `when`, `filter`, `sort_by`, `distinct`.
//!
//! An expression is read once, when the workflow is loaded; values never become
//! part of its text. `${x}` in `when` is a reference to the variable `x`, also
//! inside quotes of its own (`"${x}" == 'y'`), whatever the variable holds.
//!
//! - Literals: numbers, `'text'`, `"text"`, `true`, `false`, `null`, `[a, b]`. In a
//!   text, `\'`, `\"` and `\\` stand for the second character and any other backslash for
//!   itself, so that patterns need no doubling; `$${` stands for `${`.
//! - Paths: `item.files[0].path`, `item['odd name']`. Missing is `null`.
//! - `==` (or `=`), `!=`, `<`, `<=`, `>`, `>=`, `in`, `not in`, `contains`, `matches`; these
//!   do not chain. `!` and `not`, then `&&` and `and`, then `||` and `or`. `!` takes the
//!   next operand (`!a == b` is `(!a) == b`), `not` the next comparison.
//! - Functions: see [`Function`].
//!
//! Numbers compare by value (`5 == 5.0`). Output of programs is text, so a text that is
//! a number compares with a number as a number, and `'true'` and `'false'` compare with a
//! truth value as one. `<` and its kin hold only between two numbers or two texts;
//! with anything else, `null` included, they are false.
//!
//! On its own, a value counts as true unless it is `false`, `null`, `0`, an empty text,
//! or the text `false`.

mod eval;
mod lexer;
mod operand;
mod parser;
mod sort_by;
#[cfg(test)]
mod tests;

use std::ops::Range;

use regex::Regex;
use serde_json::Value;

use crate::{
    diagnostic::ParseError,
    vars::{VarPath, Vars},
};

pub use sort_by::{SortBy, SortKey};

/// Where an expression stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExprContext {
    /// `when`: paths start at a root; `${x}` is allowed and means the variable `x`.
    When,
    /// `filter`, `sort_by`, `distinct`: `item.` may be left out.
    Item,
}

/// An expression that was read once and can be evaluated many times.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    source: String,
    term: Term,
    references: Vec<(VarPath, Range<usize>)>,
}

impl Expr {
    /// Reads an expression.
    pub fn parse(source: &str, place: ExprContext) -> Result<Self, ParseError> {
        let (term, references) = parser::parse_expression(source, place)?;
        Ok(Self { source: source.to_owned(), term, references })
    }

    /// Returns the expression as written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Evaluates the expression to true or false.
    pub fn is_true(&self, vars: &Vars) -> bool {
        eval::is_truthy(&eval::evaluate(&self.term, vars))
    }

    /// Evaluates the expression to a value.
    pub fn evaluate(&self, vars: &Vars) -> Value {
        eval::evaluate(&self.term, vars).into_owned()
    }

    /// Returns the variables that the expression reads and where it names them, in order.
    pub fn references(&self) -> Vec<(VarPath, Range<usize>)> {
        self.references.clone()
    }
}

/// One part of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Term {
    /// A value as written.
    Literal(Value),
    /// A variable; the text is used if it is missing, null or empty.
    Variable(VarPath, Option<String>),
    /// `[a, b]`
    List(Vec<Self>),
    /// `!a`
    Not(Box<Self>),
    /// `a && b && c`
    All(Vec<Self>),
    /// `a || b || c`
    Any(Vec<Self>),
    /// `a < b`
    Compare(Comparison, Box<Self>, Box<Self>),
    /// `a matches 'pattern'`
    Matches(Box<Self>, RegexPattern),
    /// `length(a)`
    Call(Function, Vec<Self>),
    /// `exists(path)`: whether the path leads anywhere, be it to `null`.
    Exists(VarPath),
}

/// The operator of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
    /// `in`
    In,
}

/// A function that can be called. `matches` and `exists` are terms of their own.
///
/// Functions of text take numbers and truth values as the text that they are written
/// with; for anything else they are false or `null`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    /// True if a text contains a part, a list a value, or a mapping a key.
    Contains,
    /// True if a text begins with another.
    StartsWith,
    /// True if a text ends with another.
    EndsWith,
    /// The number of characters, values or keys.
    Length,
    /// A text in lower case.
    Lower,
    /// A text in upper case.
    Upper,
    /// True if a value is missing or `null`.
    IsNull,
    /// The opposite.
    IsNotNull,
    /// True if a value is a number.
    IsNumber,
    /// True if a value is a text.
    IsString,
    /// True if a value is `true` or `false`.
    IsBool,
    /// True if a value is a list.
    IsArray,
    /// True if a value is a mapping.
    IsObject,
}

impl Function {
    /// Every function with its name and the number of its arguments.
    pub(super) const ALL: &[(&str, Self, usize)] = &[
        ("contains", Self::Contains, 2),
        ("starts_with", Self::StartsWith, 2),
        ("ends_with", Self::EndsWith, 2),
        ("length", Self::Length, 1),
        ("lower", Self::Lower, 1),
        ("upper", Self::Upper, 1),
        ("is_null", Self::IsNull, 1),
        ("is_not_null", Self::IsNotNull, 1),
        ("is_number", Self::IsNumber, 1),
        ("is_string", Self::IsString, 1),
        ("is_bool", Self::IsBool, 1),
        ("is_array", Self::IsArray, 1),
        ("is_object", Self::IsObject, 1),
    ];
}

/// A regular expression, compiled once.
#[derive(Clone, Debug)]
pub(super) struct RegexPattern(pub(super) Regex);

impl PartialEq for RegexPattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}
