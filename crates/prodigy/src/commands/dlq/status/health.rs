//! The status in words and in JSON.

use prodigy_core::{
    audit::AuditVerification,
    replay::{
        DlqHealth, OldestEntry,
        alerts::{Alert, AlertKind, format_age, format_percent},
    },
};
use serde_json::{Value, json};

use super::DlqHealthView;
use crate::{
    commands::dlq::entries::labels::SCHEMA_VERSION, error::CliError, progress::plural,
    render::console::Console,
};

/// Prints all numbers, and what is wrong.
pub(crate) fn print_health(status: &DlqHealthView<'_>, out: &mut Console) -> Result<(), CliError> {
    for (name, value) in facts(status) {
        out.line(format_args!("{name:<17}{value}"))?;
    }
    if !status.alerts.is_empty() {
        out.line("")?;
    }
    alert_lines(status, out)
}

/// Prints what is wrong, or that nothing is.
pub(crate) fn print_alerts(status: &DlqHealthView<'_>, out: &mut Console) -> Result<(), CliError> {
    if status.alerts.is_empty() && !status.is_partial {
        out.line(format_args!("ok: {} open", status.vitals.open()))?;
    }
    alert_lines(status, out)
}

fn alert_lines(status: &DlqHealthView<'_>, out: &mut Console) -> Result<(), CliError> {
    for alert in &status.alerts {
        let (name, text, next) = (alert.kind.name(), &alert.text, next_command(status, alert));
        out.line(format_args!("alert {name}: {text}; next: {next}"))?;
    }
    Ok(())
}

fn facts(status: &DlqHealthView<'_>) -> Vec<(&'static str, String)> {
    let vitals = &status.vitals;
    let mut open = vitals.open().to_string();
    if vitals.replaying > 0 {
        open = format!("{open}, {} being replayed", vitals.replaying);
    }
    let growth = format!(
        "{:.1} per minute in the last 10 minutes, {:.2} in the day before",
        vitals.growth_per_minute(),
        vitals.baseline_per_minute()
    );
    let denials = match vitals.decided {
        0 => "no replays in the last hour".to_owned(),
        decided => format!(
            "{} of {} in the last hour ({})",
            vitals.denied,
            plural(decided, "replay"),
            format_percent(vitals.denial_ratio())
        ),
    };
    let unclassified = match vitals.unclassified {
        0 => "0".to_owned(),
        number => format!("{number} ({})", format_percent(vitals.unclassified_ratio())),
    };
    let oldest = vitals.oldest().map_or("none".to_owned(), |oldest| format_oldest(vitals, oldest));
    let unknown = match vitals.oldest_unknown() {
        Some(oldest) => {
            format!("{}, the oldest {}", vitals.unknown(), format_oldest(vitals, oldest))
        }
        None => "0".to_owned(),
    };
    vec![
        ("open", open),
        ("growth", growth),
        ("denials", denials),
        ("oldest", oldest),
        ("unknown commits", unknown),
        ("unclassified", unclassified),
        ("audit trail", audit_label(status)),
    ]
}

fn format_oldest(vitals: &DlqHealth, oldest: &OldestEntry) -> String {
    format!("{} ago: {} {}", format_age(vitals.age(oldest.at)), oldest.job, oldest.item)
}

fn audit_label(status: &DlqHealthView<'_>) -> String {
    if let Some(fault) = &status.vitals.audit_fault {
        return fault.clone();
    }
    match status.records {
        Some(records) => format!("ok, {}", plural(records, "record")),
        None => "not checked: this is no repository".to_owned(),
    }
}

/// Returns why an audit trail cannot be relied on.
pub(crate) fn audit_problem(verified: &AuditVerification) -> Option<String> {
    match verified {
        AuditVerification::Whole { .. } => None,
        AuditVerification::Broken { line, why } => Some(format!("broken at line {line}: {why}")),
        AuditVerification::Truncated { have, anchored } => {
            Some(format!("truncated: {} missing", plural(anchored - have, "record")))
        }
        AuditVerification::Unanchored { .. } => Some("its anchor in git is gone".to_owned()),
    }
}

/// Returns the command that makes sense next.
fn next_command(status: &DlqHealthView<'_>, alert: &Alert) -> String {
    let of_job = status.job.map(|job| format!(" {job}")).unwrap_or_default();
    let show = |oldest: Option<&OldestEntry>| match oldest {
        Some(oldest) => format!("dlq show {} {}", oldest.job, oldest.item),
        None => format!("dlq list{of_job}"),
    };
    let command = match alert.kind {
        AlertKind::Growth => format!("dlq analyze{of_job}"),
        AlertKind::Denials => "audit show --action replay --since 1h".to_owned(),
        AlertKind::UnknownCommits => show(status.vitals.oldest_unknown()),
        AlertKind::Unclassified => format!("dlq list{of_job} --reason unclassified"),
        AlertKind::Oldest => show(status.vitals.oldest()),
        AlertKind::Audit => "audit verify".to_owned(),
    };
    format!("{} {command}", status.program)
}

/// Returns everything as one document.
pub(crate) fn document(status: &DlqHealthView<'_>) -> Value {
    let vitals = &status.vitals;
    let oldest = |oldest: Option<&OldestEntry>| {
        oldest.map(|one| {
            let seconds = vitals.age(one.at).as_secs();
            let (job, item, owner) = (&one.job, &one.item, &one.owner);
            json!({
                "job_id": job,
                "item_id": item,
                "owner": owner,
                "since": one.at,
                "seconds": seconds,
            })
        })
    };
    let alerts = status.alerts.iter().map(|alert| {
        let mut document = serde_json::to_value(alert).unwrap_or_default();
        if let Value::Object(fields) = &mut document {
            fields.insert("grave".to_owned(), json!(alert.kind.is_critical()));
            fields.insert("next".to_owned(), json!(next_command(status, alert)));
        }
        document
    });
    let checked = status.records.is_some() || vitals.audit_fault.is_some();
    json!({
        "schema_version": SCHEMA_VERSION,
        "job_id": status.job,
        "open": vitals.open(),
        "replaying": vitals.replaying,
        "growth_per_min": vitals.growth_per_minute(),
        "baseline_per_min": vitals.baseline_per_minute(),
        "replays_decided": vitals.decided,
        "replays_denied": vitals.denied,
        "oldest": oldest(vitals.oldest()),
        "unknown_commits": vitals.unknown(),
        "oldest_unknown_commit": oldest(vitals.oldest_unknown()),
        "unclassified": vitals.unclassified,
        "audit_ok": checked.then_some(vitals.audit_fault.is_none()),
        "partial": status.is_partial,
        "alerts": alerts.collect::<Vec<_>>(),
    })
}
