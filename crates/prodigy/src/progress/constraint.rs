//! The states that slow or pause a job: account limits, and budgets.

use std::time::Duration;

use jiff::tz::TimeZone;
use prodigy_core::{Timestamp, agent::QuotaKind, duration, job::Job};

use super::totals::{time_until, whole_seconds};

/// The share of a limit from which on it is worth a word how much is used.
const CLOSE: f64 = 0.8;

/// A state that slows or pauses a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum RunConstraint {
    /// An account is at its limit.
    Waiting {
        /// Of which kind it is.
        kind: QuotaKind,
        /// When it is tried again, if it is.
        until: Option<Timestamp>,
    },
    /// One agent tries whether a limit is lifted.
    Trying(QuotaKind),
    /// The money that was set aside is spent.
    Spent,
    /// Fewer attempts than usual may be under way.
    Fewer {
        /// The number allowed now.
        max: u32,
        /// The usual number.
        usual: u32,
    },
    /// So much of a limit is used, from 0 to 1.
    Close(f64),
}

impl RunConstraint {
    /// Returns what keeps a job; `usual` is how many attempts may be under way otherwise.
    pub(crate) fn from_job(job: &Job, usual: u32) -> Option<Self> {
        if let Some(paused) = &job.quota {
            let (kind, until) = (paused.limit.kind, paused.until);
            let is_tried = paused.probe.is_some();
            return Some(if is_tried { Self::Trying(kind) } else { Self::Waiting { kind, until } });
        }
        if job.overspent.is_some() {
            return Some(Self::Spent);
        }
        let ceiling = job.map.as_ref().and_then(|map| map.ceiling);
        if let Some(max) = ceiling.filter(|max| *max < usual) {
            return Some(Self::Fewer { max, usual });
        }
        let used = job.utilization.filter(|used| used.share >= CLOSE);
        used.map(|used| Self::Close(used.share))
    }

    /// Returns whether nobody can say when the rest will be done.
    pub(crate) fn is_blocking(self) -> bool {
        match self {
            Self::Waiting { .. } | Self::Trying(_) | Self::Spent => true,
            Self::Fewer { .. } | Self::Close(_) => false,
        }
    }

    /// Says it.
    pub(crate) fn show(self, now: Timestamp, zone: &TimeZone) -> String {
        match self {
            Self::Waiting { kind, until: Some(until) } if until <= now => {
                format!("{} · trying again", obstacle_name(kind))
            }
            Self::Waiting { kind: kind @ QuotaKind::Usage, until: Some(until) } => {
                format!("{} · resumes {}", obstacle_name(kind), format_moment(until, now, zone))
            }
            Self::Waiting { kind, .. } => obstacle_name(kind).to_owned(),
            Self::Trying(kind) => format!("{} · trying with one agent", obstacle_name(kind)),
            Self::Spent => "budget spent".to_owned(),
            Self::Fewer { max, usual } => format!("throttled to {max} of {usual}"),
            Self::Close(share) => format!("{:.0}% of the limit used", share * 100.0),
        }
    }
}

/// Returns the name of what stands in the way of agents.
fn obstacle_name(kind: QuotaKind) -> &'static str {
    match kind {
        QuotaKind::Usage => "usage limit",
        QuotaKind::Credits => "out of credits",
        QuotaKind::Access => "no access",
        QuotaKind::UnknownCost => "unknown cost",
    }
}

/// Says when something will be, by the clock on the wall and from now on.
pub(crate) fn format_moment(at: Timestamp, now: Timestamp, zone: &TimeZone) -> String {
    let (wall, today) = (at.to_zoned(zone.clone()), now.to_zoned(zone.clone()));
    let is_today = wall.date() == today.date();
    let shown = wall.strftime(if is_today { "%H:%M:%S" } else { "%Y-%m-%d %H:%M" });
    let left = whole_seconds(time_until(at, now)).max(Duration::from_secs(1));
    format!("{shown} (in {})", duration::format(left))
}

/// Says that a limit was reached, and what becomes of that at a moment: the job goes on by itself
/// if it waits.
pub(crate) fn quota_message(
    message: &str,
    until: Option<Timestamp>,
    waits: bool,
    now: Timestamp,
    zone: &TimeZone,
) -> String {
    let Some(until) = until.map(|until| format_moment(until, now, zone)) else {
        return message.to_owned();
    };
    if waits {
        format!("{message}; it is tried again at {until}")
    } else {
        format!("{message}; `prodigy resume` tries it with one agent from {until} on")
    }
}

#[cfg(test)]
mod tests {
    use prodigy_core::job::QuotaShare;

    use super::*;
    use crate::progress::job_fixture::timestamp_at;

    #[test]
    fn a_limit_is_worth_a_word_when_most_of_it_is_used() {
        let shown = |share| {
            let utilization = Some(QuotaShare { share, resets_at: None });
            let job = Job { utilization, ..Job::default() };
            RunConstraint::from_job(&job, 4).map(|hold| hold.show(timestamp_at(0), &TimeZone::UTC))
        };
        assert_eq!(shown(0.79), None);
        assert_eq!(shown(0.8).as_deref(), Some("80% of the limit used"));
        assert_eq!(shown(0.95).as_deref(), Some("95% of the limit used"));
    }

    #[test]
    fn a_wait_is_shown_by_the_clock_and_counted_down() {
        let hold = |seconds: i64| RunConstraint::Waiting {
            kind: QuotaKind::Usage,
            until: Some(timestamp_at(seconds * 1000)),
        };
        let shown =
            |seconds, now: i64| hold(seconds).show(timestamp_at(now * 1000), &TimeZone::UTC);
        insta::assert_snapshot!(shown(2520, 0), @"usage limit · resumes 03:46:05 (in 42m 00s)");
        insta::assert_snapshot!(shown(2520, 2457), @"usage limit · resumes 03:46:05 (in 1m 03s)");
        insta::assert_snapshot!(shown(2520, 2159), @"usage limit · resumes 03:46:05 (in 6m 01s)");
        insta::assert_snapshot!(shown(2520, 2500), @"usage limit · resumes 03:46:05 (in 20s)");
        insta::assert_snapshot!(shown(2520, 2520), @"usage limit · trying again");
        insta::assert_snapshot!(shown(90_000, 0), @"usage limit · resumes 2026-01-03 04:04 (in 1d 01h)");
    }
}
