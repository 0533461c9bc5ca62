//! The suggested next command for a job.

use std::path::Path;

use prodigy_core::{event::BudgetScope, job::JobStatus};
use prodigy_engine::git::Repo;

use super::{JobView, spend_view};
use crate::commands::prepare::merge_target;

/// Returns the command that makes sense next.
pub(crate) fn next_command(row: &JobView) -> Option<String> {
    let job = &row.job;
    match row.status {
        JobStatus::Running => Some(format!("`prodigy events {job} --follow` watches it")),
        JobStatus::Failed => Some(format!(
            "`prodigy logs {job}` shows what its steps printed, `prodigy resume {job}` tries again"
        )),
        JobStatus::Paused | JobStatus::Interrupted => Some(match exhausted_budget(row) {
            None => format!("`prodigy resume {job}` goes on"),
            Some(BudgetScope::Job) => {
                format!("`prodigy resume {job} --budget-usd USD` goes on with more money")
            }
            Some(BudgetScope::Day) => format!(
                "`prodigy resume {job}` goes on from tomorrow (UTC), or with `--use-current-workflow` and a higher `day_usd` now"
            ),
        }),
        JobStatus::MergeOutstanding => {
            let into = branch_to_name(row).map(|branch| format!(" --into {branch}"));
            let into = into.unwrap_or_default();
            Some(format!("`prodigy resume {job} -y{into}` merges the result"))
        }
        JobStatus::Completed | JobStatus::CompletedWithFailures => None,
    }
}

/// Returns the branch that has to be named before the result can be merged.
fn branch_to_name(row: &JobView) -> Option<String> {
    let started = row.summary.started.as_ref()?;
    let repo = Repo::discover(Path::new(&started.repository)).ok()?;
    merge_target::branch_to_name(&repo, started)
}

/// Returns the budget without which a job would stop again at once.
fn exhausted_budget(row: &JobView) -> Option<BudgetScope> {
    let money = spend_view(row);
    let is_spent = |scope: &BudgetScope| match scope {
        BudgetScope::Job => true,
        BudgetScope::Day => {
            money.today_usd.zip(money.budget.day_usd).is_none_or(|(today, most)| today >= most)
        }
    };
    row.summary.overspent.filter(is_spent)
}
