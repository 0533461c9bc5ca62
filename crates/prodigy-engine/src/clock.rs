//! The only place that asks what time it is.

use jiff::Timestamp;

/// Returns the time, for records. Durations are measured with [`std::time::Instant`].
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// Returns how long it is until a moment; nothing if it has passed.
pub fn until(moment: Timestamp) -> std::time::Duration {
    std::time::Duration::try_from(moment.duration_since(now())).unwrap_or_default()
}
