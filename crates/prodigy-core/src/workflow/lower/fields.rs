//! The keys of a mapping, taken one by one.
//!
//! A key that nobody took is reported: what is written must have an effect.

use super::context::Lower;
use crate::{
    diagnostic::{Diagnostic, Span},
    yaml::{YamlKey, YamlNode},
};

/// The keys of one mapping that nobody has taken yet.
pub(super) struct Fields<'n> {
    /// Where the mapping stands.
    pub(super) span: Span,
    rest: Vec<&'n (YamlKey, YamlNode)>,
}

impl<'n> Fields<'n> {
    /// Takes the value of a key.
    pub(super) fn take(&mut self, name: &str) -> Option<&'n YamlNode> {
        self.take_entry(name).map(|(_, node)| node)
    }

    /// Takes the value of a key that has two names.
    pub(super) fn take_either(&mut self, name: &str, alias: &str) -> Option<&'n YamlNode> {
        // Both are taken: the structural check reports that they mean the same.
        let (first, second) = (self.take(name), self.take(alias));
        first.or(second)
    }

    /// Takes a key and its value.
    pub(super) fn take_entry(&mut self, name: &str) -> Option<&'n (YamlKey, YamlNode)> {
        let position = self.rest.iter().position(|(key, _)| key.text == name)?;
        Some(self.rest.remove(position))
    }

    /// Returns the value of a key and leaves it to be taken.
    pub(super) fn peek(&self, name: &str) -> Option<&'n YamlNode> {
        self.rest.iter().find(|(key, _)| key.text == name).map(|(_, node)| node)
    }

    /// Returns true if a key is present and not taken yet.
    pub(super) fn has(&self, name: &str) -> bool {
        self.peek(name).is_some()
    }

    /// Returns the keys that nobody has taken.
    pub(super) fn keys(&self) -> impl Iterator<Item = &'n YamlKey> {
        self.rest.iter().map(|(key, _)| key)
    }
}

impl Lower<'_> {
    /// Returns the keys of a mapping.
    pub(super) fn fields<'n>(&mut self, node: &'n YamlNode) -> Option<Fields<'n>> {
        let Some(entries) = node.as_mapping() else {
            self.wrong_kind(node, "a mapping");
            return None;
        };
        Some(Fields { span: node.span, rest: entries.iter().collect() })
    }

    /// Takes the value of a key that must be there.
    pub(super) fn required<'n>(
        &mut self,
        fields: &mut Fields<'n>,
        name: &str,
    ) -> Option<&'n YamlNode> {
        let node = fields.take(name);
        if node.is_none() {
            self.unusable(fields.span, format!("`{name}` is missing"));
        }
        node
    }

    /// Reports the keys that nobody took.
    pub(super) fn finish(&mut self, fields: Fields<'_>) {
        for (key, _) in fields.rest {
            let message = format!("`{}` has no effect here", key.text);
            self.report(Diagnostic::error(key.span, message));
        }
    }
}
