//! The branch that the result of a job goes to.

use prodigy_core::{event::JobStarted, job::JobSummary};
use prodigy_engine::git::{Head, Repo};

use crate::{commands::context, error::CliError, exit::Exit};

/// The flag that names the branch of a new job.
#[derive(clap::Args, Debug)]
pub(crate) struct MergeTargetArgs {
    /// Merge the result into this branch, which is made at the end if it is not there
    /// [default: the branch that is checked out]
    #[arg(long, value_name = "BRANCH")]
    pub(crate) into: Option<String>,
}

/// The branch that a new job is merged into.
pub(crate) struct MergeTarget {
    pub(crate) branch: String,
    /// True if it was named with `--into`.
    pub(crate) is_named: bool,
}

/// Returns the branch of a new job: the one that was named, or the one that is checked out.
///
/// Without either the job could pay for results that it has no place for, so it is refused.
pub(crate) fn choose_target(
    repo: &Repo,
    head: &Head,
    into: Option<String>,
) -> Result<MergeTarget, CliError> {
    if let Some(branch) = into {
        check_name(repo, &branch)?;
        return Ok(MergeTarget { branch, is_named: true });
    }
    if let Some(branch) = head.branch.clone() {
        return Ok(MergeTarget { branch, is_named: false });
    }
    let short: String = head.commit.chars().take(10).collect();
    let message =
        format!("HEAD is detached at {short}: there is no branch to merge the result into");
    Err(CliError::new(Exit::Usage, message).with_hint(
        "`--into BRANCH` names one, which is made at the end if it is not there; or check out one: `git switch -c BRANCH`",
    ))
}

/// Refuses a name that no branch of the user's can have.
pub(crate) fn check_name(repo: &Repo, branch: &str) -> Result<(), CliError> {
    if !branch.starts_with("prodigy/") && repo.is_branch_name(branch).map_err(context::git_error)? {
        return Ok(());
    }
    let message = format!("`{branch}` cannot be the branch that the result is merged into");
    Err(CliError::new(Exit::Usage, message)
        .with_hint("give the name of a branch, such as `--into main`"))
}

/// Returns whether the branch that a job is merged into is there or will be made.
pub(crate) fn branch_exists(repo: &Repo, job: &JobSummary) -> bool {
    let Some(started) = &job.started else { return false };
    // A repository that cannot be asked is reported when the job goes on.
    let is_there = |branch: &String| repo.branch_tip(branch).is_ok_and(|found| found.is_some());
    started.into || started.target_branch.as_ref().is_some_and(is_there)
}

/// Returns the branch that `--into` has to name before the result of a job can be merged, if
/// without one it cannot: `BRANCH` stands for one of the user's choice.
pub(crate) fn branch_to_name(repo: &Repo, started: &JobStarted) -> Option<String> {
    let any = || Some("BRANCH".to_owned());
    let Some(target) = &started.target_branch else { return any() };
    if started.into {
        return None;
    }
    // A repository that cannot be asked is reported when the job goes on.
    match repo.branch_tip(target) {
        Ok(None) => any(),
        Ok(Some(tip)) => {
            let is_rewritten = repo.is_ancestor(&started.base_commit, &tip).is_ok_and(|is| !is);
            is_rewritten.then(|| target.clone())
        }
        Err(_) => None,
    }
}
