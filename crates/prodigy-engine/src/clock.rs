//! The only place that asks what time it is.

use jiff::Timestamp;

/// Returns the time, for records. Durations are measured with [`std::time::Instant`].
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub fn now() -> Timestamp {
    Timestamp::now()
}
