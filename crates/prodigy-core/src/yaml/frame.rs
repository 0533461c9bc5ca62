//! Lists and mappings that are being read.

use super::{Key, Node};
use crate::diagnostic::Span;

/// A list or mapping that is being read.
pub(super) struct Frame {
    /// Where it starts.
    pub(super) start: usize,
    /// The number of its anchor; 0 for none.
    pub(super) anchor: usize,
    /// How many values there were before this one.
    pub(super) nodes_before: usize,
    /// The height of the tallest child so far.
    pub(super) height: usize,
    /// What is in it so far.
    pub(super) collection: Collection,
}

/// What is in a list or mapping so far.
pub(super) enum Collection {
    /// The elements.
    List(Vec<Node>),
    /// The entries, and the key whose value comes next.
    Table {
        /// The entries.
        entries: Vec<(Key, Node)>,
        /// The key.
        key: Option<Key>,
    },
}

/// A value that aliases may repeat.
pub(super) struct Anchor {
    /// The value.
    pub(super) node: Node,
    /// How many values it has.
    pub(super) nodes: usize,
    /// How deeply it is nested.
    pub(super) height: usize,
}

impl Frame {
    /// Returns where the last thing in it stands.
    pub(super) fn last(&self) -> Option<Span> {
        match &self.collection {
            Collection::List(elements) => elements.last().map(|node| node.span),
            // An empty value has no place of its own worth pointing at.
            Collection::Table { entries, .. } => entries
                .last()
                .map(|(key, node)| if node.span.end > key.span.end { node.span } else { key.span }),
        }
    }

    /// Returns the place for the next key, if a key comes next.
    pub(super) fn empty_key(&mut self) -> Option<&mut Option<Key>> {
        match &mut self.collection {
            Collection::Table { key, .. } if key.is_none() => Some(key),
            Collection::Table { .. } | Collection::List(_) => None,
        }
    }
}
