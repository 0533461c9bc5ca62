//! What to do when things fail.

mod backoff;

pub use backoff::{Backoff, Retry};
