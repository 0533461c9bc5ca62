//! YAML as a tree that remembers where everything stands.
//!
//! serde stops at the first error and forgets positions inside flexible shapes.
//! A workflow file gets all its errors at once, so it is read into this tree first.

mod char_offsets;
mod frame;
mod parse;
mod scalar;
mod span;
mod syntax_error;

use serde_json::Value;

use crate::diagnostic::Span;

pub use parse::parse;
pub use span::inner_span;

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

impl YamlNode {
    /// Creates a value that was not spelled in any special way.
    pub fn new(span: Span, value: YamlValue) -> Self {
        Self { span, value, written: None }
    }

    /// Creates a scalar that remembers how it was spelled, if that is not how it would be shown.
    pub(super) fn with_spelling(span: Span, value: YamlValue, text: &str) -> Self {
        let mut node = Self::new(span, value);
        let is_text = matches!(node.value, YamlValue::String(_));
        if !is_text && node.scalar_text().is_none_or(|shown| shown != text) {
            node.written = Some(text.into());
        }
        node
    }

    /// Returns the value of a key, if this is a mapping that has it.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entry(key).map(|(_, value)| value)
    }

    /// Returns where a key stands, if this is a mapping that has it.
    pub fn key_span(&self, key: &str) -> Option<Span> {
        self.entry(key).map(|(key, _)| key.span)
    }

    fn entry(&self, key: &str) -> Option<&(YamlKey, Self)> {
        self.as_mapping()?.iter().find(|(candidate, _)| candidate.text == key)
    }

    /// Returns the text, if this is text.
    pub fn as_str(&self) -> Option<&str> {
        if let YamlValue::String(text) = &self.value { Some(text) } else { None }
    }

    /// Returns the truth value, if this is one.
    pub fn as_bool(&self) -> Option<bool> {
        if let YamlValue::Bool(value) = self.value { Some(value) } else { None }
    }

    /// Returns the number, if this is a whole one.
    pub fn as_i64(&self) -> Option<i64> {
        if let YamlValue::Integer(number) = self.value { Some(number) } else { None }
    }

    /// Returns the number, if this is any.
    #[expect(clippy::cast_precision_loss, reason = "asking for a float accepts its precision")]
    pub fn as_f64(&self) -> Option<f64> {
        match self.value {
            YamlValue::Integer(number) => Some(number as f64),
            YamlValue::Float(number) => Some(number),
            YamlValue::Null
            | YamlValue::Bool(_)
            | YamlValue::String(_)
            | YamlValue::Sequence(_)
            | YamlValue::Mapping(_) => None,
        }
    }

    /// Returns the elements, if this is a list.
    pub fn as_sequence(&self) -> Option<&[Self]> {
        if let YamlValue::Sequence(elements) = &self.value { Some(elements) } else { None }
    }

    /// Returns the keys and values in the order written, if this is a mapping.
    pub fn as_mapping(&self) -> Option<&[(YamlKey, Self)]> {
        if let YamlValue::Mapping(entries) = &self.value { Some(entries) } else { None }
    }

    /// Returns whether there is no value.
    pub fn is_null(&self) -> bool {
        matches!(self.value, YamlValue::Null)
    }

    /// Returns what this is, in words that fit after "found".
    pub fn kind_name(&self) -> &'static str {
        match self.value {
            YamlValue::Null => "nothing",
            YamlValue::Bool(_) => "`true` or `false`",
            YamlValue::Integer(_) | YamlValue::Float(_) => "a number",
            YamlValue::String(_) => "text",
            YamlValue::Sequence(_) => "a list",
            YamlValue::Mapping(_) => "a mapping",
        }
    }

    /// Returns a scalar as text, spelled as in the file: `3.10` stays `3.10`.
    ///
    /// `null` and collections have no text.
    pub fn scalar_text(&self) -> Option<String> {
        if let (Some(written), false) = (&self.written, self.is_null()) {
            return Some(written.to_string());
        }
        match &self.value {
            YamlValue::Bool(value) => Some(value.to_string()),
            YamlValue::Integer(number) => Some(number.to_string()),
            YamlValue::Float(number) => Some(number.to_string()),
            YamlValue::String(text) => Some(text.clone()),
            YamlValue::Null | YamlValue::Sequence(_) | YamlValue::Mapping(_) => None,
        }
    }

    /// Returns the value as JSON. Numbers that JSON does not have (`.inf`, `.nan`) become text.
    pub fn to_json(&self) -> Value {
        match &self.value {
            YamlValue::Null => Value::Null,
            YamlValue::Bool(value) => Value::Bool(*value),
            YamlValue::Integer(number) => Value::from(*number),
            YamlValue::Float(number) => serde_json::Number::from_f64(*number)
                .map_or_else(|| Value::from(self.scalar_text()), Value::Number),
            YamlValue::String(text) => Value::String(text.clone()),
            YamlValue::Sequence(elements) => elements.iter().map(Self::to_json).collect(),
            YamlValue::Mapping(entries) => {
                entries.iter().map(|(key, value)| (key.text.clone(), value.to_json())).collect()
            }
        }
    }
}
