//! What makes sense after a look at a job.

use prodigy_core::{event::BudgetScope, job::JobStatus};

use super::{Row, money};

/// Returns the command that makes sense next.
pub(super) fn next(row: &Row) -> Option<String> {
    let job = &row.job;
    match row.status {
        JobStatus::Running => Some(format!("`prodigy events {job} --follow` watches it")),
        JobStatus::Failed => Some(format!(
            "`prodigy logs {job}` shows what its steps printed, `prodigy resume {job}` tries again"
        )),
        JobStatus::Paused | JobStatus::Interrupted => Some(match spent(row) {
            None => format!("`prodigy resume {job}` goes on"),
            Some(BudgetScope::Job) => {
                format!("`prodigy resume {job} --budget-usd USD` goes on with more money")
            }
            Some(BudgetScope::Day) => format!(
                "`prodigy resume {job}` goes on from tomorrow (UTC), or with `--use-current-workflow` and a higher `day_usd` now"
            ),
        }),
        JobStatus::MergeOutstanding => Some(format!("`prodigy resume {job} -y` merges the result")),
        JobStatus::Completed | JobStatus::CompletedWithFailures => None,
    }
}

/// Returns the budget without which a job would stop again at once.
fn spent(row: &Row) -> Option<BudgetScope> {
    let money = money(row);
    let is_spent = |scope: &BudgetScope| match scope {
        BudgetScope::Job => true,
        BudgetScope::Day => {
            money.today_usd.zip(money.budget.day_usd).is_none_or(|(today, most)| today >= most)
        }
    };
    row.summary.overspent.filter(is_spent)
}
