//! The number of items per outcome.

use serde::{Deserialize, Serialize};

use crate::event::AgentCompleted;

/// The kinds of failed steps that an attempt had although it succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedStepKinds {
    /// A step was recovered, by a new try or by a handler.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_recovered: bool,
    /// A step stayed failed, and the workflow says that this does not matter.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_ignored: bool,
}

impl FailedStepKinds {
    /// Returns the kinds of an attempt.
    pub fn of(done: &AgentCompleted) -> Self {
        Self { has_recovered: done.recovered > 0, has_ignored: done.ignored > 0 }
    }

    /// Returns whether there were no failed steps.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// The number of items per outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemCounts {
    /// Done.
    pub successful: u32,
    /// Done, with a failed step that was recovered; part of `successful`.
    pub recovered: u32,
    /// Done, with a failed step that was ignored; part of `successful`.
    #[serde(default)]
    pub ignored: u32,
    /// In the dead letter queue.
    pub dead_lettered: u32,
    /// Left out.
    pub skipped: u32,
}

impl ItemCounts {
    /// Counts an item that is done.
    pub(super) fn count_success(&mut self, failed_steps: FailedStepKinds) {
        self.successful += 1;
        self.recovered += u32::from(failed_steps.has_recovered);
        self.ignored += u32::from(failed_steps.has_ignored);
    }

    /// Returns how many items ended.
    pub fn finished(self) -> u32 {
        self.successful + self.failed()
    }

    /// Returns how many items ended without being done.
    pub fn failed(self) -> u32 {
        self.dead_lettered + self.skipped
    }
}
