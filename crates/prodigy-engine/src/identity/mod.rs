//! The identity of a person: asserted by themselves, or proven by an SSH signature.
//!
//! Signatures are made and checked by `ssh-keygen`, with the keys that people have already.

mod error;
mod signature;
mod ssh;
#[cfg(test)]
mod tests;

pub use error::Error;
pub use signature::{AllowedSigners, SigningKey, sign, verify};

use crate::git::Repo;

/// The longest name of a person, in characters; more is no name.
const LONGEST_NAME: usize = 200;

/// Returns who uses a repository, as its configuration says, or else what the caller has
/// learned from the operating system. Nobody has proved it.
pub fn asserted_identity(repo: &Repo, user: &str) -> String {
    let plain = |name: &str| -> String {
        let shown = |c: char| if c.is_control() { ' ' } else { c };
        name.trim().chars().map(shown).take(LONGEST_NAME).collect()
    };
    repo.user_email().map_or_else(|| plain(user), |email| plain(&email))
}
