//! Errors of signing and of verifying signatures.

use std::io;

use crate::process;

/// A failure to sign, or a signature that is not valid.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no `ssh-keygen`.
    #[error("`ssh-keygen` is not installed, or not on the `PATH`")]
    Missing,
    /// `ssh-keygen` could not be run to its end.
    #[error("cannot run `ssh-keygen`")]
    Run(#[source] process::Error),
    /// Nobody said which key is to be used.
    #[error("there is no key to sign with: git is not set up to sign with keys of ssh")]
    NoKey,
    /// The key cannot be used.
    #[error("cannot sign with the key `{key}`: {why}")]
    Key {
        /// The key.
        key: String,
        /// The reason the key cannot be used.
        why: String,
    },
    /// The list of those whose signatures count cannot be read.
    #[error("cannot read the allowed signers in `{path}`: {why}")]
    AllowedSigners {
        /// The file.
        path: String,
        /// The reason the file cannot be read.
        why: String,
    },
    /// The signature is not that of the person, or not for the text.
    #[error("{why}")]
    NotGood {
        /// The defect of the signature.
        why: String,
    },
    /// A file for `ssh-keygen` could not be written.
    #[error("cannot write a file for `ssh-keygen`")]
    Temporary(#[source] io::Error),
}

impl Error {
    /// Returns what the person could do next, if there is something.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Missing => Some("install OpenSSH; Debian calls it `openssh-client`"),
            Self::NoKey => Some(
                "pass `--key FILE`, or set it up with `git config gpg.format ssh` and \
                 `git config user.signingkey FILE`",
            ),
            Self::Key { .. } => Some(
                "the file must be a private key that only you can read; load a key that has a \
                 passphrase with `ssh-add`",
            ),
            Self::AllowedSigners { .. } => Some(
                "it has a line for each person: `alice@example.com ssh-ed25519 AAAA…`; the policy \
                 says where it is, from the root of the repository, and it has to be committed",
            ),
            Self::Run(_) | Self::NotGood { .. } | Self::Temporary(_) => None,
        }
    }
}
