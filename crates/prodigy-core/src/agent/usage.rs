//! The usage of an agent.

use std::ops::AddAssign;

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
