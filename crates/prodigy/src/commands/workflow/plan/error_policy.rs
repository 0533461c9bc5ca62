//! The treatment of failed items, in words.

use prodigy_core::{
    duration,
    policy::RetryPolicy,
    workflow::{BreakerConfig, ErrorCollection, ErrorPolicy, OnItemFailure, Preserve},
};

use crate::progress::plural;

/// The most retry delays listed.
const LISTED: u32 = 5;

/// Returns what becomes of items that fail: one sentence for each rule, in the order of
/// the questions that a person asks.
pub(crate) fn describe_error_policy(policy: &ErrorPolicy) -> Vec<String> {
    let mut lines = vec![attempts(policy.retry.as_ref()), describe_exhausted(policy)];
    if !policy.continue_on_failure {
        lines.push("the job stops after the first item that failed".to_owned());
    }
    if let Some(most) = policy.max_failures {
        lines.push(format!("the job stops at {}", plural(most.get(), "failed item")));
    }
    if let Some(share) = policy.failure_threshold {
        let least = policy.min_items;
        lines.push(format!(
            "the job stops if more than {:.0} % of the items failed, judged from {least} on",
            share * 100.0
        ));
    }
    if let Some(most) = policy.systemic_stop {
        lines.push(format!("the job stops at {most} failed items in a row with the same cause"));
    }
    lines.extend(policy.circuit_breaker.as_ref().map(breaker));
    lines.push(match policy.error_collection {
        ErrorCollection::Aggregate => "failures are told at the end".to_owned(),
        ErrorCollection::Immediate => "failures are told as they happen".to_owned(),
        ErrorCollection::Batched { size } => format!("failures are told {size} at a time"),
    });
    lines.push(match policy.preserve_worktrees {
        Preserve::Failed => "worktrees of failed items are kept".to_owned(),
        Preserve::Always => "the worktrees of all items are kept".to_owned(),
        Preserve::Never => "no worktree of an item is kept".to_owned(),
    });
    lines
}

/// Says how often an item is tried, and how long it waits in between.
fn attempts(retry: Option<&RetryPolicy>) -> String {
    let Some(retry) = retry.filter(|retry| retry.attempts.get() > 1) else {
        return "an item that fails is not tried again".to_owned();
    };
    let retries = retry.attempts.get() - 1;
    let wait = |number| {
        let whole = duration::format(retry.delay(number, 1.0));
        if retry.jitter {
            let half = duration::format(retry.delay(number, 0.0));
            return format!("{half} to {whole}");
        }
        whole
    };
    let mut waits: Vec<_> = (1..=retries.min(LISTED)).map(wait).collect();
    if retries > LISTED {
        waits.push("…".to_owned());
    }
    let kinds: Vec<_> = retry.retry_on.iter().map(|kind| format!("`{kind}`")).collect();
    let kinds =
        if kinds.is_empty() { String::new() } else { format!(", only after {}", kinds.join(", ")) };
    format!("an item is tried up to {} times, after {}{kinds}", retry.attempts, waits.join(", "))
}

/// Says what becomes of an item whose attempts are used up.
fn describe_exhausted(policy: &ErrorPolicy) -> String {
    match &policy.on_item_failure {
        OnItemFailure::Dlq | OnItemFailure::Retry => {
            "then it goes into the dead letter queue".to_owned()
        }
        OnItemFailure::Skip => "then it is left out".to_owned(),
        OnItemFailure::Stop => {
            "then it goes into the dead letter queue, and the job stops".to_owned()
        }
        OnItemFailure::Custom(name) => {
            let steps = policy.handlers.get(name).map_or(0, Vec::len);
            format!("then the handler `{name}` runs ({})", plural(steps, "step"))
        }
    }
}

fn breaker(breaker: &BreakerConfig) -> String {
    format!(
        "after {} in a row nothing starts for {}; then up to {} at once, and {} make all start again",
        plural(breaker.failure_threshold.get(), "failure"),
        duration::format(breaker.timeout),
        plural(breaker.half_open_requests.get(), "trial"),
        plural(breaker.success_threshold.get(), "success").replace("successs", "successes"),
    )
}
