//! YAML as a tree that remembers where everything stands.
//!
//! serde stops at the first error and forgets positions inside flexible shapes.
//! A workflow file gets all its errors at once, so it is read into this tree first.

mod frame;
mod inner;
mod node;
mod offsets;
mod parse;
mod place;
mod scalar;
mod syntax;

pub use inner::inner_span;
pub use parse::parse;

use crate::diagnostic::Span;

/// One value with its place in the file.
#[derive(Clone, Debug, PartialEq)]
pub struct YamlNode {
    /// Where the value stands. For a scalar: the scalar's text, quotes or block header included.
    pub span: Span,
    /// The value itself.
    pub value: YamlValue,
    /// The scalar as the author spelled it, where the value alone does not say: `3.10`, `0644`.
    written: Option<Box<str>>,
}

/// A YAML value.
#[derive(Clone, Debug, PartialEq)]
pub enum YamlValue {
    /// `null`, `~`, or nothing.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Float(f64),
    /// Text.
    String(String),
    /// A list.
    Sequence(Vec<YamlNode>),
    /// A mapping, in the order written. Keys are unique.
    Mapping(Vec<(YamlKey, YamlNode)>),
}

/// A key of a mapping; always text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct YamlKey {
    /// Where it stands.
    pub span: Span,
    /// The key. Numbers and booleans used as keys are kept as written.
    pub text: String,
}
