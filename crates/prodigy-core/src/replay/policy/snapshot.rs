//! The name of a policy, made of what it says.

use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::json_value;

/// Returns `sha256:` and the SHA-256 of the canonical form of a value.
pub(crate) fn policy_snapshot(value: &impl Serialize) -> String {
    // Every part of a policy has a form in JSON.
    let value = serde_json::to_value(value).unwrap_or(Value::Null);
    format!("sha256:{}", json_value::sha256(json_value::canonical_json(&value).as_bytes()))
}

/// Writes a duration in seconds.
pub(crate) fn seconds<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(duration.as_secs_f64())
}

/// Writes a duration in seconds, if there is one.
#[expect(clippy::ref_option, reason = "serde hands the field over like this")]
pub(crate) fn optional_seconds<S: Serializer>(
    duration: &Option<Duration>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match duration {
        Some(duration) => seconds(duration, to),
        None => to.serialize_none(),
    }
}
