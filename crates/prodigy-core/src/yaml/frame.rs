//! Lists and mappings that are being read.

use std::collections::HashMap;

use super::{YamlKey, YamlNode};
use crate::diagnostic::Span;

/// A list or mapping that is being read.
pub(super) struct ParseFrame {
    /// Where it starts.
    pub(super) start: usize,
    /// The number of its anchor; 0 for none.
    pub(super) anchor: usize,
    /// The number of values before this one.
    pub(super) nodes_before: usize,
    /// The height of the tallest child so far.
    pub(super) height: usize,
    /// The content so far.
    pub(super) collection: Collection,
}

/// The content of a list or mapping so far.
pub(super) enum Collection {
    /// The elements.
    List(Vec<YamlNode>),
    /// The entries, and the key whose value comes next.
    Table {
        /// The entries.
        entries: Vec<(YamlKey, YamlNode)>,
        /// The key.
        key: Option<YamlKey>,
    },
}

/// A value that aliases may repeat.
pub(super) struct YamlAnchor {
    /// The value.
    pub(super) node: YamlNode,
    /// The number of its values.
    pub(super) nodes: usize,
    /// The depth of its nesting.
    pub(super) height: usize,
}

impl ParseFrame {
    /// Returns where the last thing in it stands.
    pub(super) fn last_span(&self) -> Option<Span> {
        match &self.collection {
            Collection::List(elements) => elements.last().map(|node| node.span),
            // An empty value has no place of its own worth pointing at.
            Collection::Table { entries, .. } => entries
                .last()
                .map(|(key, node)| if node.span.end > key.span.end { node.span } else { key.span }),
        }
    }

    /// Returns the place for the next key, if a key comes next.
    pub(super) fn empty_key(&mut self) -> Option<&mut Option<YamlKey>> {
        match &mut self.collection {
            Collection::Table { key, .. } if key.is_none() => Some(key),
            Collection::Table { .. } | Collection::List(_) => None,
        }
    }
}

/// Returns each key that was there before, with the first one of its name.
///
/// Keys that are mistakes by themselves are not looked at.
pub(super) fn duplicates(entries: &[(YamlKey, YamlNode)]) -> Vec<(&YamlKey, &YamlKey)> {
    let keys = entries.iter().map(|(key, _)| key);
    let keys = keys.filter(|key| !key.text.is_empty() && key.text != "<<");
    let mut seen: Vec<&YamlKey> = Vec::new();
    let mut index: HashMap<&str, &YamlKey> = HashMap::new();
    let mut found = Vec::new();
    for key in keys {
        // Most mappings are small; a hash table costs more than a look at a few keys.
        let before = if seen.len() < 16 {
            seen.iter().copied().find(|before| before.text == key.text)
        } else {
            if index.is_empty() {
                index.extend(seen.iter().map(|key| (key.text.as_str(), *key)));
            }
            index.get(key.text.as_str()).copied()
        };
        match before {
            Some(before) => found.push((before, key)),
            None if index.is_empty() => seen.push(key),
            None => {
                index.insert(&key.text, key);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::YamlValue;

    #[test]
    fn a_key_is_found_again_in_small_and_large_mappings() {
        for size in [1, 15, 16, 17, 100] {
            let key = |start: u32, number: u32| {
                let span = Span { file: 0, start, end: start };
                (YamlKey { span, text: format!("k{number}") }, YamlNode::new(span, YamlValue::Null))
            };
            let mut entries: Vec<_> = (0..size).map(|number| key(number, number)).collect();
            assert_eq!(duplicates(&entries), []);
            entries.push(key(1000, 0));
            entries.push(key(1001, size - 1));
            let starts: Vec<_> = duplicates(&entries)
                .iter()
                .map(|(before, key)| (before.span.start, key.span.start))
                .collect();
            assert_eq!(starts, [(0, 1000), (size - 1, 1001)], "{size} keys");
        }
    }
}
