//! Trying again: `retry`, `retry_config` and `backoff`.

use std::{num::NonZeroU32, time::Duration};

use super::{context::Lower, fields::Fields, read::at_least_one};
use crate::{
    diagnostic::Diagnostic,
    failure::{ReasonClass, ReasonCode},
    policy::{Backoff, RetryPolicy},
    workflow::default_backoff,
    yaml::{YamlNode, YamlValue},
};

/// The default maximum number of attempts.
const ATTEMPTS: NonZeroU32 = at_least_one(3);

/// The first wait if nobody says.
const INITIAL: Duration = Duration::from_secs(1);

/// The growth per try if nobody says.
const MULTIPLIER: f64 = 2.0;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Growth {
    Fixed,
    Linear,
    Exponential,
    Fibonacci,
}

const GROWTHS: &[(&str, Growth)] = &[
    ("fixed", Growth::Fixed),
    ("linear", Growth::Linear),
    ("exponential", Growth::Exponential),
    ("fibonacci", Growth::Fibonacci),
];

/// The key that says how often items are tried.
pub(super) const OF_ITEMS: &str = "max_attempts";

/// Returns what helps with a failure after which nothing is tried again, whatever a policy says.
fn never_retried(kind: ReasonCode, is_for_items: bool) -> Option<&'static str> {
    // A step may still come by with less; an item has spent what all its tries have.
    if is_for_items && kind == ReasonCode::BudgetExceeded {
        return Some(
            "take it out; a higher `item_usd` or `max_budget_usd` helps, with `prodigy dlq retry JOB --use-current-workflow`",
        );
    }
    if kind == ReasonCode::Cancelled {
        return Some("take it out; `prodigy resume` goes on after a stop");
    }
    if kind == ReasonCode::PoisonRepeat {
        return Some("take it out; `prodigy dlq retry` tries such an item again");
    }
    (kind.class() == ReasonClass::Commit)
        .then_some("take it out; another try might change the same thing twice")
}

/// Returns how something is tried again if all that is said is that it should be.
pub(super) fn default_retry() -> RetryPolicy {
    RetryPolicy {
        attempts: ATTEMPTS,
        backoff: default_backoff(),
        max_delay: None,
        jitter: false,
        retry_on: Vec::new(),
    }
}

impl Lower<'_> {
    /// Reads how something is tried again; `attempts` is the key that says how often.
    pub(super) fn retry(&mut self, node: &YamlNode, attempts: &str) -> Option<RetryPolicy> {
        let is_for_items = attempts == OF_ITEMS;
        let mut fields = self.fields(node)?;
        let attempts = fields.take(attempts).and_then(|node| self.count(node));
        let backoff = self.backoff(&mut fields);
        let max_delay = fields.take("max_delay").and_then(|node| self.limit(node));
        let jitter = fields.take("jitter").is_some_and(|node| self.boolean(node) == Some(true));
        let retry_on = fields.take("retry_on").map(|node| self.retry_on(node, is_for_items));
        let retry_on = retry_on.unwrap_or_default();
        self.finish(fields);
        Some(RetryPolicy {
            attempts: attempts.unwrap_or(ATTEMPTS),
            backoff,
            max_delay,
            jitter,
            retry_on,
        })
    }

    fn retry_on(&mut self, node: &YamlNode, is_for_items: bool) -> Vec<ReasonCode> {
        let codes: Vec<_> = ReasonCode::ALL.iter().map(|kind| (kind.code(), *kind)).collect();
        let mut kinds = Vec::new();
        for entry in self.list(node) {
            let Some(kind) = self.word(entry, &codes) else { continue };
            if let Some(way_out) = never_retried(kind, is_for_items) {
                let message =
                    format!("`{kind}` is never tried again: it has no effect in `retry_on`");
                self.report(Diagnostic::warning(entry.span, message).help(way_out));
            }
            kinds.push(kind);
        }
        kinds
    }

    fn backoff(&mut self, fields: &mut Fields<'_>) -> Backoff {
        let node = fields.take("backoff");
        let Some(node) = node.filter(|node| matches!(node.value, YamlValue::Mapping(_))) else {
            let growth = node.and_then(|node| self.word(node, GROWTHS));
            let initial = fields.take("initial_delay").and_then(|node| self.duration(node));
            return by_name(growth, initial);
        };
        if let Some((key, _)) = fields.take_entry("initial_delay") {
            let message = "`initial_delay` has no effect beside a full `backoff`";
            let help = "put it into `backoff`, as `initial` or `delay`";
            self.report(Diagnostic::error(key.span, message).help(help));
        }
        self.full_backoff(node).unwrap_or_else(default_backoff)
    }

    fn full_backoff(&mut self, node: &YamlNode) -> Option<Backoff> {
        let mut fields = self.fields(node)?;
        let growth = self.required(&mut fields, "type");
        let growth = growth.and_then(|node| self.word(node, GROWTHS))?;
        let first = if growth == Growth::Fixed { "delay" } else { "initial" };
        let initial = fields.take(first).and_then(|node| self.duration(node)).unwrap_or(INITIAL);
        let backoff = match growth {
            Growth::Fixed => Backoff::Fixed { delay: initial },
            Growth::Linear => {
                let increment = fields.take("increment").and_then(|node| self.duration(node));
                Backoff::Linear { initial, increment: increment.unwrap_or(initial) }
            }
            Growth::Exponential => {
                let multiplier = fields.take("multiplier");
                let multiplier = multiplier.and_then(|node| self.number(node, 1.0, 1000.0));
                Backoff::Exponential { initial, multiplier: multiplier.unwrap_or(MULTIPLIER) }
            }
            Growth::Fibonacci => Backoff::Fibonacci { initial },
        };
        self.finish(fields);
        Some(backoff)
    }
}

/// Returns the backoff of a bare name, or of no name at all.
fn by_name(growth: Option<Growth>, initial: Option<Duration>) -> Backoff {
    let initial = initial.unwrap_or(INITIAL);
    match growth {
        Some(Growth::Fixed) => Backoff::Fixed { delay: initial },
        Some(Growth::Linear) => Backoff::Linear { initial, increment: initial },
        Some(Growth::Fibonacci) => Backoff::Fibonacci { initial },
        Some(Growth::Exponential) | None => {
            Backoff::Exponential { initial, multiplier: MULTIPLIER }
        }
    }
}
