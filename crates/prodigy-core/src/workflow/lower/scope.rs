//! Which names a piece of text may use.

use std::collections::BTreeSet;

use crate::template::VarRoots;

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
    pub(super) names: VarRoots,
    /// Those that are still known when an item's attempt is over, if this is about items.
    pub(super) lasting: Option<BTreeSet<String>>,
    /// Set if a step here runs for many items at once.
    pub(super) is_shared: bool,
    /// Set if agents here leave their work uncommitted unless their step says otherwise.
    pub(super) leaves_uncommitted: bool,
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

    /// Adds the names of an item; `before` has those that the item does not make itself.
    pub(super) fn with_item(self, before: &Self) -> Self {
        let mut scope = self.and(ITEM);
        let of_steps = ["claude", "error", "last", "shell", "steps", "validation"];
        let mut lasting = before.names.roots.clone();
        lasting.retain(|root| !of_steps.contains(&root.as_str()));
        let known = ITEM.iter().filter(|root| **root != "agent_id");
        lasting.extend(known.map(|root| (*root).to_owned()));
        scope.lasting = Some(lasting);
        scope
    }

    /// Adds the names of a loop, whose values are gone when it is over.
    pub(super) fn with_loop(&self) -> Self {
        let mut scope = self.clone().and(LOOP);
        if let Some(lasting) = &mut scope.lasting {
            lasting.retain(|root| !LOOP.contains(&root.as_str()));
        }
        scope
    }

    /// Says that what runs here is for many items at once.
    pub(super) fn shared(&self) -> Self {
        Self { is_shared: true, ..self.clone() }
    }

    /// Says that agents here leave their work uncommitted unless their step says otherwise:
    /// others write to the same worktree at the same time, or what they leave is no work.
    pub(super) fn uncommitted(&self) -> Self {
        Self { leaves_uncommitted: true, ..self.clone() }
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
