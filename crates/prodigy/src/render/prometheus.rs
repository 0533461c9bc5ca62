//! The status as a file for the textfile collector of Prometheus' node exporter.

use std::{fmt::Write as _, io::Write as _, path::Path};

use prodigy_core::{
    Timestamp,
    replay::{OldestEntry, alerts::AlertKind},
};
use prodigy_engine::clock;

use crate::{
    commands::dlq::status::DlqHealthView,
    error::CliError,
    render::output_file::{self, OutputFileError},
};

/// Writes the file so that a reader sees the old or the new one, never half of it.
///
/// Other users have to read it, so it is no file of the store.
pub(crate) fn write(path: &Path, status: &DlqHealthView<'_>) -> Result<(), CliError> {
    let text = text(status, clock::now());
    output_file::write(path, |file| {
        file.write_all(text.as_bytes()).map_err(|error| OutputFileError::new(path, error).into())
    })
}

/// The text of a file that is being put together.
struct MetricsText(String);

impl MetricsText {
    /// Begins a metric.
    fn metric(&mut self, name: &str, help: &str) {
        // Writing to a text cannot fail.
        write!(self.0, "# HELP prodigy_dlq_{name} {help}\n# TYPE prodigy_dlq_{name} gauge\n").ok();
    }

    /// Adds a value of the metric.
    fn value(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let labels: Vec<_> = labels
            .iter()
            .map(|(label, value)| format!("{label}=\"{}\"", escape_label(value)))
            .collect();
        let labels =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        writeln!(self.0, "prodigy_dlq_{name}{labels} {value}").ok();
    }

    /// Adds a metric with one value.
    fn single(&mut self, name: &str, help: &str, value: f64) {
        self.metric(name, help);
        self.value(name, &[], value);
    }
}

/// Returns a value of a label as the format wants it.
fn escape_label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Returns the whole file.
fn text(status: &DlqHealthView<'_>, now: Timestamp) -> String {
    let vitals = &status.vitals;
    let mut page = MetricsText(String::new());
    add_job_metrics(status, &mut page);
    page.single("replaying_entries", "Entries that are being replayed.", number(vitals.replaying));
    let help = "Items that failed per minute in the last 10 minutes.";
    page.single("growth_per_minute", help, vitals.growth_per_minute());
    let help = "Items that failed per minute in the day before the last 10 minutes.";
    page.single("growth_baseline_per_minute", help, vitals.baseline_per_minute());
    let help = "Replays that were decided over in the last hour.";
    page.single("replays_decided", help, number(vitals.decided));
    let help = "Replays that were denied in the last hour.";
    page.single("replays_denied", help, number(vitals.denied));
    let help = "Entries that are not closed and have no known reason.";
    page.single("unclassified_entries", help, number(vitals.unclassified));
    if status.records.is_some() || vitals.audit_fault.is_some() {
        let ok = f64::from(u8::from(vitals.audit_fault.is_none()));
        page.single("audit_ok", "Whether the audit trail is what was recorded.", ok);
    }
    page.metric("alert_firing", "Whether the alert is firing.");
    for kind in AlertKind::ALL {
        let fires = status.alerts.iter().any(|alert| alert.kind == *kind);
        page.value("alert_firing", &[("alert", kind.name())], f64::from(u8::from(fires)));
    }
    #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 fit")]
    let seconds = now.as_second() as f64;
    page.single("status_timestamp_seconds", "When these numbers were taken.", seconds);
    page.0
}

/// Adds what is counted for each job.
fn add_job_metrics(status: &DlqHealthView<'_>, page: &mut MetricsText) {
    let jobs = &status.vitals.jobs;
    let name = "open_entries";
    page.metric(name, "Open entries, by why the item failed.");
    for (job, vitals) in jobs {
        for (code, open) in &vitals.open {
            let labels = [("job", job.as_str()), ("reason_code", *code)];
            page.value(name, &labels, number(*open));
        }
    }
    let age = |oldest: &OldestEntry| number(status.vitals.age(oldest.at).as_secs());
    let name = "oldest_open_seconds";
    page.metric(name, "How long the oldest open entry has been open.");
    for (job, vitals) in jobs {
        if let Some(oldest) = &vitals.oldest {
            page.value(name, &[("job", job.as_str())], age(oldest));
        }
    }
    let name = "unknown_commits";
    page.metric(name, "Open entries that may or may not have changed something outside.");
    for (job, vitals) in jobs {
        page.value(name, &[("job", job.as_str())], number(vitals.unknown));
    }
    let name = "oldest_unknown_commit_seconds";
    page.metric(name, "How long it has been unknown what an item changed outside.");
    for (job, vitals) in jobs {
        if let Some(oldest) = &vitals.oldest_unknown {
            page.value(name, &[("job", job.as_str())], age(oldest));
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "nobody has 2^53 dead letters")]
fn number(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut page = MetricsText(String::new());
        page.value("x", &[("a", "b\"\\\nc"), ("d", "e")], 0.5);
        assert_eq!(page.0, "prodigy_dlq_x{a=\"b\\\"\\\\\\nc\",d=\"e\"} 0.5\n");
    }
}
