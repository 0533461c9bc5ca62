//! Waiting between tries.

use std::{num::NonZeroU32, time::Duration};

use crate::failure::FailureKind;

/// How long to wait before trying again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Backoff {
    /// The same wait every time.
    Fixed {
        /// The wait.
        delay: Duration,
    },
    /// Retry n waits initial + n × increment.
    Linear {
        /// The part that stays.
        initial: Duration,
        /// The part that grows.
        increment: Duration,
    },
    /// Retry n waits initial × multiplier^(n-1).
    Exponential {
        /// The wait before the first retry.
        initial: Duration,
        /// The growth per retry.
        multiplier: f64,
    },
    /// Retry n waits initial × fib(n): 1 1 2 3 5.
    Fibonacci {
        /// The wait before the first retry.
        initial: Duration,
    },
}

/// How something is tried again.
#[derive(Clone, Debug, PartialEq)]
pub struct Retry {
    /// How often it is tried in all, the first try included.
    pub attempts: NonZeroU32,
    /// How long to wait in between.
    pub backoff: Backoff,
    /// The longest wait.
    pub max_delay: Option<Duration>,
    /// Whether to vary the wait at random between half and the whole of it.
    pub jitter: bool,
    /// The failures worth another try; empty means all.
    pub retry_on: Vec<FailureKind>,
}
