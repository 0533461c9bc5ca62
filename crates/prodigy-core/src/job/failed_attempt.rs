//! A failed attempt, as the handler of the error policy is told about it.

use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// An attempt that failed and that the handler of the error policy is told about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailedAttempt {
    /// The step that failed, if it was a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The failure of the attempt.
    pub failure: Failure,
}
