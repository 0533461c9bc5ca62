//! Commands that run a workflow, and the flags that they share.

pub(crate) mod batch;
pub(crate) mod exec;
pub(crate) mod exit_rules;
pub(crate) mod flags;
pub(crate) mod plan;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod run_result;
pub(crate) mod simulate;
pub(crate) mod validate;

use std::num::NonZeroU32;

use prodigy_core::event::{JobMode, OptionChanges};

use crate::{error::CliError, exit::Exit};

/// The flags about the items of a job, when it starts and when it is resumed.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub(crate) struct ItemArgs {
    /// Work on this many items at once [default: what the workflow says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    max_parallel: Option<u32>,

    /// Exit with 3 if the job is done and items are in the dead letter queue
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", hide_possible_values = true)]
    fail_on_dlq: Option<bool>,

    /// End a job without items as done or as failed [default: ok]
    #[arg(long, value_enum, value_name = "WHAT")]
    no_items: Option<NoItems>,
}

impl ItemArgs {
    /// Returns the flags that were given; a workflow without items takes none about items.
    pub(crate) fn changes(
        self,
        spending: SpendingArgs,
        mode: JobMode,
    ) -> Result<OptionChanges, CliError> {
        let needs_items = self.no_items.map(|what| what == NoItems::Fail);
        if mode == JobMode::Sequential && needs_items == Some(true) {
            return Err(items_required_error("--no-items"));
        }
        Ok(OptionChanges {
            max_parallel: item_concurrency(self.max_parallel, mode)?,
            needs_items,
            fail_on_dlq: self.fail_on_dlq,
            ..spending.changes()
        })
    }
}

/// Returns how many items are wanted at once; a sequential workflow has none.
pub(crate) fn item_concurrency(
    wanted: Option<u32>,
    mode: JobMode,
) -> Result<Option<NonZeroU32>, CliError> {
    if mode == JobMode::Sequential && wanted.is_some() {
        return Err(items_required_error("--max-parallel"));
    }
    Ok(wanted.and_then(NonZeroU32::new))
}

/// The ending of a job without items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum NoItems {
    /// The job is done, and says that nothing was selected
    Ok,
    /// The job fails, with exit code 4
    Fail,
}

/// Refuses a flag for a workflow that has no items.
pub(crate) fn items_required_error(flag: &str) -> CliError {
    let message = format!("`{flag}` is for workflows that have items; this one is sequential");
    CliError::new(Exit::Usage, message).with_hint("leave it out")
}

/// The limits of a run, in money and in waiting time.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub(crate) struct SpendingArgs {
    /// Never wait: exit with 75 at a usage limit, or if another process works on the job
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", hide_possible_values = true)]
    pub(crate) no_wait: Option<bool>,

    /// Stop when the job has cost this much [default: what the workflow says]
    #[arg(long, value_name = "USD", value_parser = parse_usd)]
    pub(crate) budget_usd: Option<f64>,
}

impl SpendingArgs {
    /// Returns the flags that were given.
    pub(crate) fn changes(self) -> OptionChanges {
        let Self { no_wait, budget_usd } = self;
        OptionChanges { no_wait, budget_usd, ..OptionChanges::default() }
    }
}

/// Reads an amount of money.
fn parse_usd(text: &str) -> Result<f64, String> {
    let amount = text.strip_prefix('$').unwrap_or(text).parse::<f64>().ok();
    amount
        .filter(|amount| amount.is_finite() && *amount >= 0.0)
        .ok_or_else(|| "an amount in US dollars, such as 2.50".to_owned())
}
