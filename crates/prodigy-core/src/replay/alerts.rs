//! When somebody has to be told how dead letters are doing.
//!
//! The number of dead letters alone is no reason: a queue that was looked at may be long. It is
//! growth, denials, and what nobody knows or has looked at that somebody must hear of.

#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::Serialize;

use super::{AlertRules, DlqHealth, OldestEntry};
use crate::duration;

/// Growth counts only if it is so many times what it was before.
const OVER_BASELINE: f64 = 3.0;
/// A share of denied replays says nothing about fewer decisions.
const LEAST_DECISIONS: u64 = 5;
/// A share of entries without a reason says nothing about fewer entries.
const LEAST_ENTRIES: u64 = 20;

/// The subject of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertKind {
    /// Many items die, and more than usual.
    Growth,
    /// Many replays are denied.
    Denials,
    /// It is unknown for long what an item changed outside.
    UnknownCommits,
    /// Many items die of nobody knows what.
    Unclassified,
    /// An entry was not looked at for long.
    Oldest,
    /// The audit trail cannot be relied on.
    Audit,
}

/// Something that somebody must hear of.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alert {
    /// The subject of the alert.
    #[serde(rename = "alert")]
    pub kind: AlertKind,
    /// The measured value: a rate, a share, or an age in seconds; none for the audit trail.
    pub value: Option<f64>,
    /// The threshold of the alert; none for the audit trail.
    pub limit: Option<f64>,
    /// The owner of the entry that the alert is about, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The same for people.
    pub text: String,
}

impl AlertKind {
    /// Every kind.
    pub const ALL: &[Self] = &[
        Self::Growth,
        Self::Denials,
        Self::UnknownCommits,
        Self::Unclassified,
        Self::Oldest,
        Self::Audit,
    ];

    /// Returns its name, as people and programs write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Growth => "growth",
            Self::Denials => "denials",
            Self::UnknownCommits => "unknown_commits",
            Self::Unclassified => "unclassified",
            Self::Oldest => "oldest",
            Self::Audit => "audit",
        }
    }

    /// Returns whether it is worse than work that waits: nobody knows what happened.
    pub fn is_critical(self) -> bool {
        match self {
            Self::UnknownCommits | Self::Audit => true,
            Self::Growth | Self::Denials | Self::Unclassified | Self::Oldest => false,
        }
    }
}

impl AlertRules {
    /// Returns what is worth an alert where no policy says so.
    pub fn recommended() -> Self {
        Self {
            growth_per_min: Some(5.0),
            denial_ratio: Some(0.2),
            unknown_commit_age: Some(Duration::from_secs(30 * 60)),
            unclassified_ratio: Some(0.05),
            oldest: Some(Duration::from_secs(24 * 60 * 60)),
            hook: None,
        }
    }
}

/// Returns what somebody must hear of, the worst first.
pub fn alerts(vitals: &DlqHealth, rules: &AlertRules) -> Vec<Alert> {
    let found = [
        audit(vitals),
        unknown_commits(vitals, rules),
        growth(vitals, rules),
        denials(vitals, rules),
        unclassified(vitals, rules),
        oldest(vitals, rules),
    ];
    found.into_iter().flatten().collect()
}

fn audit(vitals: &DlqHealth) -> Option<Alert> {
    let fault = vitals.audit_fault.as_ref()?;
    let text = format!("the audit trail cannot be relied on: {fault}");
    Some(Alert { kind: AlertKind::Audit, value: None, limit: None, owner: None, text })
}

fn growth(vitals: &DlqHealth, rules: &AlertRules) -> Option<Alert> {
    let (value, limit) = (vitals.growth_per_minute(), rules.growth_per_min?);
    let usual = vitals.baseline_per_minute();
    (value > limit && value > usual * OVER_BASELINE).then(|| {
        let text = format!(
            "{value:.1} items failed per minute in the last 10 minutes, more than {limit} and more \
             than {OVER_BASELINE} times the {usual:.2} of the day before"
        );
        Alert { kind: AlertKind::Growth, value: Some(value), limit: Some(limit), owner: None, text }
    })
}

fn denials(vitals: &DlqHealth, rules: &AlertRules) -> Option<Alert> {
    let (value, limit) = (vitals.denial_ratio(), rules.denial_ratio?);
    (value > limit && vitals.decided >= LEAST_DECISIONS).then(|| {
        let text = format!(
            "{} of {} replays were denied in the last hour: {}, more than {}",
            vitals.denied,
            vitals.decided,
            format_percent(value),
            format_percent(limit)
        );
        Alert {
            kind: AlertKind::Denials,
            value: Some(value),
            limit: Some(limit),
            owner: None,
            text,
        }
    })
}

fn unknown_commits(vitals: &DlqHealth, rules: &AlertRules) -> Option<Alert> {
    let (limit, oldest) = (rules.unknown_commit_age?, vitals.oldest_unknown()?);
    let age = vitals.age(oldest.at);
    (age > limit).then(|| {
        let text = format!(
            "what {} changed outside has been unknown for {}, longer than {}; {} in all",
            describe_entry(oldest),
            format_age(age),
            format_age(limit),
            vitals.unknown()
        );
        age_alert(AlertKind::UnknownCommits, [age, limit], oldest, text)
    })
}

fn unclassified(vitals: &DlqHealth, rules: &AlertRules) -> Option<Alert> {
    let (value, limit) = (vitals.unclassified_ratio(), rules.unclassified_ratio?);
    (value > limit && vitals.not_closed() >= LEAST_ENTRIES).then(|| {
        let text = format!(
            "{} of {} entries have no known reason: {}, more than {}",
            vitals.unclassified,
            vitals.not_closed(),
            format_percent(value),
            format_percent(limit)
        );
        Alert {
            kind: AlertKind::Unclassified,
            value: Some(value),
            limit: Some(limit),
            owner: None,
            text,
        }
    })
}

fn oldest(vitals: &DlqHealth, rules: &AlertRules) -> Option<Alert> {
    let (limit, oldest) = (rules.oldest?, vitals.oldest()?);
    let age = vitals.age(oldest.at);
    (age > limit).then(|| {
        let text = format!(
            "{} has been open for {}, longer than {}",
            describe_entry(oldest),
            format_age(age),
            format_age(limit)
        );
        age_alert(AlertKind::Oldest, [age, limit], oldest, text)
    })
}

/// Names an entry, and who looks after it.
fn describe_entry(oldest: &OldestEntry) -> String {
    let OldestEntry { job, item, owner, .. } = oldest;
    let owner = owner.as_ref().map(|owner| format!(" (owner: {owner})")).unwrap_or_default();
    format!("`{item}` of job `{job}`{owner}")
}

fn age_alert(
    kind: AlertKind,
    [value, limit]: [Duration; 2],
    oldest: &OldestEntry,
    text: String,
) -> Alert {
    // Parts of seconds are of no interest to anybody.
    #[expect(clippy::cast_precision_loss, reason = "nothing is 2^53 seconds old")]
    let value = value.as_secs() as f64;
    let (limit, owner) = (Some(limit.as_secs_f64()), oldest.owner.clone());
    Alert { kind, value: Some(value), limit, owner, text }
}

/// Shows an age, in whole minutes if it is longer than one.
pub fn format_age(age: Duration) -> String {
    let shown = duration::format(Duration::from_secs(age.as_secs()));
    match shown.split_once("m ") {
        Some((minutes, _)) => format!("{minutes}m"),
        None => shown,
    }
}

/// Shows a share.
pub fn format_percent(ratio: f64) -> String {
    let shown = format!("{:.1}", ratio * 100.0);
    format!("{}%", shown.strip_suffix(".0").unwrap_or(&shown))
}
