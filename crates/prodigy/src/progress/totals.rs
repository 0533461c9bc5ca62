//! The progress of a job's items, on one line.

use std::time::Duration;

use jiff::tz::TimeZone;
use prodigy_core::{
    Timestamp, duration,
    job::{CircuitStatus, ItemSummary},
};

use super::{constraint::RunConstraint, item_reporter::ItemReporter};

/// Returns how many items are done and how many failed.
pub(crate) fn item_count_parts(items: &ItemSummary) -> Vec<String> {
    let mut parts = vec![format!("{}/{} done", items.counts.successful, items.total)];
    if items.counts.failed() > 0 {
        parts.push(format!("{} failed", items.counts.failed()));
    }
    if items.counts.dead_lettered > 0 {
        parts.push(format!("{} in DLQ", items.counts.dead_lettered));
    }
    parts
}

/// A part of the line of totals.
pub(crate) struct TotalsPart {
    /// The priority for removal: where room is scarce, the part with the highest number goes first.
    pub(crate) gives_way: u8,
    /// The text.
    pub(crate) text: String,
}

/// Returns the totals: done, running, failed, DLQ, what keeps it, rate, time left, cost.
pub(crate) fn totals(
    items: &ItemSummary,
    teller: &ItemReporter,
    now: Timestamp,
    zone: &TimeZone,
) -> Vec<TotalsPart> {
    let mut parts = Vec::new();
    let mut push = |gives_way, text| parts.push(TotalsPart { gives_way, text });
    let mut counts = item_count_parts(items).into_iter();
    counts.next().into_iter().for_each(|done| push(0, done));
    if items.running() > 0 {
        push(3, format!("{} running", items.running()));
    }
    (2..).step_by(3).zip(counts).for_each(|(gives_way, count)| push(gives_way, count));
    match items.circuit {
        Some(CircuitStatus::Open { until }) => {
            let wait = duration::format(whole_seconds(time_until(until, now)));
            push(1, format!("circuit open for {wait}"));
        }
        Some(CircuitStatus::HalfOpen) => push(1, "circuit half open".to_owned()),
        None => {}
    }
    teller.hold.into_iter().for_each(|hold| push(1, hold.show(now, zone)));
    if !teller.hold.is_some_and(RunConstraint::is_blocking) {
        items.pace.per_second(now).into_iter().for_each(|rate| push(7, format_rate(rate)));
        let left = items.eta(now).into_iter();
        left.for_each(|left| push(4, format!("about {} left", format_estimate(left))));
    }
    teller.cost().into_iter().for_each(|cost| push(6, cost));
    parts
}

/// Returns the totals on one line, in plain text of any length.
pub(crate) fn totals_line(
    items: &ItemSummary,
    teller: &ItemReporter,
    now: Timestamp,
    zone: &TimeZone,
) -> String {
    let parts = totals(items, teller, now, zone).into_iter().map(|part| part.text);
    parts.collect::<Vec<_>>().join(" · ")
}

/// Returns how many items end in a second, a minute or an hour.
pub(crate) fn format_rate(per_second: f64) -> String {
    let (number, unit) = if per_second >= 1.0 {
        (per_second, "s")
    } else if per_second * 60.0 >= 1.0 {
        (per_second * 60.0, "min")
    } else {
        (per_second * 3600.0, "h")
    };
    if number >= 10.0 { format!("{number:.0}/{unit}") } else { format!("{number:.1}/{unit}") }
}

/// Returns a duration without the digits that nobody can foretell.
pub(crate) fn format_estimate(left: Duration) -> String {
    let seconds = left.as_secs();
    if seconds < 60 {
        format!("{}s", seconds.max(1))
    } else if seconds < 3600 {
        format!("{}m", seconds.div_ceil(60))
    } else {
        duration::format(left)
    }
}

/// Returns a duration without the part of a second that would flicker.
pub(crate) fn whole_seconds(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs())
}

/// Returns the time from a moment until another; none if that is past.
pub(crate) fn time_until(until: Timestamp, from: Timestamp) -> Duration {
    Duration::try_from(until.duration_since(from)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_times_are_shown_in_the_unit_that_fits() {
        let rates = [310.4, 10.0, 3.12, 1.0, 0.9, 0.05, 0.016, 0.001].map(format_rate);
        assert_eq!(rates.join(" "), "310/s 10/s 3.1/s 1.0/s 54/min 3.0/min 58/h 3.6/h");
        let times = [0, 1, 59, 60, 61, 300, 3599, 3600, 7500, 90_000];
        let times = times.map(|seconds| format_estimate(Duration::from_secs(seconds)));
        assert_eq!(times.join(" "), "1s 1s 59s 1m 2m 5m 60m 1h 00m 2h 05m 1d 01h");
    }
}
