//! Looking into a value.

use serde_json::Value;

use super::{Key, Node, Yaml};
use crate::diagnostic::Span;

impl Node {
    /// Creates a value that was not spelled in any special way.
    pub fn new(span: Span, value: Yaml) -> Self {
        Self { span, value, written: None }
    }

    /// Creates a scalar that remembers how it was spelled, if that is not how it would be shown.
    pub(super) fn spelled(span: Span, value: Yaml, text: &str) -> Self {
        let mut node = Self::new(span, value);
        let is_text = matches!(node.value, Yaml::String(_));
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

    fn entry(&self, key: &str) -> Option<&(Key, Self)> {
        self.as_mapping()?.iter().find(|(candidate, _)| candidate.text == key)
    }

    /// Returns the text, if this is text.
    pub fn as_str(&self) -> Option<&str> {
        if let Yaml::String(text) = &self.value { Some(text) } else { None }
    }

    /// Returns the truth value, if this is one.
    pub fn as_bool(&self) -> Option<bool> {
        if let Yaml::Bool(value) = self.value { Some(value) } else { None }
    }

    /// Returns the number, if this is a whole one.
    pub fn as_i64(&self) -> Option<i64> {
        if let Yaml::Integer(number) = self.value { Some(number) } else { None }
    }

    /// Returns the number, if this is any.
    #[expect(clippy::cast_precision_loss, reason = "asking for a float accepts its precision")]
    pub fn as_f64(&self) -> Option<f64> {
        match self.value {
            Yaml::Integer(number) => Some(number as f64),
            Yaml::Float(number) => Some(number),
            Yaml::Null | Yaml::Bool(_) | Yaml::String(_) | Yaml::Sequence(_) | Yaml::Mapping(_) => {
                None
            }
        }
    }

    /// Returns the elements, if this is a list.
    pub fn as_sequence(&self) -> Option<&[Self]> {
        if let Yaml::Sequence(elements) = &self.value { Some(elements) } else { None }
    }

    /// Returns the keys and values in the order written, if this is a mapping.
    pub fn as_mapping(&self) -> Option<&[(Key, Self)]> {
        if let Yaml::Mapping(entries) = &self.value { Some(entries) } else { None }
    }

    /// Returns whether there is no value.
    pub fn is_null(&self) -> bool {
        matches!(self.value, Yaml::Null)
    }

    /// Returns what this is, in words that fit after "found".
    pub fn kind(&self) -> &'static str {
        match self.value {
            Yaml::Null => "nothing",
            Yaml::Bool(_) => "`true` or `false`",
            Yaml::Integer(_) | Yaml::Float(_) => "a number",
            Yaml::String(_) => "text",
            Yaml::Sequence(_) => "a list",
            Yaml::Mapping(_) => "a mapping",
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
            Yaml::Bool(value) => Some(value.to_string()),
            Yaml::Integer(number) => Some(number.to_string()),
            Yaml::Float(number) => Some(number.to_string()),
            Yaml::String(text) => Some(text.clone()),
            Yaml::Null | Yaml::Sequence(_) | Yaml::Mapping(_) => None,
        }
    }

    /// Returns the value as JSON. Numbers that JSON does not have (`.inf`, `.nan`) become text.
    pub fn to_json(&self) -> Value {
        match &self.value {
            Yaml::Null => Value::Null,
            Yaml::Bool(value) => Value::Bool(*value),
            Yaml::Integer(number) => Value::from(*number),
            Yaml::Float(number) => serde_json::Number::from_f64(*number)
                .map_or_else(|| Value::from(self.scalar_text()), Value::Number),
            Yaml::String(text) => Value::String(text.clone()),
            Yaml::Sequence(elements) => elements.iter().map(Self::to_json).collect(),
            Yaml::Mapping(entries) => {
                entries.iter().map(|(key, value)| (key.text.clone(), value.to_json())).collect()
            }
        }
    }
}
