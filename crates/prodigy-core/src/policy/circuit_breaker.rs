//! The circuit breaker: it holds attempts back while everything fails.

use serde::{Deserialize, Serialize};

use crate::{Timestamp, workflow::BreakerConfig};

/// Where the breaker stands, as far as the journal tells.
///
/// ```text
/// closed ──failures in a row──▶ open ──time──▶ half open ──successes──▶ closed
///                                 ▲────────any failure──────┘
/// ```
///
/// It gates the start of attempts and nothing else: while it is open, items wait,
/// and none of them fails for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CircuitBreaker {
    /// Attempts start.
    Closed {
        /// The number of consecutive failures.
        failures: u32,
    },
    /// Nothing starts.
    Open {
        /// Until when.
        until: Timestamp,
    },
    /// A few attempts start, to see whether it is any better.
    HalfOpen {
        /// The number of probes that succeeded.
        successes: u32,
    },
}

impl Default for CircuitBreaker {
    fn default() -> Self {
        Self::Closed { failures: 0 }
    }
}

impl CircuitBreaker {
    /// Returns how many attempts may start, if `probes` of those under way started half open.
    ///
    /// Half open, `half_open_requests` is the most trials of the phase: those under way and those
    /// that succeeded. One that failed ends the phase, and one without a verdict does not count.
    pub fn free_slots(self, config: &BreakerConfig, probes: u32) -> u32 {
        match self {
            Self::Closed { .. } => u32::MAX,
            Self::Open { .. } => 0,
            Self::HalfOpen { successes } => {
                config.half_open_requests.get().saturating_sub(successes).saturating_sub(probes)
            }
        }
    }

    /// Returns whether it is time to let a few attempts through.
    pub fn may_probe(self, now: Timestamp) -> bool {
        matches!(self, Self::Open { until } if until <= now)
    }

    /// Returns how many failures in a row open the circuit, if one more failure does.
    pub fn opens_on_failure(self, config: &BreakerConfig, is_probe: bool) -> Option<u32> {
        match self {
            Self::Closed { failures } => {
                (failures + 1 >= config.failure_threshold.get()).then_some(failures + 1)
            }
            Self::HalfOpen { .. } => is_probe.then_some(1),
            // It is open already; what was under way tells nothing new.
            Self::Open { .. } => None,
        }
    }

    /// Returns whether one more success closes the circuit.
    pub fn closes_on_success(self, config: &BreakerConfig, is_probe: bool) -> bool {
        match self {
            Self::HalfOpen { successes } => {
                is_probe && successes + 1 >= config.success_threshold.get()
            }
            Self::Closed { .. } | Self::Open { .. } => false,
        }
    }

    /// Applies the outcome of an attempt.
    pub fn record_attempt(&mut self, well: bool, is_probe: bool) {
        match self {
            Self::Closed { failures } if well => *failures = 0,
            Self::Closed { failures } => *failures += 1,
            Self::HalfOpen { successes } if well && is_probe => *successes += 1,
            Self::HalfOpen { .. } | Self::Open { .. } => {}
        }
    }
}
