//! The items of a job, as `prodigy jobs` shows them.

use std::time::Duration;

use prodigy_core::{
    Timestamp, duration,
    job::{BusyAgent, CircuitStatus, ItemSummary, JobSummary},
};
use serde_json::{Value, json};

use crate::progress::{activity_text, format_estimate, format_rate, line_endings};

/// The most agents that are shown; the JSON document has them all.
const MOST_AGENTS: usize = 12;

/// Returns what there is to say of a job's items, by name.
pub(super) fn item_facts(
    summary: &JobSummary,
    is_running: bool,
    now: Timestamp,
) -> Vec<(&'static str, String)> {
    let Some(items) = &summary.items else { return Vec::new() };
    let items = &current_items(items, is_running, now);
    let mut facts = vec![("items", counts(items, is_running))];
    if is_running && items.counts.finished() < items.total {
        facts.extend(throughput_line(items, now).map(|pace| ("pace", pace)));
        facts.extend(items.circuit.map(|circuit| ("circuit", describe_circuit(circuit, now))));
        let agents = items.agents.iter().take(MOST_AGENTS);
        facts.extend(agents.map(|(agent, busy)| {
            let elapsed = duration::format(whole_seconds(busy_time(busy, now)));
            let step = match &busy.step {
                Some((step, name)) => format!("{step} {name}"),
                None => "starting".to_owned(),
            };
            let attempt = match busy.attempt {
                0 | 1 => String::new(),
                attempt => format!(" (attempt {attempt})"),
            };
            let step = activity_text(step, &busy.activity);
            let [end, ..] = line_endings(&busy.activity, now, &elapsed);
            ("agent", format!("{agent}  {}{attempt}  {step}  {end}", busy.item))
        }));
        let more = items.agents.len().saturating_sub(MOST_AGENTS);
        if more > 0 {
            facts.push(("agent", format!("… and {more} more")));
        }
    }
    let metrics = items.metrics();
    let is_pattern = |kind: &str| metrics.failure_patterns.iter().any(|p| p.pattern_type == kind);
    for pattern in &metrics.failure_patterns {
        let example = match pattern.example.as_str() {
            "" => String::new(),
            example => format!(", e.g. {example}"),
        };
        let advice = pattern.suggested_action.trim_end_matches('.');
        let text = format!("{} × {}{example} ({advice})", pattern.frequency, pattern.pattern_type);
        facts.push(("failures", text));
    }
    let rare = metrics.error_types.iter().filter(|(kind, _)| !is_pattern(kind));
    facts.extend(rare.map(|(kind, count)| ("failures", format!("{count} × {kind}"))));
    facts
}

fn counts(items: &ItemSummary, is_running: bool) -> String {
    let mut parts = vec![format!("{} of {} done", items.counts.successful, items.total)];
    let mut push = |number: u32, what: &str| {
        if number > 0 {
            parts.push(format!("{number} {what}"));
        }
    };
    push(items.counts.recovered, "recovered");
    push(items.counts.ignored, "with an ignored failure");
    push(items.counts.dead_lettered, "in the DLQ");
    push(items.counts.skipped, "left out");
    if is_running {
        push(items.running(), "running");
        push(items.pending(), "waiting");
    } else {
        push(items.running() + items.pending(), "waiting");
    }
    push(items.retried, "tried again");
    parts.join(", ")
}

fn throughput_line(items: &ItemSummary, now: Timestamp) -> Option<String> {
    let pace = format_rate(items.pace.per_second(now)?);
    let left = items.eta(now).map(|left| format!(", about {} left", format_estimate(left)));
    Some(pace + &left.unwrap_or_default())
}

fn describe_circuit(circuit: CircuitStatus, now: Timestamp) -> String {
    match circuit {
        CircuitStatus::Open { until } => {
            format!("open for {}", duration::format(whole_seconds(between(now, until))))
        }
        CircuitStatus::HalfOpen => "half open".to_owned(),
    }
}

/// Returns the items as they are: of a job whose process died, nothing is under way.
fn current_items(items: &ItemSummary, is_running: bool, now: Timestamp) -> ItemSummary {
    let mut items = items.clone();
    if !is_running {
        items.release(now);
    }
    items
}

/// Returns the items of a job as JSON.
pub(super) fn document(items: &ItemSummary, is_running: bool, now: Timestamp) -> Value {
    let items = &current_items(items, is_running, now);
    let agents = items.agents.iter().map(|(agent, busy)| {
        json!({
            "agent_id": agent,
            "item_id": busy.item,
            "attempt": busy.attempt,
            "step": busy.step.as_ref().map(|(step, _)| step),
            "step_name": busy.step.as_ref().map(|(_, name)| name),
            "since": busy.since,
            "elapsed_ms": millis(busy_time(busy, now)),
            "last_tool": busy.activity.tool.as_ref().map(|(tool, _)| tool),
            "last_heard_at": busy.activity.heard,
            "cost_usd": busy.activity.cost_usd,
        })
    });
    let (circuit, open_until) = match items.circuit {
        None => ("closed", None),
        Some(CircuitStatus::Open { until }) => ("open", Some(until)),
        Some(CircuitStatus::HalfOpen) => ("half_open", None),
    };
    let metrics = items.metrics();
    json!({
        "total": items.total,
        "successful": items.counts.successful,
        "recovered": items.counts.recovered,
        "ignored": items.counts.ignored,
        "dead_lettered": items.counts.dead_lettered,
        "skipped": items.counts.skipped,
        "running": items.running(),
        "pending": items.pending(),
        "retried": items.retried,
        "agents": agents.collect::<Vec<_>>(),
        "circuit": circuit,
        "circuit_open_until": open_until,
        "per_second": items.pace.per_second(now),
        "left_ms": items.eta(now).map(millis),
        "failure_rate": metrics.failure_rate,
        "error_types": metrics.error_types,
        "failure_patterns": metrics.failure_patterns,
    })
}

fn busy_time(busy: &BusyAgent, now: Timestamp) -> Duration {
    between(busy.since, now)
}

/// Returns the time between two moments; none if the second comes first.
fn between(from: Timestamp, until: Timestamp) -> Duration {
    Duration::try_from(until.duration_since(from)).unwrap_or_default()
}

fn whole_seconds(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
