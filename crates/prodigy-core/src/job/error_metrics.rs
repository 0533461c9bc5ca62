//! Metrics of a job's items, and the patterns of their failures.

use std::{cmp::Reverse, collections::BTreeMap};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    failure::{
        Failure, ReasonCode,
        signature::{ErrorSignature, error_type},
    },
    ids::ItemId,
};

/// The number of occurrences from which an error type is called a pattern.
const RECURRING: u64 = 3;
/// The most different messages that are counted one by one.
const MOST_PATTERNS: usize = 200;

/// The numbers of a job with items.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorMetrics {
    /// The number of items.
    pub total_items: u64,
    /// The number of items that succeeded.
    pub successful: u64,
    /// The number of items that failed for good.
    pub failed: u64,
    /// The number of skipped items.
    pub skipped: u64,
    /// The failed items as a part of all items, from 0 to 1.
    pub failure_rate: f64,
    /// The number of items by the error type of their final failure. Failures after which an
    /// item was retried do not count.
    pub error_types: BTreeMap<String, u64>,
    /// The error types that occurred three times or more, the most frequent first.
    pub failure_patterns: Vec<FailurePattern>,
}

/// An error that keeps coming back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailurePattern {
    /// The error type: `Timeout`, `CommandFailed`, ….
    pub pattern_type: String,
    /// The number of occurrences.
    pub frequency: u64,
    /// The action to take.
    pub suggested_action: String,
    /// The message that it most often came with, without numbers and names.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub example: String,
}

/// A failure that was counted, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountedFailure {
    /// The reason code of the item's failure.
    pub kind: ReasonCode,
    /// The place of its pattern, if there was room for it.
    pattern: Option<u16>,
}

/// Counts failures as they come, in a bounded amount of memory.
///
/// It is a part of what the events of a job fold into, so the same events give
/// the same counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorTally {
    /// The number of failures by error type.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    error_types: BTreeMap<String, u64>,
    /// The number of failures by signature pattern, in the order in which they came up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    patterns: Vec<(String, u64)>,
    /// The number of failures whose pattern there was no room for.
    #[serde(default, skip_serializing_if = "is_zero")]
    other: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl ErrorTally {
    /// Counts a failure; the answer is what [`ErrorTally::remove`] needs.
    pub fn add(&mut self, failure: &Failure, item: &ItemId) -> CountedFailure {
        let types = self.error_types.entry(error_type(failure.kind).to_owned()).or_default();
        *types = types.saturating_add(1);
        let pattern = ErrorSignature::of(failure, item).pattern;
        let known = self.patterns.iter().position(|(known, _)| *known == pattern);
        let place = known.or_else(|| {
            let is_room = self.patterns.len() < MOST_PATTERNS;
            is_room.then(|| {
                self.patterns.push((pattern, 0));
                self.patterns.len() - 1
            })
        });
        match place.and_then(|place| self.patterns.get_mut(place)) {
            Some((_, count)) => *count = count.saturating_add(1),
            None => self.other = self.other.saturating_add(1),
        }
        let pattern = place.and_then(|place| u16::try_from(place).ok());
        CountedFailure { kind: failure.kind, pattern }
    }

    /// Takes a failure back: its item is tried again.
    pub fn remove(&mut self, counted: CountedFailure) {
        let name = error_type(counted.kind);
        if let Some(count) = self.error_types.get_mut(name) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.error_types.remove(name);
            }
        }
        match counted.pattern.and_then(|place| self.patterns.get_mut(usize::from(place))) {
            Some((_, count)) => *count = count.saturating_sub(1),
            None => self.other = self.other.saturating_sub(1),
        }
    }

    /// Returns the numbers of a job whose items fared as given.
    pub fn metrics(&self, total: u64, successful: u64, failed: u64, skipped: u64) -> ErrorMetrics {
        let recurring = self.error_types.iter().filter(|(_, count)| **count >= RECURRING);
        let mut failure_patterns: Vec<FailurePattern> = recurring
            .map(|(error_type, count)| FailurePattern {
                pattern_type: error_type.clone(),
                frequency: *count,
                suggested_action: suggestion(error_type).to_owned(),
                example: self.example(error_type),
            })
            .collect();
        failure_patterns.sort_by_key(|pattern| Reverse(pattern.frequency));
        ErrorMetrics {
            total_items: total,
            successful,
            failed,
            skipped,
            failure_rate: rate(failed, total),
            error_types: self.error_types.clone(),
            failure_patterns,
        }
    }

    /// Returns the most frequent message of an error type.
    fn example(&self, error_type: &str) -> String {
        let messages = self.patterns.iter().filter_map(|(pattern, count)| {
            let (of, message) = pattern.split_once("::")?;
            (of == error_type && *count > 0).then_some((count, message))
        });
        // The first by name of those that are equally frequent, so that it is always the same.
        let most = messages.min_by_key(|(count, message)| (Reverse(*count), *message));
        most.map(|(_, message)| message.to_owned()).unwrap_or_default()
    }
}

#[expect(clippy::cast_precision_loss, reason = "no job has so many items that it would show")]
fn rate(failed: u64, total: u64) -> f64 {
    if total == 0 { 0.0 } else { (failed as f64 / total as f64).min(1.0) }
}

/// Returns the documented advice for an error type.
///
/// There are words of their own for three types. Which reason codes belong to a type says
/// [`error_type`]; the dead letters themselves say more.
fn suggestion(error_type: &str) -> &'static str {
    match error_type {
        "Timeout" => "Consider increasing timeout_per_agent",
        "NetworkError" => "Check network connectivity and retry settings",
        "PermissionError" => "Verify file permissions and access rights",
        _ => "Review error logs for more details.",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::failure::ReasonCode;

    fn tally(failures: &[(ReasonCode, &str)]) -> ErrorTally {
        let mut tally = ErrorTally::default();
        for (kind, message) in failures {
            tally.add(&Failure::new(*kind, *message), &ItemId::from_position(1, 1));
        }
        tally
    }

    #[test]
    fn an_error_type_is_a_pattern_from_the_third_time_on() {
        let twice = [(ReasonCode::Timeout, "took 5s"); 2];
        assert_eq!(tally(&twice).metrics(2, 0, 2, 0).failure_patterns, []);
        let thrice = tally(&[(ReasonCode::Timeout, "took 5s"); 3]).metrics(4, 1, 3, 0);
        insta::assert_snapshot!(serde_json::to_string_pretty(&thrice).unwrap(), @r#"
        {
          "total_items": 4,
          "successful": 1,
          "failed": 3,
          "skipped": 0,
          "failure_rate": 0.75,
          "error_types": {
            "Timeout": 3
          },
          "failure_patterns": [
            {
              "pattern_type": "Timeout",
              "frequency": 3,
              "suggested_action": "Consider increasing timeout_per_agent",
              "example": "took <time>"
            }
          ]
        }
        "#);
    }

    #[test]
    fn three_error_types_have_advice_of_their_own() {
        let mut failures = Vec::new();
        for kind in ReasonCode::ALL {
            failures.extend([(*kind, "exit code 1"), (*kind, "exit code 2"), (*kind, "b")]);
        }
        let metrics = tally(&failures).metrics(100, 49, 51, 0);
        let table: Vec<String> = metrics
            .failure_patterns
            .iter()
            .map(|p| {
                format!(
                    "{} {}: {} ({})",
                    p.frequency, p.pattern_type, p.suggested_action, p.example
                )
            })
            .collect();
        insta::assert_snapshot!(table.join("\n"), @"
        54 Unknown: Review error logs for more details. (exit code <n>)
        24 CommandFailed: Review error logs for more details. (exit code <n>)
        24 PermissionError: Verify file permissions and access rights (exit code <n>)
        21 ValidationFailed: Review error logs for more details. (exit code <n>)
        18 ResourceExhausted: Review error logs for more details. (exit code <n>)
        15 NetworkError: Check network connectivity and retry settings (exit code <n>)
        6 Timeout: Consider increasing timeout_per_agent (exit code <n>)
        6 WorktreeError: Review error logs for more details. (exit code <n>)
        3 CommitValidationFailed: Review error logs for more details. (exit code <n>)
        3 MergeConflict: Review error logs for more details. (exit code <n>)
        ");
    }

    #[test]
    fn a_tally_stays_small_and_counts_everything() {
        let mut tally = ErrorTally::default();
        let letters = |n: u32| -> String {
            format!("{n:05}").bytes().map(|b| char::from(b - b'0' + b'a')).collect()
        };
        for n in 0..5000 {
            tally.add(
                &Failure::new(ReasonCode::CommandFailed, format!("cannot {}", letters(n))),
                &ItemId::from_position(1, 1),
            );
        }
        assert_eq!(tally.patterns.len(), MOST_PATTERNS);
        assert_eq!(tally.patterns.iter().map(|(_, count)| count).sum::<u64>() + tally.other, 5000);
        assert_eq!(tally.metrics(5000, 0, 5000, 0).error_types["CommandFailed"], 5000);
        assert!(serde_json::to_string(&tally).unwrap().len() < 50_000);
    }

    #[test]
    fn a_job_without_items_has_no_failure_rate() {
        let empty = ErrorTally::default().metrics(0, 0, 0, 0);
        insta::assert_snapshot!(serde_json::to_string(&empty).unwrap(), @r#"{"total_items":0,"successful":0,"failed":0,"skipped":0,"failure_rate":0.0,"error_types":{},"failure_patterns":[]}"#);
        assert_eq!(serde_json::to_string(&ErrorTally::default()).unwrap(), "{}");
    }

    proptest! {
        #[test]
        fn a_tally_can_be_stored_between_any_two_failures(
            failures in prop::collection::vec((prop::sample::select(ReasonCode::ALL), "[a-d0-9 ]{0,8}"), 0..20),
            at in 0_usize..20,
        ) {
            let mut whole = ErrorTally::default();
            let mut stored = ErrorTally::default();
            for (number, (kind, message)) in failures.iter().enumerate() {
                if number == at {
                    stored = serde_json::from_str(&serde_json::to_string(&stored).unwrap()).unwrap();
                }
                let failure = Failure::new(*kind, message.as_str());
                whole.add(&failure, &ItemId::from_position(1, 1));
                stored.add(&failure, &ItemId::from_position(1, 1));
            }
            prop_assert_eq!(&stored, &whole);
            let metrics = whole.metrics(40, 10, 20, 10);
            let read: ErrorMetrics = serde_json::from_str(&serde_json::to_string(&metrics).unwrap()).unwrap();
            prop_assert_eq!(read, metrics);
        }
    }
}
