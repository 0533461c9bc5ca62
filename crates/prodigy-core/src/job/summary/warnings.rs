//! The warnings about work that succeeded.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::{
    event::{Event, EventRecord},
    ids::ItemId,
};

/// The most warnings that are kept one by one.
const MOST_KEPT: usize = 50;

/// The warnings of agents about work that succeeded.
///
/// Its size depends on how many items there were warnings about, not on how many warnings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentWarnings {
    /// The number of warnings.
    pub in_all: u64,
    /// The items they are about.
    pub items: BTreeSet<ItemId>,
    /// The first of them.
    pub first: Vec<AgentWarning>,
}

/// Something that a person should know of an agent that succeeded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AgentWarning {
    /// The item, if the step was one of an item.
    pub item_id: Option<ItemId>,
    /// The step's path.
    pub step: String,
    /// The agent's name.
    pub agent: String,
    /// The warning, for people.
    pub message: String,
}

impl AgentWarnings {
    /// Applies the next record.
    pub fn apply(&mut self, record: &EventRecord) {
        let Event::AgentWarned { step, agent, message } = &record.event else { return };
        self.in_all += 1;
        self.items.extend(record.item_id.clone());
        if self.first.len() < MOST_KEPT {
            self.first.push(AgentWarning {
                item_id: record.item_id.clone(),
                step: step.clone(),
                agent: agent.clone(),
                message: message.clone(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_are_counted_and_the_first_are_kept() {
        let mut warnings = AgentWarnings::default();
        for number in 0..200 {
            let record = json!({
                "format": 1, "seq": 1, "timestamp": "2026-01-02T03:04:05Z", "job_id": "job",
                "item_id": format!("item-{}", number % 120), "event_type": "agent_warned",
                "step": "1", "agent": "claude", "message": "it was not allowed to use `Bash`",
            });
            warnings.apply(&serde_json::from_value(record).unwrap());
        }
        assert_eq!((warnings.in_all, warnings.items.len()), (200, 120));
        assert_eq!(warnings.first.len(), MOST_KEPT);
        assert_eq!(warnings.first[0].item_id.as_ref().unwrap().as_str(), "item-0");
    }
}
