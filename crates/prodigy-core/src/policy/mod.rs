//! Failure policies: backoff, circuit breaker, limits of failures, budgets.

mod backoff;
mod breaker;
mod limits;
mod spending;

pub use backoff::{Backoff, RetryPolicy};
pub use breaker::CircuitBreaker;
pub use limits::FailureCounter;
pub use spending::{Budget, ItemBudget, OnExceeded, OnLimit, OnUnknownCost, QuotaPolicy};
