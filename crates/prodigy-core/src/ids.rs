//! Names of things, as types that cannot be mixed up and cannot be path tricks.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The longest a name may be.
const MAX: usize = 120;

/// A name could not be used as a path component.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is not a usable name: use letters, digits, `.`, `_` and `-`, start with a letter or digit, at most {MAX} characters",
    .0.escape_debug()
)]
pub struct NameError(String);

/// Returns whether `name` can be a path component and part of a git branch name.
fn is_usable(name: &str) -> bool {
    name.len() <= MAX
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
        && !name.contains("..")
        && !name.ends_with('.')
        && !std::path::Path::new(name).extension().is_some_and(|e| e.eq_ignore_ascii_case("lock"))
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Returns the name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(name: &str) -> Result<Self, NameError> {
                Self::try_from(name.to_owned())
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;

            fn try_from(name: String) -> Result<Self, NameError> {
                if is_usable(&name) { Ok(Self(name)) } else { Err(NameError(name)) }
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name_type! {
    /// One run of one workflow, e.g. `workflow-20260824-101500-a1b2`.
    JobId
}

impl JobId {
    /// Returns the id that a text names; what cannot be one is made safe.
    pub fn from_text(text: &str) -> Self {
        if is_usable(text) { Self(text.to_owned()) } else { Self(safe_name(text)) }
    }
}

name_type! {
    /// A repository, as its directory is called; the first part of every path below the home.
    RepoName
}

name_type! {
    /// One item of a job: `item-001`, or what `item_key` says.
    ItemId
}

/// One of a job's slots, which runs one attempt at a time: `agent-1`, `agent-2`, …
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AgentId(u32);

impl AgentId {
    /// Names an agent by its number, from 1.
    pub fn new(number: u32) -> Self {
        Self(number)
    }

    /// Returns its number, from 1.
    pub fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "agent-{}", self.0)
    }
}

impl From<AgentId> for String {
    fn from(id: AgentId) -> Self {
        id.to_string()
    }
}

impl FromStr for AgentId {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        let number = name.strip_prefix("agent-").and_then(|number| number.parse().ok());
        number.map(Self).ok_or_else(|| NameError(name.to_owned()))
    }
}

impl TryFrom<String> for AgentId {
    type Error = NameError;

    fn try_from(name: String) -> Result<Self, NameError> {
        name.parse()
    }
}

/// The name that stands for the job's own steps where an item has its id.
pub const OWN_STEPS: &str = "workflow";

impl ItemId {
    /// Returns the id of the item at a position from 1.
    ///
    /// All ids of a job have the same width, so that names sort as the items do.
    pub fn from_position(position: usize, total: usize) -> Self {
        let width = total.to_string().len().max(3);
        Self(format!("item-{position:0width$}"))
    }

    /// Returns the id of an item that has a key of its own.
    ///
    /// Different keys give different ids.
    pub fn from_key(key: &str) -> Self {
        // The branch of an item stands beside the branch `job` of its job, its worktree beside
        // those of the agents, and its output beside that of the job's own steps.
        let is_taken = key == "job" || key == OWN_STEPS || key.parse::<AgentId>().is_ok();
        Self(if is_taken { hashed_name(key) } else { safe_name(key) })
    }
}

/// Returns a name that is safe in a path for any text.
///
/// Text that is already safe stays as it is; anything else becomes a slug with a
/// hash behind it, so that two different texts never share a name, not even on a
/// file system that ignores case.
pub fn safe_name(text: &str) -> String {
    let plain = text.len() <= 80
        && text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && text
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-'))
        && text != "index";
    if plain { text.to_owned() } else { hashed_name(text) }
}

/// Returns what can be kept of a text, and a hash of all of it.
fn hashed_name(text: &str) -> String {
    let slug: String = text
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .take(40)
        .collect();
    let slug = slug.trim_matches('-');
    let slug = if slug.is_empty() { "x" } else { slug };
    format!("{slug}.{}", hex(Sha256::digest(text.as_bytes()).get(..16).unwrap_or_default()))
}

/// Returns bytes as lower case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |n: u8| DIGITS.get(usize::from(n)).map_or('0', |d| char::from(*d));
    bytes.iter().flat_map(|b| [digit(b >> 4), digit(b & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn path_tricks_are_not_names() {
        for bad in ["", "/", "a/b", "..", ".hidden", "-rf", "a..b", "x.lock", "a b", "é", "a\0b"] {
            assert!(bad.parse::<JobId>().is_err(), "{bad:?}");
        }
        for good in ["job", "workflow-20260824-101500-a1b2", "my.repo_2"] {
            assert!(good.parse::<JobId>().is_ok(), "{good:?}");
        }
    }

    #[test]
    fn items_are_numbered_with_one_width_for_all() {
        let ids = [(1, 1), (7, 999), (7, 1000), (12_345, 100_000)];
        let ids: Vec<_> =
            ids.map(|(at, total)| ItemId::from_position(at, total).to_string()).into();
        assert_eq!(ids, ["item-001", "item-007", "item-0007", "item-012345"]);
    }

    #[test]
    fn the_key_of_an_item_becomes_a_safe_id() {
        let ids: Vec<_> = ["ticket-7", "src/a.rs", "JOB", "job", "index", "..", ""]
            .iter()
            .map(|key| format!("{key:<8} {}", ItemId::from_key(key)))
            .collect();
        insta::assert_snapshot!(ids.join("\n"), @"
        ticket-7 ticket-7
        src/a.rs src-a-rs.bdfc5619650b795d1ffec5e8af3154a9
        JOB      job.c7b278365543990288675aaa44411995
        job      job.5e8c9902207afaeb7120430c585a445f
        index    index.1bc04b5291c26a46d918139138b992d2
        ..       x.5ec1f7e700f37c3d0b2981d04855fc34
                 x.e3b0c44298fc1c149afbf4c8996fb924
        ");
    }

    proptest! {
        #[test]
        fn any_text_has_a_safe_name(text in ".*") {
            let name = safe_name(&text);
            prop_assert!(is_usable(&name), "{name}");
            prop_assert_ne!(name, "index");
        }

        #[test]
        fn any_key_has_an_id_that_can_be_read_back(key in ".*") {
            let id = ItemId::from_key(&key);
            prop_assert_eq!(id.as_str().parse(), Ok(id.clone()));
            prop_assert_ne!(id.as_str(), "job");
        }
    }
}
