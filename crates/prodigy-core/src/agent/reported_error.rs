//! Errors while an agent works.

use crate::failure::ReasonCode;

/// Something that went wrong, as an agent tells it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ReportedError {
    /// The failure kind, if it is certain.
    pub(crate) kind: Option<ReasonCode>,
    /// The agent's text about it.
    pub(crate) text: String,
}

/// Returns what a status of a server means, as far as that is certain.
pub(crate) fn code_for_status(status: Option<u16>) -> Option<ReasonCode> {
    match status? {
        401 | 403 => Some(ReasonCode::AuthFailed),
        413 => Some(ReasonCode::PayloadTooLarge),
        429 => Some(ReasonCode::RateLimited),
        503 | 529 => Some(ReasonCode::ProviderOverloaded),
        408 | 500 | 502 | 504 => Some(ReasonCode::DependencyUnavailable),
        _ => None,
    }
}
