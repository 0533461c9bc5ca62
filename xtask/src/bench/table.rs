//! The figures, as a table that a person and a wiki can read.

use std::fmt::Write as _;

/// One budget and what was measured for it.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// What was measured.
    pub(crate) what: String,
    /// The best round, and the median.
    pub(crate) measured: String,
    /// What it is held against.
    pub(crate) floor: String,
    /// The best round divided by the floor or the budget.
    pub(crate) ratio: f64,
    /// What it may be.
    pub(crate) budget: String,
    /// Whether it is.
    pub(crate) met: bool,
}

/// Returns the rows as a Markdown table.
pub(crate) fn render(rows: &[Row]) -> String {
    let mut table = String::from(
        "| What | Measured (best / median) | Held against | Ratio | Budget | |\n|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let verdict = if row.met { "ok" } else { "MISSED" };
        // Writing to a string cannot go wrong.
        writeln!(
            table,
            "| {} | {} | {} | {:.2} | {} | {verdict} |",
            row.what, row.measured, row.floor, row.ratio, row.budget
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
        let row = |met| Row {
            what: "start".to_owned(),
            measured: "2.0 / 2.1 ms".to_owned(),
            floor: "1.0 ms".to_owned(),
            ratio: 2.0,
            budget: "8.0 ms".to_owned(),
            met,
        };
        insta::assert_snapshot!(render(&[row(true), row(false)]), @"
        | What | Measured (best / median) | Held against | Ratio | Budget | |
        |---|---|---|---|---|---|
        | start | 2.0 / 2.1 ms | 1.0 ms | 2.00 | 8.0 ms | ok |
        | start | 2.0 / 2.1 ms | 1.0 ms | 2.00 | 8.0 ms | MISSED |
        ");
    }
}
