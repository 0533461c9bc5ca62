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
//! - Functions: see [`Function`](ast::Function).
//!
//! Numbers compare by value (`5 == 5.0`). Output of programs is text, so a text that is
//! a number compares with a number as a number, and `'true'` and `'false'` compare with a
//! truth value as one. `<` and its kin hold only between two numbers or two texts;
//! with anything else, `null` included, they are false.
//!
//! On its own, a value counts as true unless it is `false`, `null`, `0`, an empty text,
//! or the text `false`.

mod ast;
mod eval;
mod lexer;
mod operand;
pub(crate) mod order;
mod parser;
mod sort;

use std::ops::Range;

use serde_json::Value;

use crate::{
    diagnostic::ParseError,
    vars::{VarPath, Vars},
};

use ast::Term;
pub use sort::{SortBy, SortKey};

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

#[cfg(test)]
mod tests;
