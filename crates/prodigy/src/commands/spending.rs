//! The flags for the budget of a run.

use prodigy_core::event::OptionChanges;

/// The limits of a run, in money and in waiting time.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub(crate) struct SpendingArgs {
    /// Never wait: exit with 75 at a usage limit, or if another process works on the job
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", hide_possible_values = true)]
    pub(super) no_wait: Option<bool>,

    /// Stop when the job has cost this much [default: what the workflow says]
    #[arg(long, value_name = "USD", value_parser = parse_usd)]
    pub(super) budget_usd: Option<f64>,
}

impl SpendingArgs {
    /// Returns the flags that were given.
    pub(super) fn changes(self) -> OptionChanges {
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
