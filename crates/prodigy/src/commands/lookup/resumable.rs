//! The job that `prodigy resume` without a name goes on with.

use prodigy_core::{
    failure::ReasonCode,
    ids::JobId,
    job::{JobOutcome, JobStatus, JobSummary},
};
use prodigy_engine::{git::Repo, store::Layout};

use super::job_summary;
use crate::{
    commands::{context::store_error, prepare::merge_target},
    error::CliError,
    exit::Exit,
    render::console::Console,
};

/// Returns the newest job of this repository that can go on.
///
/// A job that has to be repaired first, or whose input cannot be had, would fail again and again:
/// it is passed over, and named. One that only lacks a branch to merge into comes last, unless a
/// branch is given.
pub(crate) fn latest_resumable_job(
    layout: &Layout,
    repo: &Repo,
    has_branch: bool,
    out: &mut Console,
) -> Result<JobId, CliError> {
    let mut without_branch = None;
    let jobs = layout.jobs().map_err(store_error)?;
    if jobs.is_empty() {
        return Err(CliError::new(Exit::Usage, "this repository has no jobs")
            .with_hint("`prodigy run WORKFLOW` starts one"));
    }
    for job in jobs.into_iter().rev() {
        let (summary, status, damage) = match job_summary(layout, &job) {
            Ok(found) => found,
            Err(error) => {
                out.note(format_args!("note: job `{job}` is passed over: {error}"));
                continue;
            }
        };
        if damage.is_some() || summary.started.is_none() {
            out.note(format_args!(
                "note: job `{job}` is passed over: its journal is damaged; see `prodigy repair {job} --dry-run`"
            ));
        } else if status == JobStatus::MergeOutstanding
            && !has_branch
            && !merge_target::branch_exists(repo, &summary)
        {
            without_branch.get_or_insert(job);
        } else if status.is_resumable() {
            match &summary.end {
                Some(end) if has_no_input(&summary, end) => out.note(format_args!(
                    "note: job `{job}` is passed over: its items cannot be had; `prodigy resume {job}` tries again"
                )),
                Some(_) | None => return Ok(job),
            }
        }
    }
    if let Some(job) = without_branch {
        return Ok(job);
    }
    Err(CliError::new(Exit::Usage, "no job of this repository can be resumed")
        .with_hint("`prodigy jobs` lists the jobs"))
}

/// Returns whether a job ended because there is no input to take its items from.
///
/// Its worktree stays as it is, so there will be none the next time either.
pub(crate) fn has_no_input(summary: &JobSummary, end: &JobOutcome) -> bool {
    let is_missing = matches!(
        end,
        JobOutcome::Failed { step, failure } if step == "map" && failure.kind == ReasonCode::InputMissing
    );
    is_missing && summary.items.is_none()
}
