//! The reasons why no policy can decide.

use prodigy_core::workflow::Rejected;

use super::{OTHER_ENDING, POLICY_FILE, UnconfirmedFile};
use crate::{
    git,
    store::{self, audit},
};

/// The reason why no policy can decide.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// Git could not be asked.
    #[error(transparent)]
    Git(#[from] git::Error),
    /// A file of the checkout could not be read.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The audit trail, which holds confirmations, cannot be relied on.
    #[error("the audit trail, which says who confirmed a policy, cannot be relied on")]
    Audit(#[source] audit::Error),
    /// The audit trail is not as it was written.
    #[error("the audit trail, which says who confirmed a policy, is not as it was written")]
    Trail,
    /// The policy has mistakes.
    #[error("`{POLICY_FILE}` cannot be used")]
    Rejected(Rejected),
    /// The policy is not text.
    #[error("`{POLICY_FILE}` is not UTF-8 text")]
    NotText,
    /// The file has a name that is not read.
    #[error("`{OTHER_ENDING}` is not read: the policy is `{POLICY_FILE}`")]
    OtherEnding,
    /// The checkout has another version that is not committed.
    #[error("`{path}` differs from the one that is committed on {branch}")]
    Uncommitted {
        /// The file.
        path: String,
        /// The branch, for people.
        branch: String,
    },
    /// A job committed it, and no person has confirmed it.
    #[error("`{}` was last changed by job `{}`, and nobody has confirmed it", .0.path, .0.job)]
    Unconfirmed(Box<UnconfirmedFile>),
}

impl PolicyError {
    /// Returns what to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Git(error) => error.hint().map(std::borrow::Cow::into_owned),
            Self::Store(_) => None,
            Self::Audit(_) | Self::Trail => {
                Some("`prodigy audit verify` says what is wrong".to_owned())
            }
            Self::Rejected(_) | Self::NotText => Some(
                "`prodigy policy lint` lists what is wrong; until that is fixed, nothing is \
                 decided over dead letters"
                    .to_owned(),
            ),
            Self::OtherEnding => Some(format!("rename it to `{POLICY_FILE}` and commit it")),
            Self::Uncommitted { path, .. } => Some(format!(
                "commit it, or put it back with `git checkout -- {path}`; what is not committed \
                 decides nothing"
            )),
            Self::Unconfirmed(unconfirmed) => {
                let branch = unconfirmed.branch.as_ref();
                let branch = branch.map(|name| format!(" --branch {name}")).unwrap_or_default();
                Some(format!(
                    "read it, then `prodigy policy confirm{branch}`; until then nothing is \
                     decided over dead letters"
                ))
            }
        }
    }
}
