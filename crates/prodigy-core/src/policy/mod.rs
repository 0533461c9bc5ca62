//! Failure policies: backoff, circuit breaker, limits of failures, budgets.

mod backoff;
mod breaker;
mod limits;
mod spending;

pub use backoff::{Backoff, Retry};
pub use breaker::Breaker;
pub use limits::Judged;
pub use spending::{Allowance, Budget, OnExceeded, OnLimit, OnUnknown, QuotaPolicy};
