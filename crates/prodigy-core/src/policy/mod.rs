//! Failure policies: backoff, circuit breaker, limits of failures, budgets.

mod backoff;
mod budget;
mod circuit_breaker;
mod failure_limits;

pub use backoff::{Backoff, RetryPolicy};
pub use budget::{Budget, ItemBudget, OnExceeded, OnLimit, OnUnknownCost, QuotaPolicy};
pub use circuit_breaker::CircuitBreaker;
pub use failure_limits::FailureCounter;
