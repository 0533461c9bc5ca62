//! The values that the person who runs the workflow chooses.

use serde_json::Value;

use super::context::Lower;
use crate::{
    diagnostic::Diagnostic,
    workflow::{Parameter, ParameterKind},
    yaml::{YamlKey, YamlNode},
};

const KINDS: &[(&str, ParameterKind)] = &[
    ("string", ParameterKind::String),
    ("number", ParameterKind::Number),
    ("boolean", ParameterKind::Boolean),
    ("array", ParameterKind::Array),
    ("object", ParameterKind::Object),
];

impl Lower<'_> {
    /// Reads the parameters.
    pub(super) fn parameters(&mut self, node: &YamlNode) -> Vec<Parameter> {
        let entries = self.table(node).iter();
        entries.filter_map(|(key, value)| self.parameter(key, value)).collect()
    }

    fn parameter(&mut self, key: &YamlKey, node: &YamlNode) -> Option<Parameter> {
        let mut fields = self.fields(node)?;
        let default = fields.take("default");
        let kind = fields.take("type").and_then(|node| self.word(node, KINDS));
        let kind = kind.or_else(|| kind_of(&default?.to_json())).unwrap_or(ParameterKind::String);
        let choices = fields.take("enum").map(|node| self.list(node)).unwrap_or_default();
        let choices: Vec<Value> =
            choices.iter().filter_map(|choice| self.of_kind(key, kind, choice)).collect();
        let value = default.and_then(|node| self.of_kind(key, kind, node));
        if let (Some(node), Some(value)) = (default, &value)
            && !choices.is_empty()
            && !choices.contains(value)
        {
            let message = format!("the value of `{}` is not one of its `enum`", key.text);
            self.report(Diagnostic::error(node.span, message));
        }
        let required = fields.take_entry("required");
        let wanted = required.and_then(|(_, node)| self.boolean(node)).unwrap_or_default();
        if let (Some((required, _)), true, Some(_)) = (required, wanted, default) {
            let message = "a parameter with a default is never missing";
            let help = "keep `required` or `default`";
            self.report(Diagnostic::error(required.span, message).help(help));
        }
        let description = fields.take("description").and_then(|node| self.text(node));
        self.finish(fields);
        let name = key.text.clone();
        Some(Parameter { name, kind, default: value, required: wanted, choices, description })
    }

    fn of_kind(&mut self, key: &YamlKey, kind: ParameterKind, node: &YamlNode) -> Option<Value> {
        let value = node.to_json();
        if kind_of(&value) == Some(kind) {
            return Some(value);
        }
        let wanted = KINDS.iter().find(|(_, known)| *known == kind).map_or("", |(word, _)| word);
        let message =
            format!("`{}` is of the type `{wanted}`, and this is {}", key.text, node.kind_name());
        self.report(Diagnostic::error(node.span, message));
        None
    }
}

fn kind_of(value: &Value) -> Option<ParameterKind> {
    match value {
        Value::Null => None,
        Value::Bool(_) => Some(ParameterKind::Boolean),
        Value::Number(_) => Some(ParameterKind::Number),
        Value::String(_) => Some(ParameterKind::String),
        Value::Array(_) => Some(ParameterKind::Array),
        Value::Object(_) => Some(ParameterKind::Object),
    }
}
