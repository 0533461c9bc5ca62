//! The flags of a run that hold for the rest of its job.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The flags of a job's command line. They hold on every resume until others are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunOptions {
    /// `--max-parallel`: the most items at once; left out if the workflow says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<NonZeroU32>,
    /// `--no-items fail`: a job without items fails.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_items: bool,
    /// `--no-wait`: a usage limit stops the job.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_wait: bool,
    /// `--fail-on-dlq`: dead letters have an exit code of their own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fail_on_dlq: bool,
    /// `--budget-usd`: the most the job may cost; left out if the workflow says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_usd: Option<f64>,
    /// `--yes` of a resume: the result is merged without asking; left out if none was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yes: Option<bool>,
}

/// The flags that one command line gives; those it leaves out stay as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OptionChanges {
    /// `--max-parallel`.
    pub max_parallel: Option<NonZeroU32>,
    /// `--no-items`.
    pub needs_items: Option<bool>,
    /// `--no-wait`.
    pub no_wait: Option<bool>,
    /// `--fail-on-dlq`.
    pub fail_on_dlq: Option<bool>,
    /// `--budget-usd`.
    pub budget_usd: Option<f64>,
    /// `--yes`.
    pub yes: Option<bool>,
}

impl RunOptions {
    /// Returns the options with those that were given in the place of the old ones.
    #[must_use]
    pub fn with(self, given: OptionChanges) -> Self {
        Self {
            max_parallel: given.max_parallel.or(self.max_parallel),
            needs_items: given.needs_items.unwrap_or(self.needs_items),
            no_wait: given.no_wait.unwrap_or(self.no_wait),
            fail_on_dlq: given.fail_on_dlq.unwrap_or(self.fail_on_dlq),
            budget_usd: given.budget_usd.or(self.budget_usd),
            yes: given.yes.or(self.yes),
        }
    }

    /// Returns whether nothing was given.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
