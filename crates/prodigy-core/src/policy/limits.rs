//! When failed items stop the job.

use serde::{Deserialize, Serialize};

use crate::workflow::{ErrorPolicy, OnItemFailure};

/// The items that ended since the run began; what was there before a resume is forgiven.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judged {
    /// How many ended.
    pub finished: u32,
    /// How many of them failed.
    pub failed: u32,
}

impl Judged {
    /// Returns why no further item may start, for people.
    pub fn stops(self, policy: &ErrorPolicy) -> Option<String> {
        let Self { finished, failed } = self;
        if failed == 0 {
            return None;
        }
        if policy.on_item_failure == OnItemFailure::Stop {
            return Some("an item failed, and `on_item_failure` is `stop`".to_owned());
        }
        if !policy.continue_on_failure {
            return Some("an item failed, and `continue_on_failure` is false".to_owned());
        }
        if let Some(most) = policy.max_failures
            && failed >= most.get()
        {
            let items = if failed == 1 { "item" } else { "items" };
            return Some(format!("{failed} {items} failed, and `max_failures` is {most}"));
        }
        let share = f64::from(failed) / f64::from(finished.max(1));
        if let Some(threshold) = policy.failure_threshold
            && finished >= policy.min_items
            && share > threshold
        {
            return Some(format!(
                "{failed} of {finished} items failed, and `failure_threshold` is {threshold}"
            ));
        }
        None
    }
}
