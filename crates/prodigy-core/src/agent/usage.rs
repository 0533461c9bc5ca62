//! The usage of an agent in tokens, and the counting of it.

use std::{
    collections::VecDeque,
    hash::{DefaultHasher, Hash, Hasher},
    ops::AddAssign,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The tokens that an agent used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenUsage {
    /// The input tokens that were not in a cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub input_tokens: u64,
    /// The output tokens.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub output_tokens: u64,
    /// The input tokens that were read from a cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_read_tokens: u64,
    /// The input tokens that were written to a cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write_tokens: u64,
}

impl TokenUsage {
    /// Returns all tokens together.
    pub fn total(self) -> u64 {
        let read = self.input_tokens.saturating_add(self.cache_read_tokens);
        read.saturating_add(self.cache_write_tokens).saturating_add(self.output_tokens)
    }

    /// Returns how much more this is than something else, number by number.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_sub(other.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(other.output_tokens),
            cache_read_tokens: self.cache_read_tokens.saturating_sub(other.cache_read_tokens),
            cache_write_tokens: self.cache_write_tokens.saturating_sub(other.cache_write_tokens),
        }
    }

    /// Returns whether nothing was used.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl AddAssign for TokenUsage {
    fn add_assign(&mut self, more: Self) {
        let add = |sum: &mut u64, part: u64| *sum = sum.saturating_add(part);
        add(&mut self.input_tokens, more.input_tokens);
        add(&mut self.output_tokens, more.output_tokens);
        add(&mut self.cache_read_tokens, more.cache_read_tokens);
        add(&mut self.cache_write_tokens, more.cache_write_tokens);
    }
}

/// Returns whether a number need not be written.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The number of messages that are remembered. Subagents speak in turns, so the message that
/// goes on is among the last ones.
const RECENT: usize = 64;

/// A count of tokens in which no message counts twice.
///
/// A message is told in several events, each with the usage so far; the last word on what was
/// used comes with a result.
#[derive(Clone, Debug, Default)]
pub(super) struct TokenCounter {
    /// The last messages since the last result, and what was counted for them.
    recent: VecDeque<(u64, TokenUsage)>,
    /// The usage that results reported.
    settled: TokenUsage,
    /// The usage that messages reported since the last result.
    running: TokenUsage,
}

impl TokenCounter {
    /// Returns everything that was used.
    pub(super) fn total(&self) -> TokenUsage {
        let mut sum = self.settled;
        sum += self.running;
        sum
    }

    /// Returns what results said was used.
    pub(super) fn settled(&self) -> TokenUsage {
        self.settled
    }

    /// Returns what messages since the last result said was used.
    pub(super) fn unsettled(&self) -> TokenUsage {
        self.running
    }

    /// Counts what a message has used so far, and returns whether that is more than was known.
    pub(super) fn count_message(&mut self, id: &str, usage: TokenUsage) -> bool {
        let mut hasher = DefaultHasher::new();
        id.hash(&mut hasher);
        let id = hasher.finish();
        let known = self.recent.iter_mut().rev().find(|(known, _)| *known == id);
        let more = if let Some((_, counted)) = known {
            let more = usage.saturating_sub(*counted);
            *counted += more;
            more
        } else {
            if self.recent.len() == RECENT {
                self.recent.pop_front();
            }
            self.recent.push_back((id, usage));
            usage
        };
        self.running += more;
        !more.is_empty()
    }

    /// Takes what a result says was used since the result before it.
    pub(super) fn settle_turn(&mut self, since: TokenUsage) {
        self.settled += since;
        self.forget();
    }

    /// Takes what a result says was used altogether.
    pub(super) fn settle_all(&mut self, all: TokenUsage) {
        self.settled = all;
        self.forget();
    }

    fn forget(&mut self) {
        self.running = TokenUsage::default();
        self.recent.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn used(input_tokens: u64, output_tokens: u64) -> TokenUsage {
        TokenUsage { input_tokens, output_tokens, ..TokenUsage::default() }
    }

    #[test]
    fn a_message_counts_once_and_grows() {
        let mut counter = TokenCounter::default();
        assert!(counter.count_message("a", used(100, 1)));
        assert!(!counter.count_message("a", used(100, 1)));
        assert!(counter.count_message("b", used(50, 1)));
        assert!(counter.count_message("a", used(100, 20)));
        assert_eq!(counter.total(), used(150, 21));
    }

    #[test]
    fn a_result_has_the_last_word() {
        let mut counter = TokenCounter::default();
        counter.count_message("a", used(100, 1));
        counter.settle_turn(used(300, 60));
        assert_eq!(counter.total(), used(300, 60));
        counter.count_message("b", used(10, 1));
        assert_eq!(counter.total(), used(310, 61));
        counter.settle_turn(used(10, 5));
        assert_eq!(counter.total(), used(310, 65));
        counter.settle_all(used(1, 1));
        assert_eq!(counter.total(), used(1, 1));
    }

    proptest! {
        #[test]
        fn repeated_events_change_nothing(
            messages in prop::collection::vec((0_u64..9999, 0_u64..9999), 0..40),
            repeats in 1_usize..4,
        ) {
            let mut counter = TokenCounter::default();
            let mut expected = TokenUsage::default();
            for (id, (input, output)) in messages.iter().enumerate() {
                for _ in 0..repeats {
                    counter.count_message(&id.to_string(), used(*input, *output));
                }
                expected += used(*input, *output);
            }
            prop_assert_eq!(counter.total(), expected);
            prop_assert!(counter.recent.len() <= RECENT);
        }
    }
}
