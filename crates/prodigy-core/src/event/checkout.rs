//! The user's checkout: the update that the final merge makes, and changes by others.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something of the user's that is not what it was when the job began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckoutChange {
    /// The thing: `HEAD`, `index`, the full name of a branch, a tag or the stash, a setting of a
    /// remote such as `remote.origin.url`, `info/exclude`, or `refs/tags` for more new tags.
    pub what: String,
    /// The value before: a branch for `HEAD`, a line for `info/exclude`, a value without a
    /// password for a setting, a number for `refs/tags`, else a commit or a hash; left out if it
    /// was not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The state now; left out if it is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// A file that decides what runs, or who may agree to what, and that a job changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GuardedFile {
    /// The path from the root of the repository.
    pub path: String,
    /// The items that changed it; empty if a step of setup, reduce or a workflow without items did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<String>,
}

/// The update of a checkout from one commit of its branch to the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckoutUpdate {
    /// The branch that is checked out.
    pub target: String,
    /// The working tree that has it checked out.
    pub worktree: String,
    /// The branch's commit before the merge.
    pub old: String,
    /// The branch's commit after the merge.
    pub new: String,
}
