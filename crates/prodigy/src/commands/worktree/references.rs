//! References that jobs left in the repository and that are no branches.

use std::collections::{BTreeMap, BTreeSet};

use prodigy_core::{ids::JobId, job::JobStatus};
use prodigy_engine::{
    git::{JobReference, Repo},
    store::Layout,
};

use super::inventory::{WorktreeKind, WorktreeView, status};
use crate::{commands::context::git_error, error::CliError};

/// Returns the references that this repository's jobs, or one of them, left behind.
pub(super) fn list_references(
    layout: &Layout,
    repo: &Repo,
    only: Option<&JobId>,
) -> Result<Vec<WorktreeView>, CliError> {
    let mut jobs: BTreeMap<JobId, Vec<JobReference>> = BTreeMap::new();
    for reference in repo.job_references().map_err(git_error)? {
        let job = reference.name.split('/').nth(2).and_then(|job| job.parse().ok());
        if let Some(job) = job.filter(|job| only.is_none_or(|only| only == job)) {
            jobs.entry(job).or_default().push(reference);
        }
    }
    let mut left = Vec::new();
    for (job, references) in jobs {
        let status = status(layout, &job)?;
        let is_snapshot = |one: &JobReference| one.name.ends_with("/snapshot");
        let (snapshots, records): (Vec<_>, Vec<_>) = references.into_iter().partition(is_snapshot);
        let leftover = |kind, unmerged_commits, references: Vec<JobReference>| WorktreeView {
            job: job.clone(),
            status,
            branch: None,
            unmerged_commits,
            uncommitted_files: Some(0),
            bytes: 0,
            path: None,
            kind,
            references: references.into_iter().map(|one| one.name).collect(),
        };
        // As long as there is a branch, the snapshot belongs to it, and goes with it.
        let is_needed = status
            .is_some_and(|status| status == JobStatus::Running || status.is_resumable())
            || repo.branch_tip(&format!("prodigy/{job}/job")).map_err(git_error)?.is_some();
        if !snapshots.is_empty() && !is_needed {
            left.push(leftover(WorktreeKind::Snapshot, 0, snapshots));
        }
        let ahead = commits_ahead(repo, &records)?;
        let is_ahead = |one: &JobReference| ahead.contains(&one.parent);
        let (with, without): (Vec<_>, Vec<_>) = records.into_iter().partition(is_ahead);
        let unmerged = repo.count_unmerged_commits(&ahead).map_err(git_error)?;
        for (unmerged, group) in [(0, without), (unmerged, with)] {
            if !group.is_empty() {
                left.push(leftover(WorktreeKind::Records, unmerged, group));
            }
        }
    }
    Ok(left)
}

/// Returns the commits that records stand on and that are nowhere else, or have ancestors that are.
fn commits_ahead(repo: &Repo, records: &[JobReference]) -> Result<Vec<String>, CliError> {
    // Many records stand on few commits.
    let parents: BTreeSet<&String> = records.iter().map(|one| &one.parent).collect();
    let mut ahead = Vec::new();
    for parent in parents {
        if repo.count_unmerged_commits(std::slice::from_ref(parent)).map_err(git_error)? > 0 {
            ahead.push(parent.clone());
        }
    }
    Ok(ahead)
}
