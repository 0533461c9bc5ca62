//! The artifacts of an attempt, as stored in its DLQ entry.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DeadLetterContext, DeadLetterState, apply::agent};
use crate::event::{AttemptArtifacts, EventRecord};

/// The artifacts of the last attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorktreeArtifacts {
    /// The worktree that it worked in, or the reference that holds what was in it.
    #[serde(default)]
    pub worktree_path: Option<String>,
    /// Its branch; it is deleted if it has no commits of its own, or a reference holds them.
    #[serde(default)]
    pub branch_name: Option<String>,
    /// The files that were changed and not committed; `none` if there were none.
    #[serde(default)]
    pub uncommitted_changes: Option<String>,
    /// The file that holds those changes as a patch.
    #[serde(default)]
    pub patch_file: Option<String>,
    /// The number of its commits that are not merged; older entries leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commits: Option<u64>,
    /// The last lines of output.
    #[serde(default)]
    pub error_logs: Option<String>,
    /// True if the worktree was kept; otherwise it was cleaned for other items, or removed.
    #[serde(default)]
    pub preserved: bool,
}

/// The word for an attempt that left nothing uncommitted.
pub const NO_CHANGES: &str = "none";

impl WorktreeArtifacts {
    /// Returns whether the worktree, or a reference to what was in it, was kept.
    pub fn is_kept(&self) -> bool {
        let is_reference = self.worktree_path.as_deref().is_some_and(|it| it.starts_with("refs/"));
        self.preserved || is_reference
    }

    /// Returns the files that were changed and not committed, if there were any.
    pub fn changes(&self) -> Option<&str> {
        self.uncommitted_changes.as_deref().filter(|changes| *changes != NO_CHANGES)
    }

    /// Returns whether nothing was left that would have to be merged.
    pub fn is_empty(&self) -> bool {
        self.commits == Some(0) && self.changes().is_none()
    }

    /// Returns whether its branch leads to something: the worktree, or commits.
    pub fn has_branch(&self) -> bool {
        self.branch_name.is_some() && (self.preserved || self.commits != Some(0))
    }

    /// Returns whether the worktree, or its absence, matters to a person.
    pub fn is_worth_showing(&self) -> bool {
        self.is_kept() || self.changes().is_some() || self.commits.is_none()
    }
}

impl DeadLetterState {
    /// Records the artifacts of an attempt, and where they are kept.
    pub(crate) fn keep(
        &mut self,
        record: &EventRecord,
        path: &str,
        left: Option<&AttemptArtifacts>,
        origin: DeadLetterContext<'_>,
    ) {
        let left = left.cloned().unwrap_or_default();
        let printed = self.history.last().map(|last| last.output_tail.clone());
        // Without a path nothing new was kept, which takes nothing away.
        let before = if self.is_idle() { self.worktree.take() } else { self.left.take() };
        let before = before.filter(WorktreeArtifacts::is_kept);
        let before = before.and_then(|before| before.worktree_path);
        let path = if path.is_empty() { before.unwrap_or_default() } else { path.to_owned() };
        let artifacts = WorktreeArtifacts {
            worktree_path: Some(path.clone()).filter(|path| !path.is_empty()),
            branch_name: left.branch,
            uncommitted_changes: left.uncommitted,
            patch_file: left.patch,
            commits: Some(left.commits),
            error_logs: printed.filter(|printed| !printed.is_empty()),
            // A reference holds what was in a worktree that is gone.
            preserved: !path.is_empty() && !path.starts_with("refs/"),
        };
        let artifacts = self.with_location(artifacts, &agent(record), origin);
        if self.is_idle() {
            self.worktree = Some(artifacts);
            self.revise(|_| {});
        } else {
            self.left = Some(artifacts);
        }
    }

    /// Returns what an attempt left, with where it worked, whether or not that is still there.
    pub(crate) fn with_location(
        &self,
        mut left: WorktreeArtifacts,
        agent: &str,
        origin: DeadLetterContext<'_>,
    ) -> WorktreeArtifacts {
        let (job, item) = (&self.job_id, &self.item_id);
        let (name, branch) = match agent {
            _ if origin.run.found.shares_worktree => ("job", format!("prodigy/{job}/job")),
            // Of an item that never began: where its worktree would have been kept.
            "" => (item.as_str(), format!("prodigy/{job}/{item}")),
            agent => (agent, format!("prodigy/{job}/{item}")),
        };
        left.worktree_path.get_or_insert_with(|| (origin.worktree)(name));
        left.branch_name.get_or_insert(branch);
        left.uncommitted_changes.get_or_insert_with(|| NO_CHANGES.to_owned());
        left.commits.get_or_insert_default();
        left
    }
}
