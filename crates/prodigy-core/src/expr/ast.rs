//! Expressions as trees.
//!
//! `&&` and `||` hold lists and comparisons do not chain, so a tree is never deeper
//! than the parentheses, lists and calls that the author wrote.

use regex::Regex;
use serde_json::Value;

use crate::vars::VarPath;

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
