//! What follows from failures: waiting, holding back, stopping.

mod backoff;
mod breaker;
mod limits;

pub use backoff::{Backoff, Retry};
pub use breaker::Breaker;
pub use limits::Judged;
