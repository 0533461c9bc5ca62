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
pub struct BadName(String);

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
            type Err = BadName;

            fn from_str(name: &str) -> Result<Self, BadName> {
                Self::try_from(name.to_owned())
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadName;

            fn try_from(name: String) -> Result<Self, BadName> {
                if is_usable(&name) { Ok(Self(name)) } else { Err(BadName(name)) }
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

name_type! {
    /// A repository, as its directory is called; the first part of every path below the home.
    RepoName
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
    if plain {
        return text.to_owned();
    }
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

    proptest! {
        #[test]
        fn any_text_has_a_safe_name(text in ".*") {
            let name = safe_name(&text);
            prop_assert!(is_usable(&name), "{name}");
            prop_assert_ne!(name, "index");
        }
    }
}
