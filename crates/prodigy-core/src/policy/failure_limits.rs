//! When failed items stop the job.

use serde::{Deserialize, Serialize};

use crate::{
    failure::{Failure, signature::ErrorSignature},
    ids::ItemId,
    workflow::{ErrorPolicy, OnItemFailure},
};

/// The most of a pattern that is told, in characters.
const PATTERN_CHARS: usize = 160;

/// The items that ended since the run began; what was there before a resume is forgiven.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureCounter {
    /// The number of finished items.
    pub finished: u32,
    /// The number of failed items.
    pub failed: u32,
    /// The failures of one kind that came last, one after the other.
    #[serde(default, skip_serializing_if = "FailureStreak::is_empty")]
    row: FailureStreak,
    /// The most that there were in a row.
    #[serde(default, skip_serializing_if = "FailureStreak::is_empty")]
    longest: FailureStreak,
}

/// Failures of one kind, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct FailureStreak {
    /// The hash of their signature.
    signature: String,
    /// The pattern of their errors, for people.
    pattern: String,
    /// The number of failures.
    length: u32,
}

impl FailureStreak {
    fn is_empty(&self) -> bool {
        self.length == 0
    }
}

impl FailureCounter {
    /// Counts an item that succeeded.
    pub fn record_success(&mut self) {
        self.finished += 1;
        self.row = FailureStreak::default();
    }

    /// Counts an item that failed for good.
    pub fn record_failure(&mut self, failure: &Failure, item: &ItemId) {
        self.finished += 1;
        self.failed += 1;
        let ErrorSignature { hash, pattern } = ErrorSignature::of(failure, item);
        if self.row.signature != hash {
            let pattern = pattern.chars().take(PATTERN_CHARS).collect();
            self.row = FailureStreak { signature: hash, pattern, length: 0 };
        }
        self.row.length += 1;
        // What is under way when a row is too long may still succeed; that changes nothing.
        if self.row.length > self.longest.length {
            self.longest = self.row.clone();
        }
    }

    /// Returns why no further item may start, for people.
    pub fn stop_reason(&self, policy: &ErrorPolicy) -> Option<String> {
        let Self { finished, failed, longest, .. } = self;
        let (finished, failed) = (*finished, *failed);
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
        if let Some(most) = policy.systemic_stop
            && longest.length >= most.get()
        {
            let FailureStreak { pattern, length, .. } = longest;
            return Some(format!(
                "{length} items in a row failed alike ({pattern}), and `systemic_stop` is {most}"
            ));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::ReasonCode;

    /// Returns the longest row after items ended so: `+` succeeded, others failed with that code.
    fn longest(ends: &str) -> (u32, String) {
        let mut judged = FailureCounter::default();
        for (number, end) in (1..).zip(ends.chars()) {
            let item = ItemId::from_position(number, 100);
            let message = format!("`./fix {item}` failed {end} in /tmp/{number}");
            let failure = Failure::new(ReasonCode::CommandFailed, message);
            match end {
                '+' => judged.record_success(),
                _ => judged.record_failure(&failure, &item),
            }
        }
        (judged.longest.length, judged.longest.pattern)
    }

    #[test]
    fn a_row_ends_with_a_success_and_with_another_failure() {
        assert_eq!(longest("aaa").0, 3);
        assert_eq!(longest("aa+a").0, 2);
        assert_eq!(longest("aabaab").0, 2);
        assert_eq!(longest("abab").0, 1);
        assert_eq!(longest("+++").0, 0);
        // What comes later does not make it shorter.
        assert_eq!(longest("aaa+bb").0, 3);
        insta::assert_snapshot!(longest("aa").1, @"CommandFailed::<q> failed a in <path>");
    }
}
