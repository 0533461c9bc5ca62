//! Which failures are the same failure.
//!
//! A hundred items may die of one cause. Their messages differ in paths, numbers
//! and names, so those are taken out; what is left, together with the type of the
//! error, is the signature that dead letters are grouped by.

mod ansi_escapes;
mod error_line;
mod error_type;
mod item_name;
mod normalize;
mod quotes;

use sha2::{Digest as _, Sha256};

use crate::{
    failure::Failure,
    ids::{ItemId, hex},
};

pub(crate) use ansi_escapes::strip_ansi;
pub use error_line::{error_line, with_summary};
pub use error_type::error_type;
pub use normalize::normalize;
pub(crate) use quotes::replace_quoted;

/// The signature that failures with the same cause have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorSignature {
    /// The first 16 hexadecimal digits of the SHA-256 of the pattern.
    pub hash: String,
    /// For people: `CommandFailed::cargo test failed with exit code <n>`.
    pub pattern: String,
}

impl ErrorSignature {
    /// Returns the signature of an item's failure; its own name does not count.
    pub fn of(failure: &Failure, item: &ItemId) -> Self {
        let message = item_name::replace_item_id(&failure.message, item);
        let message = normalize(&error_line::unquote_step_name(&message));
        let pattern = format!("{}::{message}", error_type(failure.kind));
        let digest = Sha256::digest(pattern.as_bytes());
        Self { hash: hex(digest.get(..8).unwrap_or_default()), pattern }
    }
}

#[cfg(test)]
mod tests;
