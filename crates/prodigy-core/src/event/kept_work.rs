//! The work that attempts leave outside of commits, and where it is kept.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::job::is_zero;

/// Work that successful items, or the steps of a job, left outside of their commits, and where
/// it is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeptWork {
    /// The reference whose commit holds the files that were left uncommitted; left out if
    /// there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The number of files that it holds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub files: u32,
    /// The file that holds them as a patch, without secrets; left out if they are too large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    /// The references of commits that were left on branches that are not merged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stray_commits: Vec<String>,
    /// The paths that could not be kept: repositories inside the worktree.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_kept: Vec<String>,
}

impl KeptWork {
    /// Returns the commands that bring the work into the checkout they are typed in.
    pub fn commands(&self) -> Vec<String> {
        let files = self.reference.iter().map(|name| format!("git cherry-pick --no-commit {name}"));
        let commits = self.stray_commits.iter().map(|name| format!("git merge {name}"));
        files.chain(commits).collect()
    }
}

/// The artifacts of a failed attempt in its worktree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttemptArtifacts {
    /// Its branch; left out if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The number of commits that it made.
    #[serde(default, skip_serializing_if = "is_no_commit")]
    pub commits: u64,
    /// The files that it changed and did not commit, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncommitted: Option<String>,
    /// The file that holds those changes as a patch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
}

/// Returns whether a number of commits need not be written.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_no_commit(number: &u64) -> bool {
    *number == 0
}
