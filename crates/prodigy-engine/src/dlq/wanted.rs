//! The dead letters that are to be replayed.

use std::collections::HashMap;

use prodigy_core::ids::ItemId;

use super::DeadLetterSummary;

/// Dead letters that are to be replayed, by what they died of.
#[derive(Clone, Debug, Default)]
pub struct ReplayBatch {
    causes: Vec<CauseGroup>,
    numbers: HashMap<String, usize>,
}

/// Dead letters that died of the same.
#[derive(Clone, Debug)]
pub(crate) struct CauseGroup {
    pub(crate) signature: String,
    pub(crate) pattern: String,
    pub(crate) items: Vec<ItemId>,
}

impl ReplayBatch {
    /// Adds an entry.
    pub fn add(&mut self, heading: &DeadLetterSummary) {
        let known = self.numbers.get(&heading.error_signature).copied();
        let number = known.unwrap_or(self.causes.len());
        if known.is_none() {
            let signature = heading.error_signature.clone();
            self.numbers.insert(signature.clone(), number);
            let pattern = heading.error_pattern.clone();
            self.causes.push(CauseGroup { signature, pattern, items: Vec::new() });
        }
        if let Some(cause) = self.causes.get_mut(number) {
            cause.items.push(heading.item_id.clone());
        }
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.causes.iter().map(|cause| cause.items.len()).sum()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.causes.is_empty()
    }

    pub(crate) fn causes(&self) -> impl Iterator<Item = &CauseGroup> {
        self.causes.iter()
    }
}
