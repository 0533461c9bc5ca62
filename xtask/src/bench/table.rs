//! The figures, as a table that a person and a wiki can read.

use std::fmt::Write as _;

/// One budget and what was measured for it.
#[derive(Clone, Debug)]
pub(crate) struct BenchRow {
    /// The name of the measurement.
    pub(crate) what: String,
    /// The best round, and the median.
    pub(crate) measured: String,
    /// The figure that it is compared with.
    pub(crate) floor: String,
    /// The best round divided by the floor or the budget.
    pub(crate) ratio: f64,
    /// The budget, in words.
    pub(crate) budget: String,
    /// The largest ratio allowed; `None` for a figure that is only shown.
    pub(crate) limit: Option<f64>,
}

impl BenchRow {
    /// Returns whether the budget is kept, if there is one. What could not be measured is not.
    pub(crate) fn is_met(&self) -> bool {
        self.limit.is_none_or(|limit| self.ratio <= limit)
    }

    /// Returns the verdict in a word.
    fn verdict(&self) -> &'static str {
        match self.limit {
            None => "–",
            Some(_) if self.is_met() => "ok",
            Some(_) => "MISSED",
        }
    }
}

/// Returns the rows as a Markdown table.
pub(crate) fn render(rows: &[BenchRow]) -> String {
    let mut table = String::from(
        "| What | Measured (best / median) | Held against | Ratio | Budget | |\n|---|---|---|---|---|---|\n",
    );
    for row in rows {
        // Writing to a string cannot go wrong.
        writeln!(
            table,
            "| {} | {} | {} | {:.2} | {} | {} |",
            row.what,
            row.measured,
            row.floor,
            row.ratio,
            row.budget,
            row.verdict()
        )
        .ok();
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_budget_stands_out() {
        let row = |limit| BenchRow {
            what: "start".to_owned(),
            measured: "2.0 / 2.1 ms".to_owned(),
            floor: "1.0 ms".to_owned(),
            ratio: 2.0,
            budget: "8.0 ms".to_owned(),
            limit,
        };
        insta::assert_snapshot!(render(&[row(Some(2.0)), row(Some(1.9)), row(None)]), @"
        | What | Measured (best / median) | Held against | Ratio | Budget | |
        |---|---|---|---|---|---|
        | start | 2.0 / 2.1 ms | 1.0 ms | 2.00 | 8.0 ms | ok |
        | start | 2.0 / 2.1 ms | 1.0 ms | 2.00 | 8.0 ms | MISSED |
        | start | 2.0 / 2.1 ms | 1.0 ms | 2.00 | 8.0 ms | – |
        ");
    }
}
