//! The place of a value in a file, as messages name it.

use crate::{
    diagnostic::Span,
    yaml::{YamlKey, YamlNode},
};

/// The title of a value in messages, and the span to point at if the value has no text.
pub(crate) struct Place {
    pub(crate) title: String,
    pub(crate) owner: Span,
}

impl Place {
    pub(crate) fn new(title: impl Into<String>, owner: Span) -> Self {
        Self { title: title.into(), owner }
    }

    /// The value of a key.
    pub(crate) fn key(key: &YamlKey) -> Self {
        Self::new(format!("`{}`", key.text), key.span)
    }

    /// An element of the list at this place.
    pub(crate) fn element(&self, element: &YamlNode) -> Self {
        let title = if self.title.starts_with("each element") {
            self.title.clone()
        } else {
            format!("each element of {}", self.title)
        };
        Self::new(title, self.span(element))
    }

    /// Returns what to underline for a problem with the whole value.
    pub(crate) fn span(&self, node: &YamlNode) -> Span {
        if node.span.start == node.span.end { self.owner } else { node.span }
    }
}
