//! Errors while an agent works.

use crate::failure::FailureKind;

/// Something that went wrong, as an agent tells it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Trouble {
    /// The failure kind, if it is certain.
    pub(super) kind: Option<FailureKind>,
    /// The agent's text about it.
    pub(super) text: String,
}

/// Returns what a status of a server means, as far as that is certain.
pub(super) fn of_status(status: Option<u16>) -> Option<FailureKind> {
    match status? {
        401 | 403 => Some(FailureKind::AuthFailed),
        413 => Some(FailureKind::PayloadTooLarge),
        429 => Some(FailureKind::RateLimited),
        503 | 529 => Some(FailureKind::ProviderOverloaded),
        408 | 500 | 502 | 504 => Some(FailureKind::DependencyUnavailable),
        _ => None,
    }
}
