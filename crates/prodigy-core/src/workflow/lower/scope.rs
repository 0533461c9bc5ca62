//! Which names a piece of text may use.

use std::collections::BTreeSet;

use crate::template::Names;

/// Namespaces that exist in every phase.
const ALWAYS: &[&str] =
    &["claude", "env", "error", "last", "params", "shell", "steps", "validation", "workflow"];

/// Namespaces of the steps of an item.
const ITEM: &[&str] = &["agent_id", "item", "item_id", "item_index", "item_total"];

/// Namespaces of the steps of a loop.
const LOOP: &[&str] = &["index", "item", "total"];

/// Namespaces that only some phases have and that are not listed above.
const PHASES: &[&str] = &["map", "merge", "setup"];

/// The names that the texts of one phase may use.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    /// The roots.
    pub(super) names: Names,
}

impl Scope {
    /// The names that exist before anything has run.
    pub(super) fn settings() -> Self {
        Self::default().and(&["env", "params", "workflow"])
    }

    /// The names of any phase.
    pub(super) fn phase<'c>(captures: impl IntoIterator<Item = &'c String>) -> Self {
        Self::default().and(ALWAYS).adding(captures)
    }

    /// Adds captured names.
    pub(super) fn adding<'c>(&self, captures: impl IntoIterator<Item = &'c String>) -> Self {
        let mut scope = self.clone();
        scope.names.roots.extend(captures.into_iter().cloned());
        scope
    }

    /// Adds the names of an item.
    pub(super) fn with_item(self) -> Self {
        self.and(ITEM)
    }

    /// Adds the names of a loop.
    pub(super) fn with_loop(&self) -> Self {
        self.clone().and(LOOP)
    }

    /// Adds namespaces.
    pub(super) fn and(mut self, roots: &[&str]) -> Self {
        self.names.roots.extend(roots.iter().map(|root| (*root).to_owned()));
        self
    }
}

/// Every namespace; none of them may be the name of a captured variable.
pub(super) fn namespaces() -> BTreeSet<&'static str> {
    [ALWAYS, ITEM, LOOP, PHASES].into_iter().flatten().copied().collect()
}
