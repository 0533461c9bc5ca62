//! The flags of a job that hold from run to run.

use prodigy_core::{
    event::{JobStarted, OptionChanges, RunOptions},
    workflow::Workflow,
};

use super::RunSettings;

/// Returns the options that a resumed job goes on with.
///
/// Older programs recorded a budget of the command line only as part of the whole budget. As long
/// as the workflow is the same, that is where another amount than the workflow's comes from.
pub(crate) fn resumed_options(
    started: &JobStarted,
    workflow: &Workflow,
    is_changed: bool,
    given: OptionChanges,
) -> RunOptions {
    let mut kept = started.options;
    if kept.budget_usd.is_none() && !is_changed && started.budget.job_usd != workflow.budget.job_usd
    {
        kept.budget_usd = started.budget.job_usd;
    }
    kept.with(given)
}

/// Lets the options of a job hold for this run.
pub(crate) fn apply_options(settings: &mut RunSettings, options: RunOptions) {
    let budget = &mut settings.workflow.budget;
    budget.job_usd = options.budget_usd.or(budget.job_usd);
    settings.options = options;
}
