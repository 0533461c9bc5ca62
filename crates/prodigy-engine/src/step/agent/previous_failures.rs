//! Previous failures, for the agent that retries.

use std::{
    fmt::Write as _,
    sync::{Mutex, PoisonError},
};

use prodigy_core::{failure::Failure, job::PreviousFailure};

/// The most that an agent is told about it, in bytes.
const LONGEST: usize = 4096;

/// The previous failures.
#[derive(Debug, Default)]
pub struct PreviousFailures {
    /// In earlier attempts at the item.
    attempts: Vec<PreviousFailure>,
    /// In earlier tries of steps within the attempt.
    tries: Mutex<Vec<PreviousFailure>>,
}

impl PreviousFailures {
    /// Begins with what is known of earlier attempts.
    pub fn new(attempts: Vec<PreviousFailure>) -> Self {
        Self { attempts, tries: Mutex::default() }
    }

    /// Takes down that a try of a step failed.
    pub(crate) fn add(&self, step: &str, attempt: u32, failure: &Failure) {
        let mut tries = self.tries.lock().unwrap_or_else(PoisonError::into_inner);
        PreviousFailure::of(attempt, Some(step), failure).push_to(&mut tries);
    }

    /// Returns what an agent should know that works on a step now; nothing if nothing failed.
    pub(crate) fn prompt_text(&self, step: &str) -> Option<String> {
        let tries = self.tries.lock().unwrap_or_else(PoisonError::into_inner);
        let tries = tries.iter().filter(|one| one.step.as_deref() == Some(step));
        let tries = tries.map(|one| ("try", one));
        let attempts = self.attempts.iter().filter(|one| concerns(one.step.as_deref(), step));
        let attempts = attempts.map(|one| ("attempt", one));
        let mut text = String::new();
        for (what, one) in attempts.chain(tries) {
            let PreviousFailure { attempt, kind, message, tail, .. } = one;
            let place = match &one.step {
                Some(at) if at != step => format!(", in step {at} after it"),
                Some(_) | None => String::new(),
            };
            write!(text, "\n- {what} {attempt}{place}: {kind}: {message}\n").ok();
            for line in tail.lines() {
                writeln!(text, "  {line}").ok();
            }
        }
        if text.is_empty() {
            return None;
        }
        let mut text = format!("This was tried before and failed:\n{text}");
        let end = (0..=LONGEST.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or_default());
        Some(text.trim_end().to_owned())
    }
}

/// Returns whether what happened at a step may come from what another one did: from itself, or
/// from one of the item's own steps that ran before.
fn concerns(failed: Option<&str>, step: &str) -> bool {
    let Ok(number) = step.parse::<u32>() else { return failed == Some(step) };
    let first = failed.and_then(|path| path.split('.').next()?.parse::<u32>().ok());
    // A failure without a step is one of the attempt as a whole.
    first.is_none_or(|first| number <= first)
}

#[cfg(test)]
mod tests {
    use prodigy_core::failure::ReasonCode;

    use super::*;

    fn failure(kind: ReasonCode, message: &str, tail: &str) -> Failure {
        Failure { output_tail: tail.to_owned(), ..Failure::new(kind, message) }
    }

    #[test]
    fn an_agent_is_told_what_came_of_its_work_before() {
        let tests = failure(ReasonCode::CommandFailed, "exit code 1", "1 failed\nexpected 2");
        let past = PreviousFailures::new(vec![PreviousFailure::of(1, Some("2"), &tests)]);
        past.add("1", 1, &failure(ReasonCode::NoCommit, "the step made no commit", ""));
        past.add("1", 2, &failure(ReasonCode::Timeout, "still running after 5s", ""));
        insta::assert_snapshot!(past.prompt_text("1").unwrap(), @"
        This was tried before and failed:

        - attempt 1, in step 2 after it: command_failed: exit code 1
          1 failed
          expected 2

        - try 1: no_commit: the step made no commit
        ");
        assert_eq!(past.prompt_text("3"), None);
        assert_eq!(past.prompt_text("1.on_failure.1"), None);
        assert_eq!(PreviousFailures::default().prompt_text("1"), None);
    }

    #[test]
    fn it_is_not_told_more_than_it_can_read() {
        let past = PreviousFailures::new(
            (1..=3)
                .map(|attempt| {
                    let long =
                        failure(ReasonCode::CommandFailed, &"m".repeat(999), &"ä\n".repeat(999));
                    PreviousFailure {
                        tail: "ä\n".repeat(999),
                        ..PreviousFailure::of(attempt, Some("1"), &long)
                    }
                })
                .collect(),
        );
        assert!(past.prompt_text("1").unwrap().len() <= LONGEST);
    }
}
