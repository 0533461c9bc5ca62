//! What a run may spend.

/// What a run may spend, in money and in time.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub(crate) struct SpendingArgs {
    /// Never wait: exit with 75 at a usage limit, or if another process works on the job
    #[arg(long)]
    pub(super) no_wait: bool,

    /// Stop when the job has cost this much [default: what the workflow says]
    #[arg(long, value_name = "USD", value_parser = dollars)]
    pub(super) budget_usd: Option<f64>,
}

/// Reads an amount of money.
fn dollars(text: &str) -> Result<f64, String> {
    let amount = text.strip_prefix('$').unwrap_or(text).parse::<f64>().ok();
    amount
        .filter(|amount| amount.is_finite() && *amount >= 0.0)
        .ok_or_else(|| "an amount in US dollars, such as 2.50".to_owned())
}
