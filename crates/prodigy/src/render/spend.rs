//! Words for money and tokens.

use prodigy_core::{agent::TokenUsage, job::CostSummary, policy::Budget};
use prodigy_engine::{
    clock,
    store::{Layout, read_day, utc_date},
};
use serde_json::{Value, json};

/// The costs of agents, and the rest of the budgets.
pub(crate) struct SpendView<'a> {
    /// The costs of agents.
    pub(crate) costs: &'a CostSummary,
    /// The total cost of the job in all its runs.
    pub(crate) job_usd: f64,
    /// The number of successful items, if there are items.
    pub(crate) successful: Option<u32>,
    /// The budget.
    pub(crate) budget: Budget,
    /// The spend of all jobs today, if it is known and matters.
    pub(crate) today_usd: Option<f64>,
}

impl SpendView<'_> {
    /// Returns what is to be said besides the sum.
    pub(crate) fn details(&self) -> Vec<String> {
        let mut details = Vec::new();
        let each = self.successful.and_then(|count| self.costs.per_success(count));
        let sure = certainty(self.costs);
        details.extend(each.map(|each| format!("{sure}{} per completed item", format_usd(each))));
        if self.costs.lost_usd > 0.0 {
            let lost = format!("{sure}{}", format_usd(self.costs.lost_usd));
            details.push(format!("{lost} spent on failed attempts"));
        }
        details.extend(format_tokens(self.costs.tokens));
        details
    }

    /// Returns what is left of the budgets, one after the other.
    pub(crate) fn remaining(&self) -> Vec<String> {
        let left = |most: f64, spent: f64, of: &str| {
            let (most, rest) = (format_usd(most), format_usd((most - spent).max(0.0)));
            // Nobody knows what those spent who did not say.
            let most_of_it = match certainty(self.costs) {
                "" => "",
                "about " => "about ",
                _ => "at most ",
            };
            format!("{most_of_it}{rest} left of {most} for the {of}")
        };
        let job = self.budget.job_usd.map(|most| left(most, self.job_usd, "job"));
        let day = self.budget.day_usd.zip(self.today_usd);
        let day = day.map(|(most, spent)| left(most, spent, "day"));
        let item = self.budget.item_usd.map(|most| format!("{} for an item", format_usd(most)));
        job.into_iter().chain(day).chain(item).collect()
    }

    /// Returns all of it as JSON, to be put into a document.
    pub(crate) fn document(&self) -> Value {
        let CostSummary { cost_usd, tokens, untold, lost_usd, estimated_usd, .. } = self.costs;
        let Budget { item_usd, job_usd, day_usd, .. } = self.budget;
        let spent = |spent: f64| (*untold == 0).then_some(spent);
        let left = |most: Option<f64>, spent: Option<f64>| Some((most? - spent?).max(0.0));
        json!({
            "cost_usd": (!self.costs.is_unknown()).then_some(cost_usd),
            "cost_estimated_usd": estimated_usd,
            "cost_untold": untold,
            "cost_per_success_usd": self.successful.and_then(|count| self.costs.per_success(count)),
            "lost_usd": lost_usd,
            "tokens": {
                "input": tokens.input_tokens,
                "output": tokens.output_tokens,
                "cache_read": tokens.cache_read_tokens,
                "cache_write": tokens.cache_write_tokens,
            },
            "budget": (!self.budget.is_unlimited()).then(|| json!({
                "item_usd": item_usd,
                "job_usd": job_usd,
                "job_left_usd": left(job_usd, spent(self.job_usd)),
                "day_usd": day_usd,
                "day_left_usd": left(day_usd, self.today_usd.and_then(spent)),
            })),
        })
    }
}

/// Returns what all jobs have spent today, if that can be read.
pub(crate) fn spent_today_usd(layout: &Layout) -> Option<f64> {
    let (mut sum_usd, today) = (0.0, utc_date(clock::now()));
    let directory = Layout::spending_dir(layout.home());
    read_day(&directory, today, |spent| sum_usd += spent.cost_usd).ok()?;
    Some(sum_usd)
}

/// Returns what agents cost, if one was asked and it is worth a word.
pub(crate) fn format_cost(costs: &CostSummary) -> Option<String> {
    if costs.untold > 0 && costs.cost_usd <= 0.0 {
        return Some("unknown".to_owned());
    }
    (costs.cost_usd > 0.0).then(|| format!("{}{}", certainty(costs), format_usd(costs.cost_usd)))
}

/// Returns the words for how sure a sum of costs is, to stand before it.
pub(crate) fn certainty(costs: &CostSummary) -> &'static str {
    match (costs.untold > 0, costs.estimated > 0) {
        (true, true) => "at least about ",
        (true, false) => "at least ",
        (false, true) => "about ",
        (false, false) => "",
    }
}

/// Returns an amount of money.
pub(crate) fn format_usd(amount: f64) -> String {
    // A cent is a lot for one prompt.
    if amount > 0.0 && amount < 0.01 { format!("${amount:.4}") } else { format!("${amount:.2}") }
}

/// Returns how many tokens were used, if any were.
pub(crate) fn format_tokens(usage: TokenUsage) -> Option<String> {
    if usage.is_empty() {
        return None;
    }
    let parts = [
        (usage.input_tokens, "in"),
        (usage.output_tokens, "out"),
        (usage.cache_read_tokens, "from the cache"),
        (usage.cache_write_tokens, "to the cache"),
    ];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> =
        parts.map(|(count, what)| format!("{} {what}", format_compact(count))).collect();
    // The first of them says what is counted.
    Some(parts.join(", ").replacen(' ', " tokens ", 1))
}

/// Returns a number without the digits that nobody needs.
pub(crate) fn format_compact(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{}.{}k", count / 1_000, count % 1_000 / 100),
        1_000_000.. => format!("{}.{}M", count / 1_000_000, count % 1_000_000 / 100_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_short_and_small_ones_are_not_nothing() {
        assert_eq!(
            [0.0, 1.5, 0.01, 0.0042].map(format_usd),
            ["$0.00", "$1.50", "$0.01", "$0.0042"]
        );
        assert_eq!(
            [7, 1_234, 99_999, 1_250_000].map(format_compact),
            ["7", "1.2k", "99.9k", "1.2M"]
        );
    }

    #[test]
    fn what_nobody_told_is_unknown_and_not_nothing() {
        let costs = |told, untold, cost_usd| {
            let mut costs = CostSummary::default();
            (costs.told, costs.untold, costs.cost_usd) = (told, untold, cost_usd);
            costs
        };
        assert_eq!(format_cost(&costs(0, 0, 0.0)), None);
        assert_eq!(format_cost(&costs(1, 0, 0.0)), None);
        assert_eq!(format_cost(&costs(0, 2, 0.0)).unwrap(), "unknown");
        assert_eq!(format_cost(&costs(1, 0, 0.5)).unwrap(), "$0.50");
        assert_eq!(format_cost(&costs(1, 2, 0.5)).unwrap(), "at least $0.50");
        let mut estimated = costs(1, 0, 0.5);
        estimated.estimated = 1;
        assert_eq!(format_cost(&estimated).unwrap(), "about $0.50");
        estimated.untold = 1;
        assert_eq!(format_cost(&estimated).unwrap(), "at least about $0.50");
    }

    #[test]
    fn everything_worth_knowing_is_said() {
        let tokens = TokenUsage { input_tokens: 1_200, output_tokens: 30, ..TokenUsage::default() };
        let mut costs = CostSummary::default();
        (costs.cost_usd, costs.told, costs.lost_usd, costs.tokens) = (1.5, 3, 0.5, tokens);
        let budget = Budget {
            job_usd: Some(1.0),
            day_usd: Some(20.0),
            item_usd: Some(0.25),
            ..Budget::default()
        };
        let money = SpendView {
            costs: &costs,
            job_usd: costs.cost_usd,
            successful: Some(2),
            budget,
            today_usd: Some(4.0),
        };
        insta::assert_snapshot!(money.details().join("\n"), @"
        $0.75 per completed item
        $0.50 spent on failed attempts
        1.2k tokens in, 30 out
        ");
        insta::assert_snapshot!(money.remaining().join("\n"), @"
        $0.00 left of $1.00 for the job
        $16.00 left of $20.00 for the day
        $0.25 for an item
        ");
        insta::assert_snapshot!(format!("{:#}", money.document()), @r#"
        {
          "cost_usd": 1.5,
          "cost_estimated_usd": 0.0,
          "cost_untold": 0,
          "cost_per_success_usd": 0.75,
          "lost_usd": 0.5,
          "tokens": {
            "input": 1200,
            "output": 30,
            "cache_read": 0,
            "cache_write": 0
          },
          "budget": {
            "item_usd": 0.25,
            "job_usd": 1.0,
            "job_left_usd": 0.0,
            "day_usd": 20.0,
            "day_left_usd": 16.0
          }
        }
        "#);
    }
}
