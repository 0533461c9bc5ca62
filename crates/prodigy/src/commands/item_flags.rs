//! The flags about the items of a job.

use std::num::NonZeroU32;

use prodigy_core::event::{JobMode, OptionChanges};

use super::spending::SpendingArgs;
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
    pub(super) fn changes(
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
pub(super) fn item_concurrency(
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
pub(super) fn items_required_error(flag: &str) -> CliError {
    let message = format!("`{flag}` is for workflows that have items; this one is sequential");
    CliError::new(Exit::Usage, message).with_hint("leave it out")
}
