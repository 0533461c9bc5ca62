//! Where items would be worked on.

use prodigy_core::workflow::{Isolation, Map, Step};
use serde_json::{Value, json};

use super::planned_items::PlannedItems;
use crate::progress::plural;

/// Where items would be worked on.
pub(crate) struct WorktreePlan<'a> {
    map: &'a Map,
    /// The number of items in flight.
    pub(crate) at_once: u32,
    /// The number of worktrees, if it is known.
    slots: Option<u32>,
}

impl<'a> WorktreePlan<'a> {
    /// Works out how many places there are for so many items at once.
    pub(crate) fn new(map: &'a Map, chosen: &PlannedItems, at_once: u32) -> Self {
        let items = chosen.count().map(|items| u32::try_from(items).unwrap_or(u32::MAX));
        Self { map, at_once, slots: items.map(|items| items.min(at_once)) }
    }

    /// Returns the steps that are run once in each new worktree.
    pub(crate) fn setup(&self) -> &'a [Step] {
        &self.map.worktree.setup
    }

    /// Says where items are worked on.
    pub(crate) fn line(&self) -> String {
        let mut parts = vec![match (self.map.isolation, self.slots) {
            (Isolation::Shared, _) => "none of their own: items share that of the job".to_owned(),
            (Isolation::Worktree, Some(slots)) => {
                format!("{slots}, used by one item after another")
            }
            (Isolation::Worktree, None) => {
                format!("up to {}, used by one item after another", self.at_once)
            }
        }];
        let config = &self.map.worktree;
        let named = |paths: &[String]| {
            let paths: Vec<_> = paths.iter().map(|path| format!("`{path}`")).collect();
            paths.join(", ")
        };
        if !config.copy.is_empty() {
            parts.push(format!("copied: {}", named(&config.copy)));
        }
        if let Some(include) = &config.include {
            parts.push(format!("copied: what `{include}` names"));
        }
        if !config.link.is_empty() {
            parts.push(format!("linked: {}", named(&config.link)));
        }
        if !config.setup.is_empty() {
            parts.push(format!("{} in each new one", plural(config.setup.len(), "step")));
        }
        parts.join(" · ")
    }

    /// Returns the same for the JSON document.
    pub(crate) fn json(&self) -> Value {
        let isolation = match self.map.isolation {
            Isolation::Worktree => "worktree",
            Isolation::Shared => "shared",
        };
        let config = &self.map.worktree;
        json!({
            "isolation": isolation,
            "slots": self.slots.filter(|_| self.map.isolation == Isolation::Worktree),
            "copy": config.copy,
            "include": config.include,
            "link": config.link,
        })
    }
}
