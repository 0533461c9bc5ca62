//! Which failures are the same failure.
//!
//! A hundred items may die of one cause. Their messages differ in paths, numbers
//! and names, so those are taken out; what is left, together with the type of the
//! error, is the signature that dead letters are grouped by.

mod codes;
mod error_type;
mod escapes;
mod essence;
mod item_name;
mod normal;
mod quotes;
mod urls;
mod words;

use sha2::{Digest as _, Sha256};

pub use self::{
    error_type::error_type,
    essence::{error_line, with_summary},
    normal::normalize,
};
pub(crate) use self::{escapes::strip_ansi, quotes::replace_quoted};
use crate::{
    failure::Failure,
    ids::{ItemId, hex},
};

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
        let message = normalize(&essence::unquote_step_name(&message));
        let pattern = format!("{}::{message}", error_type(failure.kind));
        let digest = Sha256::digest(pattern.as_bytes());
        Self { hash: hex(digest.get(..8).unwrap_or_default()), pattern }
    }
}

#[cfg(test)]
mod tests;
