//! Previous failures of an item, as context for its next attempt.

use serde::{Deserialize, Serialize};

use crate::failure::{Failure, ReasonCode};

/// The maximum number of failures that are kept.
const MOST: usize = 3;
/// The most of a message that is remembered, in bytes.
const MESSAGE: usize = 300;
/// The most of what was printed last, in bytes.
const TAIL: usize = 600;

/// An attempt that failed for a reason that lies in the work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviousFailure {
    /// Which attempt it was, from 1.
    pub attempt: u32,
    /// The path of the step that failed, if it was a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The reason code of the failure.
    pub kind: ReasonCode,
    /// The failure message, for people; perhaps truncated.
    pub message: String,
    /// The end of what was printed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tail: String,
}

impl PreviousFailure {
    /// Makes one of a failure.
    pub fn of(attempt: u32, step: Option<&str>, failure: &Failure) -> Self {
        let message = &failure.message;
        let end = (0..=MESSAGE.min(message.len())).rev().find(|at| message.is_char_boundary(*at));
        let tail = &failure.output_tail;
        let from = tail.len().saturating_sub(TAIL);
        let from = (from..=tail.len()).find(|at| tail.is_char_boundary(*at));
        Self {
            attempt,
            step: step.map(str::to_owned),
            kind: failure.kind,
            message: message.get(..end.unwrap_or_default()).unwrap_or_default().to_owned(),
            tail: tail.get(from.unwrap_or_default()..).unwrap_or_default().to_owned(),
        }
    }

    /// Adds it to others, of which the oldest is forgotten if there are too many. What says
    /// nothing about the work is not added.
    pub fn push_to(self, others: &mut Vec<Self>) {
        if self.kind.is_environmental() {
            return;
        }
        if others.len() >= MOST {
            others.remove(0);
        }
        others.push(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setback(attempt: u32, kind: ReasonCode) -> PreviousFailure {
        PreviousFailure::of(attempt, Some("1"), &Failure::new(kind, "why"))
    }

    #[test]
    fn the_last_failures_that_lie_in_the_work_are_remembered() {
        let mut all = Vec::new();
        for attempt in 1..=5 {
            setback(attempt, ReasonCode::CommandFailed).push_to(&mut all);
            setback(attempt, ReasonCode::Timeout).push_to(&mut all);
            setback(attempt, ReasonCode::Cancelled).push_to(&mut all);
        }
        let attempts: Vec<_> = all.iter().map(|one| (one.attempt, one.kind.code())).collect();
        assert_eq!(attempts, [(3, "command_failed"), (4, "command_failed"), (5, "command_failed")]);
    }

    #[test]
    fn what_is_remembered_is_short_and_whole_letters() {
        let mut failure = Failure::new(ReasonCode::CommandFailed, "ä".repeat(1000));
        failure.output_tail = "ö".repeat(1000);
        failure.output_tail.push('x');
        let setback = PreviousFailure::of(1, None, &failure);
        assert_eq!(setback.message, "ä".repeat(MESSAGE / 2));
        assert_eq!(setback.tail.len(), TAIL - 1);
        assert!(setback.tail.ends_with("öx"));
    }
}
