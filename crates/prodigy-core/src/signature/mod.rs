//! Which failures are the same failure.
//!
//! A hundred items may die of one cause. Their messages differ in paths, numbers
//! and names, so those are taken out; what is left, together with the type of the
//! error, is the signature that dead letters are grouped by.

mod error_type;
mod normal;
mod quotes;

use sha2::{Digest as _, Sha256};

pub use self::{error_type::error_type, normal::normal};
use crate::{failure::Failure, ids::hex};

/// What failures of one cause have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signature {
    /// The first 16 hexadecimal digits of the SHA-256 of the pattern.
    pub hash: String,
    /// For people: `CommandFailed::cargo test failed with exit <n>`.
    pub pattern: String,
}

impl Signature {
    /// Returns the signature of a failure.
    pub fn of(failure: &Failure) -> Self {
        let pattern = format!("{}::{}", error_type(failure.kind), normal(&failure.message));
        let digest = Sha256::digest(pattern.as_bytes());
        Self { hash: hex(digest.get(..8).unwrap_or_default()), pattern }
    }
}

#[cfg(test)]
mod tests;
